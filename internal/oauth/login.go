package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options say how a login is made.
type Options struct {
	Scopes []string           // asked for; nil: those of the config or the server
	Client *http.Client       // nil: the usual one
	Header func() http.Header // of the request that asks the server who it trusts; may be nil

	// OpenURL leads the person to an address, in a browser or by telling it.
	OpenURL func(address string)

	// Pasted, if set, gives addresses that the person copied from a browser
	// which cannot reach this machine.
	Pasted <-chan string

	// Note tells the person of what was refused and is no end; may be nil.
	Note func(string)
}

// Login has a person log in to the server and keeps the tokens. It returns
// when the browser has come back, the authorization server has refused, or
// with ctx.
func Login(ctx context.Context, s Server, store Store, o Options) (*Grant, error) {
	if err := checkAddress(s.URL); err != nil {
		return nil, err
	}
	f, err := discover(ctx, s, o.Client, func(ctx context.Context) ([]string, error) { return probe(ctx, s, o) })
	if err != nil {
		return nil, err
	}
	kept, err := store.Load(s)
	if err != nil {
		return nil, err
	}
	l, redirect, err := listen(s, kept)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	g := &Grant{URL: s.URL, Resource: f.resource, Issuer: f.as.Issuer, TokenEndpoint: f.as.TokenEndpoint, RevocationEndpoint: f.as.RevocationEndpoint, RedirectURI: redirect}
	if err := g.register(ctx, s, f.as, kept, o.Client); err != nil {
		return nil, err
	}
	g.Scopes = scopesFor(s, o.Scopes, f, kept)
	code, verifier, err := g.authorize(ctx, f, l, o)
	if err != nil {
		return nil, err
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {verifier}}
	if err := g.requestTokens(ctx, o.Client, form); err != nil {
		return nil, fmt.Errorf("exchanging the code for a token: %w", err)
	}
	unlock, err := store.lock(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return g, store.save(s.Name, g)
}

// checkAddress refuses to ask for tokens that would go over the network in
// clear.
func checkAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme != "https" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%s is not https, so a token for it would be seen on the way; no login is possible", address)
	}
	return nil
}

// probe asks the server for something without a token, to see what it says
// about where to get one.
func probe(ctx context.Context, s Server, o Options) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"toolgate","version":"login"}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if o.Header != nil {
		for key, v := range o.Header() {
			req.Header[key] = v
		}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := noRedirects(o.Client).Do(req)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	return resp.Header.Values("WWW-Authenticate"), nil
}

// callbackPath is where the browser comes back to.
const callbackPath = "/callback"

