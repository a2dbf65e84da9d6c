// Package httpauth authenticates HTTP requests. It checks the Host and Origin
// headers, identifies the caller by its bearer token, and limits request rates.
//
//	a := httpauth.New(httpauth.Options{Tokens: tokens, Loopback: true, Log: log})
//	mux.Handle("/mcp", a.Require(mcpHandler)) // the handler gets the caller from httpauth.From(r.Context())
//	http.Serve(listener, a.Filter(mux))
//
// The zero Options reject every request to a handler that requires a caller.
package httpauth

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"golang.org/x/time/rate"
)

// A Caller is the authenticated sender of a request. State belongs to one caller
// and is never shared with another.
type Caller struct {
	Name  string // "token:NAME" or "oauth:SUBJECT@ISSUER"; unique
	Token string // name of the token, "" for an OAuth caller
	OAuth bool
}

type callerKey struct{}

// From returns the caller of a request that passed [Authenticator.Require].
func From(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// Options configure a [Authenticator].
type Options struct {
	Tokens   []Token
	Loopback bool     // the server listens on a loopback address
	Hosts    []string // allowed host names, besides localhost and IP addresses
	Origins  []string // allowed origins, besides the server's own
	OAuth    *OAuth   // nil: OAuth tokens are rejected
	Log      *slog.Logger

	// Rate limits the requests of one caller per second, with bursts of up to
	// Burst; zero means no limit.
	Rate  float64
	Burst int

	// Refused, if not nil, is called with the reason for each rejected request:
	// "host", "origin", "no-token", "bad-token", "scope", "slowed", "rate" or
	// "oauth-unavailable".
	Refused func(reason string)
}

// An Authenticator protects HTTP handlers. It may be used concurrently.
type Authenticator struct {
	opts     Options
	oauth    *verifier // nil: none
	tokens   atomic.Pointer[[]Token]
	failures *rate.Limiter // of failed attempts, from all clients

	mu       sync.Mutex
	limiters map[string]*rate.Limiter // by caller
}

// New returns an Authenticator.
func New(o Options) *Authenticator {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
	a := &Authenticator{opts: o, failures: rate.NewLimiter(10, 20), limiters: map[string]*rate.Limiter{}}
	if o.OAuth != nil {
		a.oauth = newVerifier(*o.OAuth)
	}
	a.SetTokens(o.Tokens)
	return a
}

// SetTokens replaces the accepted tokens.
func (a *Authenticator) SetTokens(tokens []Token) { a.tokens.Store(&tokens) }

// RequestID is the request header in which [Authenticator.Filter] passes the
// request ID to handlers. Clients get it as X-Request-Id.
const RequestID = "Toolgate-Request"

// bodyTimeout limits how long a client may take to send a request body.
const bodyTimeout = 30 * time.Second

// Filter wraps the outermost handler. It assigns request IDs, logs requests, and
// rejects those with a foreign Host or Origin, which a web page may have sent.
func (a *Authenticator) Filter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := rand.Text()[:12]
		r.Header.Set(RequestID, id)
		h := w.Header()
		h.Set("X-Request-Id", id)
		h.Set("X-Content-Type-Options", "nosniff")
		if r.ContentLength != 0 { // a handler that needs longer resets the deadline
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		}
		began := time.Now()
		out := &statusRecorder{ResponseWriter: w}
		if reason, why := a.checkOrigin(r); reason != "" {
			a.opts.Log.Warn("request refused", "request", id, "from", r.RemoteAddr, "why", why)
			a.refuse(out, reason, why, http.StatusForbidden)
			return
		}
		next.ServeHTTP(out, r)
		status := cmp.Or(out.code, http.StatusOK)
		a.opts.Log.Debug("request", "request", id, "from", r.RemoteAddr,
			"method", r.Method, "path", r.URL.Path, "status", status, "took", time.Since(began))
	})
}

// A statusRecorder notes the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	code int // 0 if the handler does not set it, which means 200
}

func (s *statusRecorder) WriteHeader(code int) {
	if s.code == 0 {
		s.code = code
	}
	s.ResponseWriter.WriteHeader(code)
}

// Flush implements [http.Flusher].
func (s *statusRecorder) Flush() { _ = http.NewResponseController(s.ResponseWriter).Flush() }

// Unwrap supports [http.ResponseController].
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// checkOrigin rejects requests that a web page may have sent: reason is "" if the
// request is fine. A page can choose the host name that it reaches us by (DNS
// rebinding), but it cannot forge the Host or Origin header.
func (a *Authenticator) checkOrigin(r *http.Request) (reason, why string) {
	if !a.hostAllowed(r.Host) {
		return "host", "this Host is not allowed; add it to http.hosts to allow it"
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		own := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host == r.Host
		if !own && !slices.Contains(a.opts.Origins, origin) {
			return "origin", "this Origin is not allowed; add it to http.origins to allow it"
		}
	}
	return "", ""
}

