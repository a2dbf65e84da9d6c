// Package door lets in over HTTP only who belongs: it checks where a request
// says it goes to and comes from, finds out whose it is, and says no to the
// rest.
//
//	d := door.New(door.Options{Tokens: tokens, Loopback: true, Log: log})
//	mux.Handle("/mcp", d.Guard(mcpHandler))   // behind it, door.From(r.Context()) is the caller
//	http.Serve(listener, d.Front(mux))
//
// Nothing is open unless it is mounted so: the zero Options let nobody in.
package door

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// A Caller is who a request comes from. What the server keeps for a request
// belongs to its caller and is never seen by another.
type Caller struct {
	Name  string // "token:NAME" or "oauth:SUBJECT@ISSUER"; unique
	Token string // name of the token, "" for a caller of OAuth
}

type callerKey struct{}

// From returns the caller that [Door.Guard] has let in.
func From(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// Options configure a [Door].
type Options struct {
	Tokens   []Token
	Loopback bool     // the address listened on is a loopback one
	Hosts    []string // names by which the server may be addressed, beside addresses
	Origins  []string // that pages may come from, beside the server's own
	Log      *slog.Logger
}

// A Door guards handlers. It may be used concurrently.
type Door struct {
	opts  Options
	log   *slog.Logger
	wrong *rate.Limiter // of attempts that fail
}

// New returns a Door.
func New(o Options) *Door {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Door{opts: o, log: o.Log, wrong: rate.NewLimiter(10, 20)}
}

// RequestID is the header that carries the name of a request in the log and
// the record, on the way in to handlers and on the way out to the client.
const RequestID = "Toolgate-Request"

// Front stands before all handlers: it names each request, and refuses those
// that a page in somebody's browser may have sent.
func (d *Door) Front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := rand.Text()[:12]
		r.Header.Set(RequestID, id)
		h := w.Header()
		h.Set("X-Request-Id", id)
		h.Set("X-Content-Type-Options", "nosniff")
		if why := d.foreign(r); why != "" {
			d.log.Warn("request refused", "request", id, "from", r.RemoteAddr, "why", why)
			http.Error(w, why, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// foreign says why a request may come from a page that has no business here,
// "" when it does not. A page can choose the name it reaches us by (DNS
// rebinding), but not hide it, nor where it comes from itself.
func (d *Door) foreign(r *http.Request) string {
	if !d.hostAllowed(r.Host) {
		return "this Host is not served here; name it in http.hosts if it should be"
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		own := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host == r.Host
		if !own && !slices.Contains(d.opts.Origins, origin) {
			return "this Origin is not allowed here; name it in http.origins if it should be"
		}
	}
	return ""
}

func (d *Door) hostAllowed(host string) bool {
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

// errRefused is a request without a good token.
var errRefused = errors.New("a token is required: Authorization: Bearer TOKEN")

// Guard lets in requests with a good token.
func (d *Door) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := d.caller(r)
		if err != nil {
			d.refuse(w, r, err)
			return
		}
		r.Header.Del("Authorization") // nobody behind the door needs it
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

func (d *Door) caller(r *http.Request) (Caller, error) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return Caller{}, errRefused
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "bearer") || token == "" {
		return Caller{}, errRefused
	}
	if t, ok := match(d.opts.Tokens, strings.TrimSpace(token)); ok {
		return Caller{Name: "token:" + t.Name, Token: t.Name}, nil
	}
	return Caller{}, errRefused
}

// maxSlowed is how long a failed attempt is kept waiting at most.
const maxSlowed = 3 * time.Second

// refuse answers a request that is not let in. Attempts that fail wait for
// their turn, so that guessing takes time whoever does it from wherever.
func (d *Door) refuse(w http.ResponseWriter, r *http.Request, err error) {
	d.log.Warn("request refused", "request", r.Header.Get(RequestID), "from", r.RemoteAddr, "path", r.URL.Path, "why", err)
	if r.Header.Get("Authorization") != "" {
		turn := d.wrong.Reserve()
		if turn.Delay() > maxSlowed {
			turn.Cancel()
			w.Header().Set("Retry-After", "10")
			http.Error(w, "too many failed attempts", http.StatusTooManyRequests)
			return
		}
		select {
		case <-time.After(turn.Delay()):
		case <-r.Context().Done():
		}
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="toolgate"`)
	http.Error(w, err.Error(), http.StatusUnauthorized)
}
