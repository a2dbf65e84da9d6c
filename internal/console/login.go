package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	codeLife  = 2 * time.Minute // of a link
	sessionLife = 12 * time.Hour  // of a browser that got in

	maxCodes  = 16 // that wait to be used
	maxSessions = 16 // browsers at once; one more ends the oldest
	maxFailing  = 8  // failing codes that are being answered at once

	badCodeDelay = 300 * time.Millisecond // before a wrong code is answered
)

// TokenHeader carries the half of a browser's right that scripts of the page
// hold.
const TokenHeader = "X-Toolgate-Console"

var (
	errNotFound = errors.New("there is nothing here")
	errNotLoggedIn  = errors.New("you are not let in; run `toolgate console` and open the link that it prints")
	errBadCode    = errors.New("this link was used before, has expired, or belongs to another toolgate; run `toolgate console` for another")
	errBusy     = errors.New("too many wrong codes at once; try again")
)

// A logins lets browsers in. Codes and tokens are kept as digests: they are
// looked up without telling by the time it takes how much of one was right.
type logins struct {
	cookie string // its name; each gate has its own, since they share a host
	prefix string
	failing  chan struct{}

	mu     sync.Mutex
	codes  map[digest]time.Time // until when each is good
	sessions map[digest]*browserSession    // by cookie
	closed bool
}

type digest [sha256.Size]byte

func digestOf(s string) digest { return sha256.Sum256([]byte(s)) }

// A browserSession is one browser that was let in.
type browserSession struct {
	token   digest
	until   time.Time
	streams int           // under the door's lock
	ended   chan struct{} // closed with it
}

func newLogins(prefix string) *logins {
	return &logins{
		cookie: "toolgate-console-" + strings.ToLower(rand.Text()[:10]),
		prefix: prefix,
		failing:  make(chan struct{}, maxFailing),
		codes:  map[digest]time.Time{},
		sessions: map[digest]*browserSession{},
	}
}

// newCode returns a new code. When too many wait, the oldest is good no more.
func (d *logins) newCode() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire()
	for len(d.codes) >= maxCodes {
		var oldest digest
		var at time.Time
		for k, until := range d.codes {
			if at.IsZero() || until.Before(at) {
				oldest, at = k, until
			}
		}
		delete(d.codes, oldest)
	}
	text := rand.Text()
	if !d.closed {
		d.codes[digestOf(text)] = time.Now().Add(codeLife)
	}
	return text
}

// expire forgets what has expired.
func (d *logins) expire() {
	now := time.Now()
	for k, until := range d.codes {
		if !now.Before(until) {
			delete(d.codes, k)
		}
	}
	for k, v := range d.sessions {
		if !now.Before(v.until) {
			d.end(k)
		}
	}
}

func (d *logins) end(k digest) {
	if v, ok := d.sessions[k]; ok {
		close(v.ended)
		delete(d.sessions, k)
	}
}

// redeem exchanges a code for a visit, and reports false when the code is not
// good. A code is spent by the first who brings it.
func (d *logins) redeem(code string) (cookie, token string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire()
	k := digestOf(code)
	if _, good := d.codes[k]; !good || d.closed {
		return "", "", false
	}
	delete(d.codes, k)
	for len(d.sessions) >= maxSessions {
		var oldest digest
		var at time.Time
		for k, v := range d.sessions {
			if at.IsZero() || v.until.Before(at) {
				oldest, at = k, v.until
			}
		}
		d.end(oldest)
	}
	cookie, token = rand.Text(), rand.Text()
	d.sessions[digestOf(cookie)] = &browserSession{token: digestOf(token), until: time.Now().Add(sessionLife), ended: make(chan struct{})}
	return cookie, token, true
}