func (a *Authenticator) hostAllowed(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	named := func(h string) bool { return strings.EqualFold(h, name) || strings.EqualFold(h, host) }
	if name == "localhost" || slices.ContainsFunc(a.opts.Hosts, named) {
		return true
	}
	// DNS rebinding needs a name; an address is safe.
	addr, err := netip.ParseAddr(name)
	return err == nil && (addr.IsLoopback() || !a.opts.Loopback)
}

var (
	errNoToken  = errors.New("a token is required: Authorization: Bearer TOKEN")
	errBadToken = errors.New("invalid token")
)

// Require wraps a handler that needs a caller. It rejects requests without a valid
// token and those that exceed the caller's rate. See [From].
func (a *Authenticator) Require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := a.caller(r)
		if err != nil {
			a.reject(w, r, err)
			return
		}
		markAuthenticated(r.Context())
		if wait := a.throttle(c); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			a.refuse(w, "rate", "too many requests", http.StatusTooManyRequests)
			return
		}
		r.Header.Del("Authorization") // handlers must not see the token
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

func (a *Authenticator) caller(r *http.Request) (Caller, error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return Caller{}, errNoToken
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "bearer") {
		return Caller{}, errNoToken
	}
	token = strings.TrimSpace(token)
	if t, ok := match(*a.tokens.Load(), token); ok {
		return Caller{Name: "token:" + t.Name, Token: t.Name}, nil
	}
	if a.oauth != nil && strings.Count(token, ".") == 2 {
		return a.oauth.caller(r.Context(), token)
	}
	return Caller{}, errBadToken
}

// maxLimiters limits the number of callers whose rates are tracked.
const maxLimiters = 4096

// throttle returns how long the caller must wait before this request, 0 if not at all.
func (a *Authenticator) throttle(c Caller) time.Duration {
	if a.opts.Rate <= 0 {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l, ok := a.limiters[c.Name]
	if !ok {
		if len(a.limiters) >= maxLimiters {
			clear(a.limiters)
		}
		l = rate.NewLimiter(rate.Limit(a.opts.Rate), max(a.opts.Burst, 1))
		a.limiters[c.Name] = l
	}
	turn := l.Reserve()
	wait := turn.Delay()
	if wait > 0 {
		turn.Cancel()
	}
	return wait
}

// maxDelay is the longest delay of the answer to a failed attempt.
const maxDelay = 3 * time.Second

// reject answers an unauthenticated request. Failed attempts from all clients share
// one rate limit, which slows down guessing.
func (a *Authenticator) reject(w http.ResponseWriter, r *http.Request, err error) {
	a.opts.Log.Warn("request refused", "request", r.Header.Get(RequestID),
		"from", r.RemoteAddr, "path", r.URL.Path, "why", err)
	lacks, isScope := errors.AsType[*scopeError](err)
	switch {
	case isScope:
		w.Header().Set("WWW-Authenticate", a.challenge(`error="insufficient_scope"`))
		a.refuse(w, "scope", lacks.Error(), http.StatusForbidden)
		return
	case errors.Is(err, errNoToken):
		w.Header().Set("WWW-Authenticate", a.challenge(""))
		a.refuse(w, "no-token", err.Error(), http.StatusUnauthorized)
		return
	}
	turn := a.failures.Reserve()
	if turn.Delay() > maxDelay {
		turn.Cancel()
		w.Header().Set("Retry-After", "10")
		a.refuse(w, "slowed", "too many failed attempts", http.StatusTooManyRequests)
		return
	}
	select {
	case <-time.After(turn.Delay()):
	case <-r.Context().Done():
	}
	if !errors.Is(err, errBadToken) && !errors.Is(err, auth.ErrInvalidToken) {
		// The authorization server is unreachable, so the token may be valid.
		w.Header().Set("Retry-After", "5")
		a.refuse(w, "oauth-unavailable", "authorization server unavailable; try again later",
			http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("WWW-Authenticate", a.challenge(`error="invalid_token"`))
	a.refuse(w, "bad-token", errBadToken.Error(), http.StatusUnauthorized)
}

// refuse answers a request with an error and reports it to [Options.Refused].
func (a *Authenticator) refuse(w http.ResponseWriter, reason, text string, code int) {
	a.opts.Refused(reason)
	http.Error(w, text, code)
}

// challenge returns a WWW-Authenticate header (RFC 6750, RFC 9728).
func (a *Authenticator) challenge(problem string) string {
	params := []string{`realm="toolgate"`}
	if problem != "" {
		params = append(params, problem)
	}
	if a.oauth != nil {
		params = append(params, fmt.Sprintf("resource_metadata=%q", a.oauth.o.metadataURL()))
		if len(a.oauth.o.Scopes) > 0 {
			params = append(params, fmt.Sprintf("scope=%q", strings.Join(a.oauth.o.Scopes, " ")))
		}
	}
	return "Bearer " + strings.Join(params, ", ")
}
