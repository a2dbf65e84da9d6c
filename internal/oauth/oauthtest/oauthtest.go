// Package oauthtest is an authorization server and an MCP server that trusts
// it, for tests. Both are strict: what the specifications forbid is refused,
// and what was refused is noted.
//
//	as := oauthtest.New(t)
//	… as.URL() is the MCP server …
//	as.Browse(address) // plays the person with the browser
package oauthtest

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Server is the authorization server and the MCP server at one address. Its
// fields say how it behaves; set them before it is used.
type Server struct {
	*httptest.Server

	NoMetadata     bool   // of the protected resource
	WrongResource  string // that the metadata claims to be for
	WrongIssuer    string // in the authorization server's metadata
	OIDC           bool   // metadata at OpenID Connect's place alone
	NoPKCE         bool   // in the metadata
	NoRegistration bool
	Secrets        bool   // clients get a secret
	NameItself     bool   // answers carry iss, and the metadata says so
	Iss            string // in place of the right one
	State          string // in place of the right one
	Deny           bool   // the person says no
	TokenRedirect  string // where the token endpoint sends clients
	NoRotation     bool   // refresh tokens stay
	Lifetime       time.Duration

	mu       sync.Mutex
	clients  map[string]*client
	codes    map[string]*code
	families []*family
	tokens   map[string]*token  // access tokens
	refresh  map[string]*family // refresh tokens
	needs    []string           // scopes that each call of a tool needs
	faults   []string
	log      []string
}

type client struct {
	redirects []string
	secret    string
}

type code struct {
	client, redirect, challenge, resource string
	scopes                                []string
	used                                  *family
}

// A family is all tokens that one login led to.
type family struct {
	client, resource string
	scopes           []string
	current          string // refresh token
	revoked          bool
}

type token struct {
	of      *family
	expires time.Time
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	s := &Server{
		clients:  map[string]*client{},
		codes:    map[string]*code{},
		tokens:   map[string]*token{},
		refresh:  map[string]*family{},
		Lifetime: time.Hour,
	}
	mux := http.NewServeMux()
	for path, handle := range map[string]http.HandlerFunc{
		"/.well-known/oauth-protected-resource/mcp": s.resource,
		"/.well-known/oauth-authorization-server":   s.metadata,
		"/.well-known/openid-configuration":         s.metadata,
		"/authorize":                                s.authorize,
		"/token":                                    s.token,
		"/register":                                 s.register,
		"/revoke":                                   s.revoke,
		"/mcp":                                      s.mcp,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			handle(w, r)
		})
	}
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Server.Close()
	})
	return s
}

// Endpoint is the address of the MCP server.
func (s *Server) Endpoint() string { return s.URL + "/mcp" }

// Need makes each call of a tool need these scopes.
func (s *Server) Need(scopes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.needs = scopes
}

// AddClient registers a client as its user would.
func (s *Server) AddClient(id, secret, redirect string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[id] = &client{redirects: []string{redirect}, secret: secret}
}

// Browse follows address as a browser does, the person having said yes, and
// returns the page that it ends at.
func (s *Server) Browse(address string) (status int, page string, err error) {
	resp, err := s.Client().Get(address)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// Expire ends all access tokens.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		t.expires = time.Time{}
	}
}

// RevokeAll ends all that was granted.
func (s *Server) RevokeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.families {
		f.revoked = true
	}
}

// Live returns how many logins are good.
func (s *Server) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(s.families), func(f *family) bool { return f.revoked }))
}

// Faults returns what clients did wrong.
func (s *Server) Faults() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults)
}

// Log returns what was asked for, each as a word such as "register" or
// "token refresh_token", in order.
func (s *Server) Log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// Count returns how often word stands in the log.
func (s *Server) Count(word string) int {
	return len(slices.DeleteFunc(s.Log(), func(l string) bool { return l != word }))
}

func (s *Server) note(word string) { s.log = append(s.log, word) }

