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
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Options configure [Login].
type Options struct {
	Scopes []string           // requested scopes; nil: those of the config or the server
	Header func() http.Header // of the request that discovers the authorization server; may be nil

	// OpenURL opens a URL in the user's browser, or shows it.
	OpenURL func(address string)

	// Pasted, if not nil, delivers redirect URLs that the user copied from a browser
	// that cannot reach this machine.
	Pasted <-chan string

	// Note tells the user about a problem that does not end the login; may be nil.
	Note func(string)
}

// Login lets the user log in to the server in a browser, and stores the tokens. It returns
// when the authorization server has answered or ctx ends.
func Login(ctx context.Context, s Server, store Store, o Options) (*Grant, error) {
	if err := checkAddress(s.URL); err != nil {
		return nil, err
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	f, err := discover(ctx, s, o)
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
	g := &Grant{
		URL:                s.URL,
		Resource:           f.resource,
		Issuer:             f.as.Issuer,
		TokenEndpoint:      f.as.TokenEndpoint,
		RevocationEndpoint: f.as.RevocationEndpoint,
		RedirectURI:        redirect,
	}
	if err := g.register(ctx, s, f.as, kept); err != nil {
		return nil, err
	}
	g.Scopes = scopesFor(s, o.Scopes, f, kept)
	code, verifier, err := g.authorize(ctx, f, l, o)
	if err != nil {
		return nil, err
	}
	form := url.Values{
		"grant_type":    {"authorization_code"},
		"code":          {code},
		"redirect_uri":  {redirect},
		"code_verifier": {verifier},
	}
	if err := g.requestTokens(ctx, nil, form); err != nil {
		return nil, fmt.Errorf("exchanging the code for a token: %w", err)
	}
	unlock, err := store.lock(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return g, store.save(s.Name, g)
}

// checkAddress returns an error if tokens for address would be sent unencrypted over the
// network.
func checkAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme != "https" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("cannot log in: %s is not https, so a token for it could be intercepted", address)
	}
	return nil
}

// probe sends a request without a token and returns the WWW-Authenticate headers of the
// response.
func probe(ctx context.Context, s Server, o Options) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{},"clientInfo":{"name":"toolgate","version":"login"}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if o.Header != nil {
		maps.Copy(req.Header, o.Header())
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := noRedirects(nil).Do(req)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	return resp.Header.Values("WWW-Authenticate"), nil
}

// callbackPath is the path of the redirect URI.
const callbackPath = "/callback"

// listen opens the loopback address of the redirect URI: on the configured port, else on
// that of an earlier registration if it is free, else on any.
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
			return nil, "", fmt.Errorf("callback_url %s is not on this machine; "+
				"set callback_port to the local port that it is forwarded to", s.CallbackURL)
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
		return nil, "", fmt.Errorf("listening for the redirect: %w", err)
	}
	return l, "http://" + l.Addr().String() + callbackPath, nil
}

// authorize sends the user to the authorization server and returns the authorization code
// and its PKCE verifier.
func (g *Grant) authorize(
	ctx context.Context, f *discovery, l net.Listener, o Options,
) (code, verifier string, err error) {
	verifier = rand.Text() + rand.Text() // 52 characters; RFC 7636 requires 43 to 128
	sum := sha256.Sum256([]byte(verifier))
	state := rand.Text()
	u, err := url.Parse(f.as.AuthorizationEndpoint)
	if err != nil {
		return "", "", err
	}
	q := u.Query()
	q.Set("response_type", "code")
	q.Set("client_id", g.ClientID)
	q.Set("redirect_uri", g.RedirectURI)
	q.Set("state", state)
	q.Set("resource", g.Resource)
	q.Set("code_challenge", base64.RawURLEncoding.EncodeToString(sum[:]))
	q.Set("code_challenge_method", "S256")
	if len(g.Scopes) > 0 {
		q.Set("scope", strings.Join(g.Scopes, " "))
	}
	u.RawQuery = q.Encode()
	back := &callbackHandler{
		state:  state,
		issuer: f.as.Issuer,
		named:  f.as.AuthorizationResponseIssParameterSupported,
		done:   make(chan authResult, 1),
		note:   o.Note,
	}
	web := &http.Server{Handler: back, ReadHeaderTimeout: 10 * time.Second, ErrorLog: nil}
	go web.Serve(l) // ends with Shutdown
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		web.Shutdown(late) // the browser still gets its page
	}()
	o.OpenURL(u.String())
	for {
		select {
		case a := <-back.done:
			return a.code, verifier, a.err
		case text := <-o.Pasted:
			p, err := url.Parse(strings.TrimSpace(text))
			if err != nil || p.Query().Get("state") == "" {
				back.note("that is not the URL of the page that the browser ended at")
				continue
			}
			back.finish(p.Query())
		case <-ctx.Done():
			return "", "", context.Cause(ctx)
		}
	}
}

// A callbackHandler handles the redirect of the browser.
type callbackHandler struct {
	state  string
	issuer string
	named  bool // the authorization server always sends iss
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
		text := "This is not the login that toolgate is waiting for. Start it again with toolgate mcp login."
		http.Error(w, text, http.StatusBadRequest)
	case err != nil:
		http.Error(w, "The login failed; see the output of toolgate.", http.StatusBadRequest)
	default:
		io.WriteString(w, "Logged in. You can close this window.\n")
	}
}

// finish ends the login with the parameters of the redirect. It ignores those of
// another login, because any page can send a browser here.
func (c *callbackHandler) finish(q url.Values) (taken bool, err error) {
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(c.state)) != 1 {
		c.note("ignored a redirect with the state of another login")
		return false, nil
	}
	a := authResult{code: q.Get("code")}
	switch iss := q.Get("iss"); { // RFC 9207: it must be the expected issuer
	case iss == "" && c.named:
		a.err = fmt.Errorf("the response lacks iss, which %s always sends", c.issuer)
	case iss != "" && iss != c.issuer:
		a.err = fmt.Errorf("the response comes from %q instead of %s", shown(iss), c.issuer)
	case q.Get("error") != "":
		a.err = &errorResponse{Code: q.Get("error"), Description: q.Get("error_description")}
	case a.code == "":
		a.err = errors.New("the authorization server sent no code")
	}
	select {
	case c.done <- a:
		return true, a.err
	default:
		return false, nil // already finished
	}
}

// Logout revokes the server's tokens if its authorization server supports that, and
// removes them. It reports whether there were any. An error that wraps [ErrNotRevoked]
// means that they are removed here but may still be valid.
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
	if err := os.Remove(store.file(s.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if g == nil || g.AccessToken == "" && g.RefreshToken == "" {
		return false, nil
	}
	if g.RevocationEndpoint == "" {
		return true, fmt.Errorf("%w: the authorization server does not support revocation", ErrNotRevoked)
	}
	for _, t := range [][2]string{{"refresh_token", g.RefreshToken}, {"access_token", g.AccessToken}} {
		if t[1] == "" {
			continue
		}
		form := url.Values{"token": {t[1]}, "token_type_hint": {t[0]}}
		if _, err := g.post(ctx, c, g.RevocationEndpoint, form); err != nil {
			return true, fmt.Errorf("%w: %w", ErrNotRevoked, err)
		}
	}
	return true, nil
}

// ErrNotRevoked means that tokens were removed only locally.
var ErrNotRevoked = errors.New("the tokens are removed here but not revoked")
