package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"toolgate/internal/audit/metrics"
	"toolgate/internal/config"
	"toolgate/internal/console"
	"toolgate/internal/httpauth"
	"toolgate/policy"
)

// HTTPOptions say how to serve over HTTP.
type HTTPOptions struct {
	Addr        string // "" for stdio
	TLSCert     string
	TLSKey      string
	BehindProxy bool
}

// check reports whether the address is a loopback one. Others need TLS, which protects the tokens.
func (h *HTTPOptions) check() (loopback bool, err error) {
	host, _, err := net.SplitHostPort(h.Addr)
	if err != nil {
		return false, &policy.ValueError{What: "address", Value: h.Addr, Known: "HOST:PORT, such as 127.0.0.1:8321"}
	}
	addr, err := netip.ParseAddr(host)
	loopback = host == "localhost" || err == nil && addr.IsLoopback()
	switch {
	case (h.TLSCert == "") != (h.TLSKey == ""):
		return false, errors.New("--tls-cert and --tls-key belong together")
	case !loopback && h.TLSCert == "" && !h.BehindProxy:
		return false, fmt.Errorf("%s is not a loopback address: give --tls-cert and --tls-key, "+
			"or --behind-proxy when a proxy in front speaks TLS", h.Addr)
	}
	return loopback, nil
}

// tokenVariable holds the token of the caller "default".
const tokenVariable = "TOOLGATE_HTTP_TOKEN"

// defaultToken returns the token of the caller "default": secret, which is the environment's, else
// one that is created once and kept in a file.
func (o *Options) defaultToken(secret, stateDir string) (httpauth.Token, error) {
	if secret != "" {
		if len(secret) < httpauth.MinToken {
			return httpauth.Token{}, fmt.Errorf("%s is shorter than %d characters", tokenVariable, httpauth.MinToken)
		}
		return httpauth.TokenOf("default", secret), nil
	}
	path := filepath.Join(stateDir, "http-token")
	secret, err := httpauth.LoadOrCreateToken(path)
	if err != nil {
		return httpauth.Token{}, fmt.Errorf("reading the token: %w", err)
	}
	fmt.Fprintf(o.Stderr, "toolgate: the token is in %s\n", path)
	return httpauth.TokenOf("default", secret), nil
}

// An httpServer is the gate over HTTP.
type httpServer struct {
	log      *slog.Logger
	auth     *httpauth.Authenticator
	tenants  *tenants
	metrics  *metrics.Metrics
	mux      *http.ServeMux
	http     *http.Server
	console  *console.Console
	draining atomic.Bool
}

// Limits for clients that are not authenticated yet.
const (
	headerTime     = 5 * time.Second
	idleTime       = 2 * time.Minute
	maxHeaders     = 64 << 10
	maxConnections = 4096
)

// ServeHTTP serves callers over HTTP until ctx ends and the requests in progress are answered.
func (o *Options) ServeHTTP(ctx context.Context, over HTTPOptions) error {
	loopback, err := over.check()
	if err != nil {
		return err
	}
	secret := os.Getenv(tokenVariable)
	os.Unsetenv(tokenVariable) // no process that is started needs it
	s, err := o.Load()
	if err != nil {
		return err
	}
	if err := s.control.addFiles(over.TLSCert, over.TLSKey); err != nil {
		return err
	}
	if err := o.checkCallers(s.Config.HTTP); err != nil {
		return err
	}
	o.recoverCallers(s.Config.HTTP)
	own, err := o.defaultToken(secret, s.StateDir)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", over.Addr)
	if err != nil {
		return err
	}
	h, stop, err := o.newHTTPServer(s, own, loopback && !over.BehindProxy)
	if err != nil {
		l.Close()
		return err
	}
	defer stop()
	limited := httpauth.LimitListener(l, min(maxConnections, max(maxOpenFiles()/2, 64)))
	h.metrics.Gauge("http_connections", "Connections that are open.",
		func() float64 { return float64(limited.Open()) })
	scheme := "http"
	if over.TLSCert != "" {
		scheme = "https"
	}
	defer h.announceConsole(s, scheme, l.Addr())()
	fmt.Fprintf(o.Stderr, "toolgate: serving MCP at %s://%s/mcp\n", scheme, l.Addr())
	served := make(chan error, 1)
	go func() { // ends with h.http
		if scheme == "https" {
			served <- h.http.ServeTLS(limited, over.TLSCert, over.TLSKey)
			return
		}
		served <- h.http.Serve(limited)
	}()
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	h.drain()
	return err
}