// browserSession returns the visit that r belongs to, nil for none. Both halves must be
// there.
func (d *logins) session(r *http.Request) (*browserSession, digest) {
	cookie, err := r.Cookie(d.cookie)
	if err != nil || cookie.Value == "" {
		return nil, digest{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire()
	k := digestOf(cookie.Value)
	v := d.sessions[k]
	token := digestOf(r.Header.Get(TokenHeader))
	if v == nil || subtle.ConstantTimeCompare(token[:], v.token[:]) != 1 {
		return nil, digest{}
	}
	return v, k
}

func (d *logins) logout(k digest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end(k)
}

func (d *logins) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	clear(d.codes)
	for k := range d.sessions {
		d.end(k)
	}
}

// setCookie gives or, with "", takes the cookie.
func (d *logins) setCookie(w http.ResponseWriter, r *http.Request, value string) {
	age := int(sessionLife / time.Second)
	if value == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: d.cookie, Value: value, Path: d.prefix + "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: scheme(r) == "https",
	})
}

// login exchanges a link's code for a visit.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Code string `json:"code"`
	}
	if !read(w, r, &in) {
		return
	}
	cookie, token, ok := c.logins.redeem(in.Code)
	if !ok {
		c.rejectCode(w, r)
		return
	}
	c.log.Info("console: a browser was let in", "from", r.RemoteAddr)
	c.logins.setCookie(w, r, cookie)
	reply(w, map[string]any{"token": token, "until": time.Now().Add(sessionLife)})
}

// rejectCode refuses after a while.
func (c *Console) rejectCode(w http.ResponseWriter, r *http.Request) {
	select {
	case c.logins.failing <- struct{}{}:
		defer func() { <-c.logins.failing }()
	default:
		fail(w, http.StatusTooManyRequests, errBusy)
		return
	}
	c.log.Warn("console: a wrong or used code", "from", r.RemoteAddr)
	select {
	case <-time.After(badCodeDelay):
	case <-r.Context().Done():
	}
	fail(w, http.StatusUnauthorized, errBadCode)
}

// authenticated lets through those that were let in.
func (c *Console) authenticated(next func(http.ResponseWriter, *http.Request, *browserSession)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, _ := c.logins.session(r)
		if v == nil {
			fail(w, http.StatusUnauthorized, errNotLoggedIn)
			return
		}
		next(w, r, v)
	}
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	v, k := c.logins.session(r)
	if v == nil {
		fail(w, http.StatusUnauthorized, errNotLoggedIn)
		return
	}
	c.logins.logout(k)
	c.logins.setCookie(w, r, "")
	reply(w, map[string]any{})
}

// checkOrigin refuses a request for a host that is not ours, as a page sends
// whose name was bound anew to our address, and one from another origin.
func (c *Console) checkOrigin(r *http.Request) error {
	if !c.isOwnHost(r.Host) {
		return fmt.Errorf("the host %q is not this one; open the address that `toolgate console` prints", r.Host)
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		// A person may come from a link elsewhere, but only to look at the
		// page, which holds nothing.
		if r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			return errors.New("the request comes from another site")
		}
	}
	origin, sent := r.Header["Origin"]
	if !sent {
		return nil // no browser leaves it out where something is changed; see change
	}
	if len(origin) != 1 || origin[0] != scheme(r)+"://"+r.Host {
		return errors.New("the request comes from another origin")
	}
	return nil
}

// scheme returns how the browser reaches us, also through a proxy: no page
// elsewhere can send that header.
func scheme(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https"
	}
	return "http"
}

// isOwnHost reports whether the Host header names us. To compare it with Origin
// would prove nothing, since a rebound name makes both equal.
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

// mutating lets through what comes from the page itself: a browser sends Origin
// with whatever is no GET.
func mutating(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") == "" {
			fail(w, http.StatusForbidden, errors.New("the request does not say where it comes from"))
			return
		}
		if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/json" {
			fail(w, http.StatusUnsupportedMediaType, errors.New("send application/json"))
			return
		}
		next(w, r)
	}
}
