package netproxy

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"

	"toolgate/internal/hostname"
	"toolgate/policy"
)

// A clientConn is a connection of a command. It gives its slot back when it is
// closed.
type clientConn struct {
	net.Conn
	prefix []byte // read already, to be read again
	onClose  func() // called once it is closed
}

func (c *clientConn) Read(b []byte) (int, error) {
	if len(c.prefix) > 0 {
		n := copy(b, c.prefix)
		c.prefix = c.prefix[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

func (c *clientConn) Close() error {
	err := c.Conn.Close()
	c.onClose()
	return err
}

// connListener is a listener of connections that were accepted elsewhere.
type connListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func newConnListener() *connListener {
	return &connListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// deliver reports whether somebody has taken c.
func (h *connListener) deliver(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.closed:
		return false
	}
}

func (h *connListener) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *connListener) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *connListener) Addr() net.Addr { return &net.TCPAddr{} }

// initHTTP makes the server for HTTP. A request is read and written anew by
// the standard library, in full: what two readers could take for two different
// requests does not pass.
func (p *Proxy) initHTTP() {
	p.transport = &http.Transport{
		Proxy:                  nil,
		DialContext:            p.dialForTransport,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 1 << 20,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        30 * time.Second,
		ExpectContinueTimeout:  time.Second,
	}
	discard := log.New(io.Discard, "", 0)
	p.forward = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.Host = r.Out.URL.Host },
		Transport: p.transport,
		ModifyResponse: func(r *http.Response) error {
			if who, ok := r.Request.Context().Value(requesterKey{}).(requester); ok {
				p.recordReached(who, who.target)
			}
			return nil
		},
		FlushInterval: -1,
		ErrorLog:      discard,
		ErrorHandler:  func(w http.ResponseWriter, r *http.Request, err error) { writeError(w, err) },
	}
	p.http = &http.Server{
		Handler:                      http.HandlerFunc(p.serveHTTP),
		ReadHeaderTimeout:            headerTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeader,
		ErrorLog:                     discard,
		DisableGeneralOptionsHandler: true,
		BaseContext:                  func(net.Listener) context.Context { return p.ctx },
	}
	p.wg.Go(func() { p.http.Serve(p.httpConns) }) // ends with Close
}

// requesterKey is the context key of the [requester] of a forwarded request: the
// transport dials without knowing for which request.
type requesterKey struct{}

// dialForTransport connects to addr, whose name the handler has let pass.
func (p *Proxy) dialForTransport(ctx context.Context, _, addr string) (net.Conn, error) {
	host, port, err := hostname.ParseWithPort(addr, 0)
	if err != nil {
		return nil, err
	}
	who, _ := ctx.Value(requesterKey{}).(requester)
	return p.connect(ctx, who, policy.HostTarget{Host: host, Port: port, Protocol: policy.ProtocolHTTP})
}

func (p *Proxy) serveHTTP(w http.ResponseWriter, r *http.Request) {
	command := commandOf(r)
	switch {
	case r.Method == http.MethodConnect:
		p.serveConnect(w, r, command)
	case r.URL.IsAbs():
		p.serveForward(w, r, command)
	case r.Method == http.MethodGet && r.URL.Path == usesPath:
		p.serveUses(w, r, command)
	default:
		writeText(w, http.StatusBadRequest, "this is the proxy of toolgate's sandbox, and no server: set http_proxy and https_proxy to it")
	}
}

// commandOf returns which command a request comes from, "" when it does not
// say. Nothing depends on it but who is told of a refusal.
func commandOf(r *http.Request) string {
	_, encoded, _ := strings.Cut(r.Header.Get("Proxy-Authorization"), " ")
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(string(text), ":")
	return name
}

// serveConnect makes a tunnel.
func (p *Proxy) serveConnect(w http.ResponseWriter, r *http.Request, command string) {
	// As it was sent: a URL would have taken a user name off.
	host, port, err := hostname.ParseWithPort(r.RequestURI, 0)
	if err != nil {
		writeText(w, http.StatusBadRequest, err.Error())
		return
	}
	t := policy.HostTarget{Host: host, Port: port, Protocol: policy.ProtocolHTTPS}
	who, err := p.authorize(r.Context(), command, t)
	if err != nil {
		writeError(w, err)
		return
	}
	server, err := p.connect(r.Context(), who, t)
	if err != nil {
		writeError(w, err)
		return
	}
	p.recordReached(who, t)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		server.Close()
		writeText(w, http.StatusInternalServerError, err.Error())
		return
	}
	client, ok := conn.(*clientConn)
	if !ok {
		panic("bug: a connection that was not accepted here")
	}
	defer client.Close()
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	client.SetDeadline(time.Time{})
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		server.Close()
		return
	}
	p.tunnel(client, bytes.Clone(early), server)
}

// serveForward passes a request for an http:// address on.
func (p *Proxy) serveForward(w http.ResponseWriter, r *http.Request, command string) {
	if r.URL.Scheme != "http" {
		writeText(w, http.StatusBadRequest, fmt.Sprintf("only http:// addresses are passed on, and not %s://; other protocols go through CONNECT or SOCKS5", r.URL.Scheme))
		return
	}
	if r.URL.User != nil {
		writeText(w, http.StatusBadRequest, "an address with a user name in it is not passed on; send a header instead")
		return
	}
	host, port, err := hostname.ParseWithPort(r.URL.Host, 80)
	if err != nil {
		writeText(w, http.StatusBadRequest, err.Error())
		return
	}
	t := policy.HostTarget{Host: host, Port: port, Protocol: policy.ProtocolHTTP}
	who, err := p.authorize(r.Context(), command, t)
	if err != nil {
		writeError(w, err)
		return
	}
	r.URL.Host = t.String()
	p.forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requesterKey{}, who)))
}

// usesPath is where a worker asks what one of its commands reached.
const usesPath = "/uses"

func (p *Proxy) serveUses(w http.ResponseWriter, r *http.Request, command string) {
	since, err := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	if err != nil || command == "" {
		writeText(w, http.StatusBadRequest, "name the command and a time")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(marshalUses(p.usesOf(command, time.Unix(0, since))))
}

// writeError tells a program why there is no connection.
func writeError(w http.ResponseWriter, err error) {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		w.Header().Set("X-Proxy-Error", "blocked-by-policy")
		writeText(w, http.StatusForbidden, refusal.Error())
		return
	}
	status := http.StatusBadGateway
	if errors.Is(err, context.DeadlineExceeded) {
		status = http.StatusGatewayTimeout
	}
	writeText(w, status, err.Error())
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	fmt.Fprintf(w, "toolgate: %s\n", text)
}

// tunnel copies between a client, of whose bytes some were read already, and
// a server, until both have said that they are done or one of them fails.
func (p *Proxy) tunnel(client *clientConn, early []byte, server net.Conn) {
	defer server.Close()
	if !p.track(server) {
		return
	}
	defer p.untrack(server)
	if len(early) > 0 {
		if _, err := server.Write(early); err != nil {
			return
		}
	}
	var back sync.WaitGroup
	back.Go(func() { // ends with either connection
		copyOneWay(client.Conn, server)
	})
	copyOneWay(server, client.Conn)
	back.Wait()
}

// copyOneWay copies until the source is done, and says so to the other side.
// What fails ends both ways: the connections are closed.
func copyOneWay(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err == nil && ok && half.CloseWrite() == nil {
		return
	}
	to.Close()
	from.Close()
}