// newHTTPServer returns the server. Stop ends the watcher of its config.
func (o *Options) newHTTPServer(s *Settings, own httpauth.Token, loopback bool) (
	h *httpServer, stop func(), err error,
) {
	c := s.Config.HTTP
	h = &httpServer{log: s.Log, metrics: metrics.New(), mux: http.NewServeMux()}
	o.OnEvent = h.metrics.Record
	o.Outputs = &console.Outputs{}
	tokens, err := tokensOf(own, c)
	if err != nil {
		return nil, nil, err
	}
	auth := httpauth.Options{
		Tokens:   tokens,
		Loopback: loopback,
		Hosts:    c.Hosts,
		Origins:  c.Origins,
		Log:      s.Log,
		Rate:     cmp.Or(c.RateLimit, 50),
		Refused:  h.metrics.Refused,
	}
	auth.Burst = cmp.Or(c.RateBurst, int(4*auth.Rate))
	if c.OAuth.Enabled() {
		auth.OAuth = &httpauth.OAuth{
			Issuer:   c.OAuth.Issuer,
			Audience: cmp.Or(c.OAuth.Audience, c.OAuth.Resource),
			Resource: c.OAuth.Resource,
			JWKSURL:  c.OAuth.JWKSURL,
			Scopes:   c.OAuth.Scopes,
		}
	}
	h.auth = httpauth.New(auth)
	h.tenants = newTenants(o, c, s.Log)
	h.metrics.Gauge("http_sessions", "Open sessions of session-based protocol versions.", h.tenants.sessions)
	h.metrics.Gauge("http_callers", "Callers with sessions, approvals or worker processes.", h.tenants.count)
	h.mount(c.OpenMetrics)
	h.openConsole(s, o.Outputs)
	h.http = &http.Server{
		Handler:           h.auth.Filter(h.mux),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeaders,
		ConnContext:       httpauth.ConnContext,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	// Open one tenant now: the first caller need not wait, and faults of the config show at the start.
	_, done, err := h.tenants.enter(httpauth.Caller{Name: "token:" + own.Name, Token: own.Name})
	if err != nil {
		return nil, nil, err
	}
	done()
	file := filepath.Join(s.ConfigDir, "config.toml")
	return h, watch(s.Log, watchedConfig(file, func() { h.reread(o, file, own) })), nil
}

// reread applies the tokens of the config file.
func (h *httpServer) reread(o *Options, file string, own httpauth.Token) {
	c, err := o.configAt(file)
	var tokens []httpauth.Token
	if err == nil {
		tokens, err = tokensOf(own, c.HTTP)
	}
	if err == nil {
		err = o.checkCallers(c.HTTP)
	}
	if err != nil {
		h.log.Error("the tokens of the config stay as they were", "err", err)
		return
	}
	h.auth.SetTokens(tokens)
	h.tenants.update(c.HTTP)
}

// tokensOf returns the accepted tokens: our own and those of the config.
func tokensOf(own httpauth.Token, c config.HTTP) ([]httpauth.Token, error) {
	tokens := []httpauth.Token{own}
	for name, t := range c.Tokens {
		token, err := httpauth.ParseToken(name, t.Hash)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}

// mount registers the handlers.
func (h *httpServer) mount(openMetrics bool) {
	h.mux.Handle("/mcp", h.auth.Require(h.tenants))
	h.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	h.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if h.draining.Load() {
			http.Error(w, "ending", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	numbers := h.metrics.Handler()
	if !openMetrics {
		numbers = h.auth.Require(numbers)
	}
	h.mux.Handle("GET /metrics", numbers)
	h.auth.MountMetadata(h.mux)
}

// openConsole mounts the console of all callers at /console. A link from `toolgate console`, which
// takes access to the state folder, opens it. A caller's token does not, because no caller may
// answer for another.
func (h *httpServer) openConsole(s *Settings, outputs *console.Outputs) {
	about := console.About{Workspace: "all callers over HTTP"}
	o := console.Options{About: about, Outputs: outputs, Hosts: s.Config.HTTP.Hosts}
	h.console = s.consoleOf(h.tenants.apps, o)
	h.mux.Handle("/console/", h.console)
	h.mux.Handle("GET /console", http.RedirectHandler("/console/", http.StatusSeeOther))
}

// announceConsole announces the console to `toolgate console`.
func (h *httpServer) announceConsole(s *Settings, scheme string, at net.Addr) (remove func()) {
	url := scheme + "://" + at.String()
	if addr, err := netip.ParseAddrPort(at.String()); err == nil && addr.Addr().IsUnspecified() {
		url = fmt.Sprintf("%s://127.0.0.1:%d", scheme, addr.Port())
		if addr.Addr().Is6() {
			url = fmt.Sprintf("%s://[::1]:%d", scheme, addr.Port())
		}
	}
	remove, err := h.console.Announce(s.ConsolesDir(), url)
	if err != nil {
		s.Log.Warn("`toolgate console` does not find this console", "err", err)
		return func() {}
	}
	return remove
}

// drainTime limits how long requests in progress may take at the end.
const drainTime = 25 * time.Second

// drain ends the service: it refuses new requests and answers those in progress.
func (h *httpServer) drain() {
	h.draining.Store(true)
	h.console.Close() // an open page must not delay the end
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	h.tenants.drain(ctx)
	if err := h.http.Shutdown(ctx); err != nil {
		h.http.Close()
	}
}
