package netproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
	"time"

	"toolgate/internal/hostname"
	"toolgate/policy"
)

// A clientConn is a connection from a command. Closing it releases its slot.
type clientConn struct {
	net.Conn
	prefix  []byte // already read, returned again by Read
	onClose func() // called after closing
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

// A connListener is a [net.Listener] for connections accepted elsewhere.
type connListener struct {
	conns  chan net.Conn
	closed <-chan struct{}
}

func (h *connListener) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close does nothing: the listener ends with the Proxy.
func (h *connListener) Close() error { return nil }

func (h *connListener) Addr() net.Addr { return &net.TCPAddr{} }

// initHTTP sets up the HTTP server. The standard library parses and rewrites every
// request in full, which prevents request smuggling.
func (p *Proxy) initHTTP() {
	p.transport = &http.Transport{
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

// requesterKey is the context key of a forwarded request's [requester], which the
// transport needs for dialing.
type requesterKey struct{}

// dialForTransport connects to addr, whose name has been authorized.
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
		writeText(w, http.StatusBadRequest,
			"this is the proxy of toolgate's sandbox, not a server: set http_proxy and https_proxy to it")
	}
}

// commandOf returns the command that a request comes from, or "" if unknown. It only
// determines who is told of a refusal.
func commandOf(r *http.Request) string {
	credentials := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	name, _, _ := credentials.BasicAuth()
	return name
}

// serveConnect opens a tunnel.
func (p *Proxy) serveConnect(w http.ResponseWriter, r *http.Request, command string) {
	// The raw target: parsing it as a URL would drop a user name.
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
	client := conn.(*clientConn) // as Serve made it
	defer client.Close()
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	client.SetDeadline(time.Time{})
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		server.Close()
		return
	}
	p.tunnel(client, bytes.Clone(early), server)
}

// serveForward forwards a request for an http:// URL.
func (p *Proxy) serveForward(w http.ResponseWriter, r *http.Request, command string) {
	if r.URL.Scheme != "http" {
		writeText(w, http.StatusBadRequest, fmt.Sprintf(
			"cannot forward %s:// addresses, only http://; use CONNECT or SOCKS5 for other protocols", r.URL.Scheme))
		return
	}
	if r.URL.User != nil {
		writeText(w, http.StatusBadRequest, "cannot forward an address with a user name; send a header instead")
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

// usesPath is the path at which a worker asks which hosts one of its commands used.
const usesPath = "/uses"

func (p *Proxy) serveUses(w http.ResponseWriter, r *http.Request, command string) {
	since, err := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	if err != nil || command == "" {
		writeText(w, http.StatusBadRequest, "command and time are required")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(p.usesOf(command, time.Unix(0, since)))
}

// writeError tells a program why it gets no connection.
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
	http.Error(w, "toolgate: "+text, status)
}

// tunnel copies in both directions between client and server until both sides are
// done or one fails. It closes server. early holds client bytes read before.
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
	back.Go(func() { // ends when either connection does
		copyOneWay(client.Conn, server)
	})
	copyOneWay(server, client.Conn)
	back.Wait()
}

// copyOneWay copies until EOF and then closes the write side of to. On failure it
// closes both connections, which ends the other direction too.
func copyOneWay(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err == nil && ok && half.CloseWrite() == nil {
		return
	}
	to.Close()
	from.Close()
}
