// Package httpauth lets in over HTTP only who belongs: it checks where a request
// says it goes to and comes from, finds out whose it is, and says no to the
// rest.
//
//	d := httpauth.New(httpauth.Options{Tokens: tokens, Loopback: true, Log: log})
//	mux.Handle("/mcp", d.Require(mcpHandler))   // behind it, httpauth.From(r.Context()) is the caller
//	http.Serve(listener, d.Filter(mux))
//
// Nothing is open unless it is mounted so: the zero Options let nobody in.
package httpauth

import (
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

// A Caller is who a request comes from. What the server keeps for a request
// belongs to its caller and is never seen by another.
type Caller struct {
	Name  string // "token:NAME" or "oauth:SUBJECT@ISSUER"; unique
	Token string // name of the token, "" for a caller of OAuth
	OAuth bool
}

type callerKey struct{}

// From returns the caller that [Authenticator.Require] has let in.
func From(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// Options configure a [Authenticator].
type Options struct {
	Tokens   []Token
	Loopback bool     // the address listened on is a loopback one
	Hosts    []string // names by which the server may be addressed, beside addresses
	Origins  []string // that pages may come from, beside the server's own
	OAuth    *OAuth   // nil: tokens of nobody else are taken
	Log      *slog.Logger

	// Rate is how many requests a caller may make in a second, and Burst how
	// many at once; zero means as many as it likes.
	Rate  float64
	Burst int

	// Refused, if set, is told why a request was not let in: "host", "origin",
	// "no-token", "bad-token", "scope", "slowed", "rate".
	Refused func(reason string)
}

// A Authenticator guards handlers. It may be used concurrently.
type Authenticator struct {
	opts   Options
	log    *slog.Logger
	oauth  *verifier // nil: none
	tokens atomic.Pointer[[]Token]
	failures  *rate.Limiter // of attempts that fail

	mu    sync.Mutex
	limiters map[string]*rate.Limiter // by caller
}

// New returns a Authenticator.
func New(o Options) *Authenticator {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
	d := &Authenticator{opts: o, log: o.Log, failures: rate.NewLimiter(10, 20), limiters: map[string]*rate.Limiter{}}
	if o.OAuth != nil {
		d.oauth = newVerifier(*o.OAuth)
	}
	d.SetTokens(o.Tokens)
	return d
}

// SetTokens makes tokens those that let in, from the next request on.
func (d *Authenticator) SetTokens(tokens []Token) { d.tokens.Store(&tokens) }

// RequestID is the header that carries the name of a request in the log and
// the record, on the way in to handlers and on the way out to the client.
const RequestID = "Toolgate-Request"

// bodyTimeout is how long a body may take that nobody has asked for.
const bodyTimeout = 30 * time.Second

// Filter stands before all handlers: it names each request, and refuses those
// that a page in somebody's browser may have sent.
func (d *Authenticator) Filter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := rand.Text()[:12]
		r.Header.Set(RequestID, id)
		h := w.Header()
		h.Set("X-Request-Id", id)
		h.Set("X-Content-Type-Options", "nosniff")
		if r.ContentLength != 0 { // who sends a body must come to its end; who needs longer says so
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		}
		began := time.Now()
		out := &statusRecorder{ResponseWriter: w}
		if reason, why := d.checkOrigin(r); reason != "" {
			d.opts.Refused(reason)
			d.log.Warn("request refused", "request", id, "from", r.RemoteAddr, "why", why)
			http.Error(out, why, http.StatusForbidden)
			return
		}
		next.ServeHTTP(out, r)
		d.log.Debug("request", "request", id, "from", r.RemoteAddr, "method", r.Method, "path", r.URL.Path, "status", out.code, "took", time.Since(began))
	})
}

// A statusRecorder notes the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	code int
}

func (s *statusRecorder) WriteHeader(code int) {
	if s.code == 0 {
		s.code = code
	}
	s.ResponseWriter.WriteHeader(code)
}

func (s *statusRecorder) Write(b []byte) (int, error) {
	if s.code == 0 {
		s.code = http.StatusOK
	}
	return s.ResponseWriter.Write(b)
}

// Flush is for handlers that stream.
func (s *statusRecorder) Flush() { _ = http.NewResponseController(s.ResponseWriter).Flush() }

// Unwrap is for [http.ResponseController].
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// checkOrigin says why a request may come from a page that has no business here;
// reason is "" when it does not. A page can choose the name it reaches us by (DNS
// rebinding), but not hide it, nor where it comes from itself.
func (d *Authenticator) checkOrigin(r *http.Request) (reason, why string) {
	if !d.hostAllowed(r.Host) {
		return "host", "this Host is not served here; name it in http.hosts if it should be"
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		own := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host == r.Host
		if !own && !slices.Contains(d.opts.Origins, origin) {
			return "origin", "this Origin is not allowed here; name it in http.origins if it should be"
		}
	}
	return "", ""
}