// listen opens the loopback address that the browser comes back to: the
// config's port, else the one that we are registered with, if it is free, else
// any.
func listen(s Server, kept *Grant) (net.Listener, string, error) {
	port := s.CallbackPort
	if s.CallbackURL != "" {
		u, err := url.Parse(s.CallbackURL)
		if err != nil || u.Host == "" {
			return nil, "", fmt.Errorf("callback_url %q is not an address", s.CallbackURL)
		}
		if port == 0 && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1") {
			fmt.Sscan(u.Port(), &port)
		}
		if port == 0 {
			return nil, "", fmt.Errorf("callback_url %s leads elsewhere; set callback_port too, to the port of this machine that it is passed on to", s.CallbackURL)
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
		return l, s.CallbackURL, err
	}
	if port == 0 && kept != nil && kept.Registered {
		if u, err := url.Parse(kept.RedirectURI); err == nil && u.Hostname() == "127.0.0.1" {
			if l, err := net.Listen("tcp", u.Host); err == nil {
				return l, kept.RedirectURI, nil
			}
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
	if err != nil {
		return nil, "", fmt.Errorf("the address for the browser to come back to: %w", err)
	}
	return l, "http://" + l.Addr().String() + callbackPath, nil
}

// authorize leads the person to the authorization server and returns the code
// that the browser brings back, and the verifier that goes with it.
func (g *Grant) authorize(ctx context.Context, f *discovery, l net.Listener, o Options) (code, verifier string, err error) {
	verifier = rand.Text() + rand.Text() // 52 of the characters that RFC 7636 allows
	sum := sha256.Sum256([]byte(verifier))
	state := rand.Text()
	u, err := url.Parse(f.as.AuthorizationEndpoint)
	if err != nil {
		return "", "", err
	}
	q := u.Query()
	for key, v := range map[string]string{
		"response_type": "code", "client_id": g.ClientID, "redirect_uri": g.RedirectURI, "state": state, "resource": g.Resource,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256",
	} {
		q.Set(key, v)
	}
	if len(g.Scopes) > 0 {
		q.Set("scope", strings.Join(g.Scopes, " "))
	}
	u.RawQuery = q.Encode()
	back := &callbackHandler{state: state, issuer: f.as.Issuer, named: f.as.AuthorizationResponseIssParameterSupported, done: make(chan authResult, 1), note: o.Note}
	web := &http.Server{Handler: back, ReadHeaderTimeout: 10 * time.Second, ErrorLog: nil}
	go web.Serve(l) // ends with Shutdown
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		web.Shutdown(late) // lets the browser have its page
	}()
	o.OpenURL(u.String())
	for {
		select {
		case a := <-back.done:
			return a.code, verifier, a.err
		case text := <-o.Pasted:
			p, err := url.Parse(strings.TrimSpace(text))
			if err != nil || p.Query().Get("state") == "" {
				back.tell("that is not the address of the page that the browser ended at")
				continue
			}
			back.finish(p.Query())
		case <-ctx.Done():
			return "", "", context.Cause(ctx)
		}
	}
}

// A callbackHandler takes the browser's return.
type callbackHandler struct {
	state  string
	issuer string
	named  bool // the authorization server says that it always names itself
	done   chan authResult
	note   func(string)
}

type authResult struct {
	code string
	err  error
}

func (c *callbackHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet {
		http.Error(w, "not here", http.StatusMethodNotAllowed)
		return
	}
	q := r.URL.Query()
	if !q.Has("state") && !q.Has("code") && !q.Has("error") {
		http.NotFound(w, r)
		return
	}
	switch taken, err := c.finish(q); {
	case !taken:
		http.Error(w, "This is not the login that toolgate waits for. Start it again with toolgate mcp login.", http.StatusBadRequest)
	case err != nil:
		http.Error(w, "The login failed; toolgate says why.", http.StatusBadRequest)
	default:
		io.WriteString(w, "Logged in. You can close this window.\n")
	}
}

// finish ends the login with what the browser brought, unless that belongs to
// another: any page may send a browser here.
func (c *callbackHandler) finish(q url.Values) (taken bool, err error) {
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(c.state)) != 1 {
		c.tell("a browser came with the state of another login, which is not taken")
		return false, nil
	}
	a := authResult{code: q.Get("code")}
	switch iss := q.Get("iss"); { // RFC 9207: it must be the one that was asked
	case iss == "" && c.named:
		a.err = fmt.Errorf("the answer does not say that it comes from %s, which it always should", c.issuer)
	case iss != "" && iss != c.issuer:
		a.err = fmt.Errorf("the answer comes from %q, and %s was asked", printable(iss), c.issuer)
	case q.Get("error") != "":
		a.err = &errorResponse{Code: q.Get("error"), Description: q.Get("error_description")}
	case a.code == "":
		a.err = errNoCode
	}
	if a.err != nil {
		a.code = ""
	}
	select {
	case c.done <- a:
		return true, a.err
	default:
		return false, nil // it has ended already
	}
}

func (c *callbackHandler) tell(text string) {
	if c.note != nil {
		c.note(text)
	}
}

// Logout takes the server's tokens back where its authorization server knows
// how, and removes them. It reports whether there were any. An error that
// wraps [ErrNotRevoked] says that they are removed here and may still be good.
func Logout(ctx context.Context, s Server, store Store, c *http.Client) (bool, error) {
	unlock, err := store.lock(ctx, s.Name)
	if err != nil {
		return false, err
	}
	defer unlock()
	g, err := store.Load(s)
	if err != nil {
		return false, err
	}
	if err := store.remove(s.Name); err != nil {
		return false, err
	}
	if g == nil || g.AccessToken == "" && g.RefreshToken == "" {
		return false, nil
	}
	if g.RevocationEndpoint == "" {
		return true, fmt.Errorf("%w: the authorization server has no way for it", ErrNotRevoked)
	}
	for _, t := range [][2]string{{"refresh_token", g.RefreshToken}, {"access_token", g.AccessToken}} {
		if t[1] == "" {
			continue
		}
		if _, err := g.post(ctx, c, g.RevocationEndpoint, url.Values{"token": {t[1]}, "token_type_hint": {t[0]}}); err != nil {
			return true, fmt.Errorf("%w: %w", ErrNotRevoked, err)
		}
	}
	return true, nil
}

// ErrNotRevoked is wrapped when tokens were removed here alone.
var ErrNotRevoked = errors.New("the tokens are removed here and not taken back")
