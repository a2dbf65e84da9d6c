package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	codeLife    = 2 * time.Minute // of a login link
	sessionLife = 12 * time.Hour  // of a logged-in browser

	maxCodes    = 16 // unused
	maxSessions = 16 // a new one ends the oldest
	maxFailing  = 8  // failing codes that are being answered at once

	badCodeDelay = 300 * time.Millisecond // before an invalid code is rejected
)

// TokenHeader is the request header with the token that the page's scripts hold. A
// request needs it in addition to the cookie.
const TokenHeader = "X-Toolgate-Console"

var (
	errNotLoggedIn = &failure{http.StatusUnauthorized,
		errors.New("not logged in; run `toolgate console` and open the link that it prints")}
	errBadCode = &failure{http.StatusUnauthorized,
		errors.New("this link was used before, has expired, or belongs to another toolgate; " +
			"run `toolgate console` for another")}
	errBusy = &failure{http.StatusTooManyRequests, errors.New("too many invalid codes at once; try again")}
)

// logins keeps the login codes and browser sessions. Codes and tokens are stored as
// digests, so that the time of a lookup reveals nothing about them.
type logins struct {
	cookie  string // cookie name, unique to each gate because they share a host
	failing chan struct{}

	mu       sync.Mutex
	codes    map[digest]time.Time       // expiry by code
	sessions map[digest]*browserSession // by cookie
	closed   bool
}

type digest [sha256.Size]byte

func digestOf(s string) digest { return sha256.Sum256([]byte(s)) }

// A browserSession is one logged-in browser.
type browserSession struct {
	cookie  digest
	token   digest
	until   time.Time
	streams int           // protected by logins.mu
	ended   chan struct{} // closed when the session ends
}

func newLogins() *logins {
	return &logins{
		cookie:   "toolgate-console-" + strings.ToLower(rand.Text()[:10]),
		failing:  make(chan struct{}, maxFailing),
		codes:    map[digest]time.Time{},
		sessions: map[digest]*browserSession{},
	}
}

// newCode returns a new code. If there are too many, the oldest becomes invalid.
func (l *logins) newCode() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	for len(l.codes) >= maxCodes {
		delete(l.codes, slices.MinFunc(slices.Collect(maps.Keys(l.codes)), func(a, b digest) int {
			return l.codes[a].Compare(l.codes[b])
		}))
	}
	text := rand.Text()
	if !l.closed {
		l.codes[digestOf(text)] = time.Now().Add(codeLife)
	}
	return text
}

// expire removes expired codes and sessions.
func (l *logins) expire() {
	now := time.Now()
	maps.DeleteFunc(l.codes, func(_ digest, until time.Time) bool { return !now.Before(until) })
	for _, v := range l.sessions {
		if !now.Before(v.until) {
			l.end(v)
		}
	}
}

// end ends a session unless it has ended.
func (l *logins) end(v *browserSession) {
	if l.sessions[v.cookie] == v {
		close(v.ended)
		delete(l.sessions, v.cookie)
	}
}

// redeem exchanges a code for a session. A code can be redeemed once; ok is false if it is invalid.
func (l *logins) redeem(code string) (cookie, token string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	k := digestOf(code)
	if _, good := l.codes[k]; !good || l.closed {
		return "", "", false
	}
	delete(l.codes, k)
	for len(l.sessions) >= maxSessions {
		l.end(slices.MinFunc(slices.Collect(maps.Values(l.sessions)), func(a, b *browserSession) int {
			return a.until.Compare(b.until)
		}))
	}
	cookie, token = rand.Text(), rand.Text()
	l.sessions[digestOf(cookie)] = &browserSession{
		cookie: digestOf(cookie),
		token:  digestOf(token),
		until:  time.Now().Add(sessionLife),
		ended:  make(chan struct{}),
	}
	return cookie, token, true
}

