package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"toolgate/door"
	"toolgate/policy"
	"toolgate/server"
)

// httpFlags say how to serve over HTTP.
type httpFlags struct {
	addr        string // "" for stdio
	tlsCert     string
	tlsKey      string
	behindProxy bool
}

func (h *httpFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&h.addr, "http", "", "serve streamable HTTP at `HOST:PORT`, path /mcp, instead of stdio")
	f.StringVar(&h.tlsCert, "tls-cert", "", "certificate `FILE` (PEM) for --http")
	f.StringVar(&h.tlsKey, "tls-key", "", "private key `FILE` (PEM) for --http")
	f.BoolVar(&h.behindProxy, "behind-proxy", false, "a proxy that speaks TLS stands before --http")
}

// check returns whether the address is a loopback one. On others tokens would
// travel readable for everybody on the way.
func (h *httpFlags) check() (loopback bool, err error) {
	host, _, err := net.SplitHostPort(h.addr)
	if err != nil {
		return false, &policy.ValueError{What: "address", Value: h.addr, Known: "HOST:PORT, such as 127.0.0.1:8321"}
	}
	addr, err := netip.ParseAddr(host)
	loopback = host == "localhost" || err == nil && addr.IsLoopback()
	switch {
	case (h.tlsCert == "") != (h.tlsKey == ""):
		return false, errors.New("--tls-cert and --tls-key belong together")
	case !loopback && h.tlsCert == "" && !h.behindProxy:
		return false, fmt.Errorf("%s is not a loopback address: give --tls-cert and --tls-key, or --behind-proxy when a proxy in front speaks TLS", h.addr)
	}
	return loopback, nil
}

// tokenVariable holds the token of the caller "default".
const tokenVariable = "TOOLGATE_HTTP_TOKEN"

// defaultToken returns the token of the caller "default": the environment's,
// else one that is made once and kept in a file.
func (p *program) defaultToken(stateDir string) (door.Token, error) {
	if secret := os.Getenv(tokenVariable); secret != "" {
		os.Unsetenv(tokenVariable)
		if len(secret) < door.MinToken {
			return door.Token{}, fmt.Errorf("%s is shorter than %d characters", tokenVariable, door.MinToken)
		}
		return door.TokenOf("default", secret), nil
	}
	path := filepath.Join(stateDir, "http-token")
	secret, err := door.KeptToken(path)
	if err != nil {
		return door.Token{}, fmt.Errorf("reading the token: %w", err)
	}
	fmt.Fprintf(p.stderr, "toolgate: the token is in %s\n", path)
	return door.TokenOf("default", secret), nil
}

// An httpServer is the gate over HTTP.
type httpServer struct {
	log      *slog.Logger
	endpoint *server.Endpoint
	http     *http.Server
}

// serveHTTP serves callers over HTTP until ctx ends and the answers still
// owed are written.
func (p *program) serveHTTP(ctx context.Context) error {
	loopback, err := p.http.check()
	if err != nil {
		return err
	}
	a, err := p.open()
	if err != nil {
		return err
	}
	defer a.close()
	defer p.watchConfig(a)()
	token, err := p.defaultToken(a.stateDir)
	if err != nil {
		return err
	}
	d := door.New(door.Options{Tokens: []door.Token{token}, Loopback: loopback, Log: a.log})
	h := &httpServer{log: a.log, endpoint: a.server.NewEndpoint(server.EndpointOptions{Caller: "token:" + token.Name})}
	mux := http.NewServeMux()
	mux.Handle("/mcp", d.Guard(h.endpoint))
	h.http = &http.Server{
		Handler:           d.Front(mux),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	l, err := net.Listen("tcp", p.http.addr)
	if err != nil {
		return err
	}
	scheme := "http"
	if p.http.tlsCert != "" {
		scheme = "https"
	}
	fmt.Fprintf(p.stderr, "toolgate: serving MCP at %s://%s/mcp\n", scheme, l.Addr())
	served := make(chan error, 1)
	go func() { // ends with h.http
		if scheme == "https" {
			served <- h.http.ServeTLS(l, p.http.tlsCert, p.http.tlsKey)
			return
		}
		served <- h.http.Serve(l)
	}()
	select {
	case err := <-served:
		h.endpoint.Close()
		return err
	case <-ctx.Done():
	}
	h.drain()
	return nil
}

// drainTime is how long the answers still owed may take at the end.
const drainTime = 25 * time.Second

// drain ends the service: what is asked for now is refused, what was asked
// for is answered.
func (h *httpServer) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := h.endpoint.Drain(ctx); err != nil {
		h.log.Warn("some calls got no answer", "err", err)
	}
	h.endpoint.Close()
	if err := h.http.Shutdown(ctx); err != nil {
		h.http.Close()
	}
}