func (s *Server) fault(w http.ResponseWriter, code, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.faults = append(s.faults, text)
	writeJSON(w, http.StatusBadRequest, map[string]any{"error": code, "error_description": text})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func (s *Server) resource(w http.ResponseWriter, r *http.Request) {
	if s.NoMetadata {
		http.NotFound(w, r)
		return
	}
	writeJSON(w, 200, map[string]any{
		"resource":              cmp.Or(s.WrongResource, s.Endpoint()),
		"authorization_servers": []string{s.URL},
		"scopes_supported":      []string{"read"},
	})
}

func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	if s.OIDC == strings.HasSuffix(r.URL.Path, "oauth-authorization-server") {
		http.NotFound(w, r)
		return
	}
	m := map[string]any{
		"issuer":                                cmp.Or(s.WrongIssuer, s.URL),
		"authorization_endpoint":                s.URL + "/authorize?tenant=1",
		"token_endpoint":                        s.URL + "/token",
		"revocation_endpoint":                   s.URL + "/revoke",
		"response_types_supported":              []string{"code"},
		"code_challenge_methods_supported":      []string{"S256"},
		"scopes_supported":                      []string{"read", "write", "offline_access"},
		"token_endpoint_auth_methods_supported": []string{"none", "client_secret_basic", "client_secret_post"},
	}
	if s.NoPKCE {
		delete(m, "code_challenge_methods_supported")
	}
	if !s.NoRegistration {
		m["registration_endpoint"] = s.URL + "/register"
	}
	if s.Secrets {
		m["token_endpoint_auth_methods_supported"] = []string{"client_secret_basic"}
	}
	if s.NameItself {
		m["authorization_response_iss_parameter_supported"] = true
	}
	writeJSON(w, 200, m)
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	s.note("register")
	var in struct {
		Redirects []string `json:"redirect_uris"`
		Auth      string   `json:"token_endpoint_auth_method"`
		Type      string   `json:"application_type"`
		Grants    []string `json:"grant_types"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Redirects) == 0 || s.NoRegistration {
		s.fault(w, "invalid_client_metadata", "register: %v", err)
		return
	}
	for _, u := range in.Redirects {
		if !strings.HasPrefix(u, "http://127.0.0.1:") || in.Type != "native" ||
			!slices.Contains(in.Grants, "refresh_token") {
			s.fault(w, "invalid_redirect_uri", "register: %s for %s", u, in.Type)
			return
		}
	}
	c, id := &client{redirects: in.Redirects}, rand.Text()
	out := map[string]any{"client_id": id, "redirect_uris": in.Redirects, "token_endpoint_auth_method": in.Auth}
	if s.Secrets {
		c.secret = rand.Text() + "%+/"
		out["client_secret"], out["client_secret_expires_at"] = c.secret, 0
	}
	s.clients[id] = c
	writeJSON(w, http.StatusCreated, out)
}

func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	s.note("authorize")
	q := r.URL.Query()
	c := s.clients[q.Get("client_id")]
	switch {
	case c == nil || !slices.Contains(c.redirects, q.Get("redirect_uri")):
		s.fault(w, "invalid_request", "authorize: client %q with %q is not registered", q.Get("client_id"),
			q.Get("redirect_uri"))
		return
	case q.Get("tenant") != "1":
		s.fault(w, "invalid_request", "authorize: the endpoint's own query is gone")
		return
	case q.Get("response_type") != "code" || q.Get("resource") != s.Endpoint() ||
		q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || len(q.Get("state")) < 16:
		s.fault(w, "invalid_request", "authorize: %s", r.URL.RawQuery)
		return
	}
	back, _ := url.Parse(q.Get("redirect_uri"))
	out := back.Query()
	out.Set("state", cmp.Or(s.State, q.Get("state")))
	if s.NameItself || s.Iss != "" {
		out.Set("iss", cmp.Or(s.Iss, s.URL))
	}
	if s.Deny {
		out.Set("error", "access_denied")
		out.Set("error_description", "the person\nsaid no")
	} else {
		id := rand.Text()
		s.codes[id] = &code{
			client:    q.Get("client_id"),
			redirect:  q.Get("redirect_uri"),
			challenge: q.Get("code_challenge"),
			resource:  q.Get("resource"),
			scopes:    strings.Fields(q.Get("scope")),
		}
		out.Set("code", id)
	}
	back.RawQuery = out.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// who returns the client that a form comes from, "" for none that may.
func (s *Server) who(r *http.Request) string {
	id, secret := r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	if user, pass, ok := r.BasicAuth(); ok {
		if id != "" {
			return "" // "MUST NOT use more than one authentication method"
		}
		id, _ = url.QueryUnescape(user)
		secret, _ = url.QueryUnescape(pass)
	}
	c := s.clients[id]
	if c == nil || c.secret != secret {
		return ""
	}
	return id
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	if s.TokenRedirect != "" {
		http.Redirect(w, r, s.TokenRedirect, http.StatusTemporaryRedirect)
		return
	}
	r.ParseForm()
	f := r.PostForm
	s.note("token " + f.Get("grant_type"))
	id := s.who(r)
	switch {
	case r.Method != http.MethodPost || id == "":
		s.fault(w, "invalid_client", "token: not a client")
		return
	case f.Get("resource") != s.Endpoint():
		s.fault(w, "invalid_target", "token: resource %q", f.Get("resource"))
		return
	}
	fam := s.familyOf(w, id, f)
	if fam == nil {
		return
	}
	access := rand.Text()
	s.tokens[access] = &token{of: fam, expires: time.Now().Add(s.Lifetime)}
	out := map[string]any{
		"access_token": access, "token_type": "bearer",
		"expires_in": int(s.Lifetime.Seconds()), "scope": strings.Join(fam.scopes, " "),
	}
	if fam.current == "" || !s.NoRotation {
		fam.current = rand.Text()
		s.refresh[fam.current] = fam
		out["refresh_token"] = fam.current
	}
	writeJSON(w, 200, out)
}

// familyOf returns the family of tokens that a token request of client id is for.
// It returns nil when there is none, and has answered then.
func (s *Server) familyOf(w http.ResponseWriter, id string, f url.Values) *family {
	switch f.Get("grant_type") {
	case "authorization_code":
		c := s.codes[f.Get("code")]
		sum := sha256.Sum256([]byte(f.Get("code_verifier")))
		switch {
		case c == nil || c.client != id || c.redirect != f.Get("redirect_uri") || c.resource != f.Get("resource"):
			s.fault(w, "invalid_grant", "token: the code is not for this")
			return nil
		case c.used != nil:
			c.used.revoked = true
			s.fault(w, "invalid_grant", "token: the code was used before")
			return nil
		case len(f.Get("code_verifier")) < 43 || base64.RawURLEncoding.EncodeToString(sum[:]) != c.challenge:
			s.fault(w, "invalid_grant", "token: the verifier is not the one")
			return nil
		}
		c.used = &family{client: id, resource: c.resource, scopes: c.scopes}
		s.families = append(s.families, c.used)
		return c.used
	case "refresh_token":
		fam := s.refresh[f.Get("refresh_token")]
		switch {
		case fam == nil || fam.client != id || fam.revoked:
			why := "the refresh token has been revoked"
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": why})
			return nil
		case fam.current != f.Get("refresh_token"):
			fam.revoked = true
			s.fault(w, "invalid_grant", "token: a refresh token was used twice")
			return nil
		}
		return fam
	}
	s.fault(w, "unsupported_grant_type", "token: %q", f.Get("grant_type"))
	return nil
}

func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	s.note("revoke")
	if s.who(r) == "" {
		s.fault(w, "invalid_client", "revoke: not a client")
		return
	}
	if fam := s.refresh[r.PostForm.Get("token")]; fam != nil {
		fam.revoked = true
	}
	if t := s.tokens[r.PostForm.Get("token")]; t != nil {
		t.of.revoked = true
	}
}

// mcp is a session-based MCP server with one tool that requires a token.
func (s *Server) mcp(w http.ResponseWriter, r *http.Request) {
	metadata := fmt.Sprintf(`resource_metadata="%s/.well-known/oauth-protected-resource/mcp"`, s.URL)
	if s.NoMetadata {
		metadata = `realm="mcp"`
	}
	bearer, has := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	t := s.tokens[bearer]
	switch {
	case !has:
		s.note("mcp without")
		w.Header().Set("WWW-Authenticate", `Basic realm="x", Bearer scope="read", `+metadata)
		http.Error(w, "no token", http.StatusUnauthorized)
		return
	case t == nil || t.of.revoked || time.Now().After(t.expires) || t.of.resource != s.Endpoint():
		s.note("mcp refused")
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", `+metadata)
		http.Error(w, "bad token", http.StatusUnauthorized)
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
	}
	b, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost || json.Unmarshal(b, &m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	s.note("mcp " + m.Method)
	result := map[string]string{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},
			"serverInfo":{"name":"guarded","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"hello","description":"Says hello.",
			"inputSchema":{"type":"object","properties":{}},"annotations":{"readOnlyHint":true}}]}`,
		"tools/call": `{"content":[{"type":"text","text":"hello from behind the login"}]}`,
	}[m.Method]
	missing := slices.ContainsFunc(s.needs, func(n string) bool { return !slices.Contains(t.of.scopes, n) })
	switch {
	case m.Method == "tools/call" && missing:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(
			`Bearer error="insufficient_scope", scope="%s", %s, error_description="more"`,
			strings.Join(s.needs, " "), metadata))
		w.WriteHeader(http.StatusForbidden)
	case len(m.ID) == 0:
		w.WriteHeader(http.StatusAccepted)
	case result == "":
		w.WriteHeader(http.StatusBadRequest)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
}