// session returns the session of a request, or nil. The request must have both the cookie and the token.
func (l *logins) session(r *http.Request) *browserSession {
	cookie, err := r.Cookie(l.cookie)
	if err != nil || cookie.Value == "" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	v := l.sessions[digestOf(cookie.Value)]
	token := digestOf(r.Header.Get(TokenHeader))
	if v == nil || subtle.ConstantTimeCompare(token[:], v.token[:]) != 1 {
		return nil
	}
	return v
}

func (l *logins) logout(v *browserSession) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(v)
}

func (l *logins) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	clear(l.codes)
	for _, v := range l.sessions {
		l.end(v)
	}
}

// setCookie sets the cookie, or deletes it if value is "".
func (l *logins) setCookie(w http.ResponseWriter, r *http.Request, value string) {
	age := int(sessionLife / time.Second)
	if value == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: l.cookie, Value: value, Path: prefix + "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: scheme(r) == "https",
	})
}

// login exchanges a code for a session.
func (c *Console) login(w http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Code string `json:"code"`
	}
	if err := read(w, r, &in); err != nil {
		return nil, err
	}
	cookie, token, ok := c.logins.redeem(in.Code)
	if !ok {
		return nil, c.rejectCode(r)
	}
	c.log.Info("console: browser logged in", "from", r.RemoteAddr)
	c.logins.setCookie(w, r, cookie)
	return map[string]any{"token": token, "until": time.Now().Add(sessionLife)}, nil
}

// rejectCode returns the error for an invalid code, after a delay.
func (c *Console) rejectCode(r *http.Request) error {
	select {
	case c.logins.failing <- struct{}{}:
		defer func() { <-c.logins.failing }()
	default:
		return errBusy
	}
	c.log.Warn("console: invalid login code", "from", r.RemoteAddr)
	select {
	case <-time.After(badCodeDelay):
	case <-r.Context().Done():
	}
	return errBadCode
}

// authenticated wraps a handler that requires a session.
func (c *Console) authenticated(next sessionHandler) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		v := c.logins.session(r)
		if v == nil {
			return nil, errNotLoggedIn
		}
		return next(w, r, v)
	}
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request, v *browserSession) (any, error) {
	c.logins.logout(v)
	c.logins.setCookie(w, r, "")
	return map[string]any{}, nil
}

// checkOrigin rejects requests with a foreign Host, which come from DNS rebinding, and requests from another origin.
func (c *Console) checkOrigin(r *http.Request) error {
	if !c.isOwnHost(r.Host) {
		return fmt.Errorf("unexpected host %q; open the address that `toolgate console` prints", r.Host)
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		// A link on another site may lead to the page, which holds no data.
		if r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			return errors.New("the request comes from another site")
		}
	}
	origin, sent := r.Header["Origin"]
	if !sent {
		return nil // browsers always send it with POST; see mutating
	}
	if len(origin) != 1 || origin[0] != scheme(r)+"://"+r.Host {
		return errors.New("the request comes from another origin")
	}
	return nil
}

// scheme returns the URL scheme that the browser uses, also behind a proxy. Pages of
// other origins cannot set X-Forwarded-Proto.
func scheme(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https"
	}
	return "http"
}

// isOwnHost reports whether the Host header names this server. Comparing it with Origin
// would not help, because with DNS rebinding both are equal.
func (c *Console) isOwnHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.IsLoopback() || slices.Contains(c.opts.Hosts, name)
	}
	return name == "localhost" || slices.Contains(c.opts.Hosts, name)
}

// mutating accepts only JSON requests with an Origin, which browsers send with every POST request.
func mutating(next handler) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		if r.Header.Get("Origin") == "" {
			return nil, &failure{http.StatusForbidden, errors.New("missing Origin header")}
		}
		if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/json" {
			return nil, &failure{http.StatusUnsupportedMediaType, errors.New("send application/json")}
		}
		return next(w, r)
	}
}