func (d *Authenticator) hostAllowed(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if slices.ContainsFunc(d.opts.Hosts, func(h string) bool { return strings.EqualFold(h, name) || strings.EqualFold(h, host) }) {
		return true
	}
	if name == "localhost" {
		return true
	}
	// An address cannot be rebound to another.
	addr, err := netip.ParseAddr(name)
	return err == nil && (addr.IsLoopback() || !d.opts.Loopback)
}

// Why requests are refused.
var (
	errNoToken  = errors.New("a token is required: Authorization: Bearer TOKEN")
	errBadToken = errors.New("this token is not good here")
)

// Require lets in requests with a good token.
func (d *Authenticator) Require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := d.caller(r)
		if err != nil {
			d.reject(w, r, err)
			return
		}
		markAuthenticated(r.Context())
		if wait := d.throttle(c); wait > 0 {
			d.opts.Refused("rate")
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		r.Header.Del("Authorization") // nobody behind the door needs it
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

func (d *Authenticator) caller(r *http.Request) (Caller, error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return Caller{}, errNoToken
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "bearer") {
		return Caller{}, errNoToken
	}
	token = strings.TrimSpace(token)
	if t, ok := match(*d.tokens.Load(), token); ok {
		return Caller{Name: "token:" + t.Name, Token: t.Name}, nil
	}
	if d.oauth != nil && strings.Count(token, ".") == 2 {
		return d.oauth.caller(r.Context(), token)
	}
	return Caller{}, errBadToken
}

// maxLimiters bounds how many callers are told apart at a time.
const maxLimiters = 4096

// throttle returns how long a caller must wait before its next request.
func (d *Authenticator) throttle(c Caller) time.Duration {
	if d.opts.Rate <= 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l, ok := d.limiters[c.Name]
	if !ok {
		if len(d.limiters) >= maxLimiters {
			clear(d.limiters)
		}
		l = rate.NewLimiter(rate.Limit(d.opts.Rate), max(d.opts.Burst, 1))
		d.limiters[c.Name] = l
	}
	turn := l.Reserve()
	wait := turn.Delay()
	if wait > 0 {
		turn.Cancel()
	}
	return wait
}

// maxDelay is how long a failed attempt is kept waiting at most.
const maxDelay = 3 * time.Second

// reject answers a request that is not let in. Attempts that fail wait for
// their turn, so that guessing takes time whoever does it from wherever.
func (d *Authenticator) reject(w http.ResponseWriter, r *http.Request, err error) {
	d.log.Warn("request refused", "request", r.Header.Get(RequestID), "from", r.RemoteAddr, "path", r.URL.Path, "why", err)
	lacks, isScope := errors.AsType[*scopeError](err)
	switch {
	case isScope:
		d.opts.Refused("scope")
		w.Header().Set("WWW-Authenticate", d.challenge(`error="insufficient_scope"`))
		http.Error(w, lacks.Error(), http.StatusForbidden)
		return
	case errors.Is(err, errNoToken):
		d.opts.Refused("no-token")
		w.Header().Set("WWW-Authenticate", d.challenge(""))
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	turn := d.failures.Reserve()
	if turn.Delay() > maxDelay {
		turn.Cancel()
		d.opts.Refused("slowed")
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many failed attempts", http.StatusTooManyRequests)
		return
	}
	select {
	case <-time.After(turn.Delay()):
	case <-r.Context().Done():
	}
	if !errors.Is(err, errBadToken) && !errors.Is(err, auth.ErrInvalidToken) {
		// The authorization server cannot be asked: nobody's fault here.
		d.opts.Refused("oauth-unavailable")
		w.Header().Set("Retry-After", "5")
		http.Error(w, "tokens of the authorization server cannot be checked now", http.StatusServiceUnavailable)
		return
	}
	d.opts.Refused("bad-token")
	w.Header().Set("WWW-Authenticate", d.challenge(`error="invalid_token"`))
	http.Error(w, errBadToken.Error(), http.StatusUnauthorized)
}

// challenge says how to get in (RFC 6750, RFC 9728).
func (d *Authenticator) challenge(problem string) string {
	params := []string{`realm="toolgate"`}
	if problem != "" {
		params = append(params, problem)
	}
	if d.oauth != nil {
		params = append(params, fmt.Sprintf("resource_metadata=%q", d.oauth.o.metadataURL()))
		if len(d.oauth.o.Scopes) > 0 {
			params = append(params, fmt.Sprintf("scope=%q", strings.Join(d.oauth.o.Scopes, " ")))
		}
	}
	return "Bearer " + strings.Join(params, ", ")
}
