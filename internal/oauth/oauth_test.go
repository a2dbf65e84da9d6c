package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/oauth"
	"toolgate/internal/oauth/oauthtest"
)

func server(as *oauthtest.Server) oauth.Server {
	return oauth.Server{Name: "guarded", URL: as.Endpoint()}
}

// login plays the person who opens each address in a browser.
func login(t *testing.T, as *oauthtest.Server, s oauth.Server, store oauth.Store, with ...func(*oauth.Options)) (*oauth.Grant, error) {
	t.Helper()
	o := oauth.Options{OpenURL: func(address string) {
		go as.Browse(address) // ends with the page
	}}
	for _, f := range with {
		f(&o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return oauth.Login(ctx, s, store, o)
}

func TestLoginRegistersOnceAndKeepsTheTokens(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*oauthtest.Server)
	}{
		{"as usual", func(*oauthtest.Server) {}},
		{"OpenID Connect's metadata", func(as *oauthtest.Server) { as.OIDC = true }},
		{"clients have secrets", func(as *oauthtest.Server) { as.Secrets = true }},
		{"the answer names its issuer", func(as *oauthtest.Server) { as.NameItself = true }},
		{"refresh tokens stay", func(as *oauthtest.Server) { as.NoRotation = true }},
		{"no protected resource metadata", func(as *oauthtest.Server) { as.NoMetadata = true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			as := oauthtest.New(t)
			tt.set(as)
			store := oauth.Store{Dir: filepath.Join(t.TempDir(), "oauth")}
			g, err := login(t, as, server(as), store)
			require.NoError(t, err)
			require.Equal(t, []string{"read", "offline_access"}, g.Scopes)
			info, err := os.Stat(filepath.Join(store.Dir, "guarded.json"))
			require.NoError(t, err)
			if runtime.GOOS != "windows" {
				require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
			}
			_, err = login(t, as, server(as), store)
			require.NoError(t, err)
			require.Equal(t, 1, as.Count("register"), "the second login is the same client's")

			source := oauth.NewSource(store, server(as), nil, nil)
			first, err := source.Token(t.Context())
			require.NoError(t, err)
			for range 3 {
				as.Expire()
				next, err := source.Renew(t.Context(), first, nil)
				require.NoError(t, err)
				require.NotEqual(t, first, next)
				first = next
			}
			kept, err := oauth.NewSource(store, server(as), nil, nil).Token(t.Context())
			require.NoError(t, err)
			require.Equal(t, first, kept, "another process has the same token")
			require.Empty(t, as.Faults())
		})
	}
}

func TestLoginsThatMustFail(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*oauthtest.Server)
		want string
	}{
		{"the metadata is another issuer's", func(as *oauthtest.Server) { as.WrongIssuer = "https://evil.example" }, "does not match issuer"},
		{"the metadata is for another resource", func(as *oauthtest.Server) { as.WrongResource = "https://bank.example/mcp" }, "for another resource"},
		{"no PKCE", func(as *oauthtest.Server) { as.NoPKCE = true }, "PKCE"},
		{"mix-up: the response comes from another", func(as *oauthtest.Server) { as.Iss = "https://evil.example" }, `comes from "https://evil.example"`},
		{"the person says no", func(as *oauthtest.Server) { as.Deny = true }, `access_denied: the person\nsaid no`},
		{"no registration", func(as *oauthtest.Server) { as.NoRegistration = true }, "set oauth = { client_id"},
		{"the token endpoint redirects", func(as *oauthtest.Server) { as.TokenRedirect = as.URL + "/elsewhere" }, "unexpected redirect"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			as := oauthtest.New(t)
			tt.set(as)
			store := oauth.Store{Dir: t.TempDir()}
			_, err := login(t, as, server(as), store)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "\n")
			g, err := store.Load(server(as))
			require.NoError(t, err)
			require.Nil(t, g)
			require.NotContains(t, as.Log(), "token authorization_code", "no code goes anywhere")
		})
	}
	t.Run("another authorization server than the config's", func(t *testing.T) {
		as := oauthtest.New(t)
		s := server(as)
		s.Issuer = "https://other.example"
		_, err := login(t, as, s, oauth.Store{Dir: t.TempDir()})
		require.ErrorContains(t, err, "the config requires")
	})
	t.Run("tokens over the network in clear", func(t *testing.T) {
		_, err := oauth.Login(t.Context(), oauth.Server{Name: "x", URL: "http://example.com/mcp"}, oauth.Store{Dir: t.TempDir()}, oauth.Options{})
		require.ErrorContains(t, err, "not https")
	})
}

// Any page can send a browser to the loopback address: what does not bring
// the state is turned away, and the login goes on.
func TestAWrongStateEndsNothing(t *testing.T) {
	as := oauthtest.New(t)
	as.State = "somebody-elses-state"
	var notes atomic.Int32
	type page struct {
		status int
		text   string
	}
	pages := make(chan page, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := oauth.Login(ctx, server(as), oauth.Store{Dir: t.TempDir()}, oauth.Options{
			Note: func(string) { notes.Add(1) },
			OpenURL: func(address string) {
				go func() {
					status, text, _ := as.Browse(address)
					pages <- page{status, text}
				}()
			},
		})
		done <- err
	}()
	got := <-pages
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Contains(t, got.text, "not the login")
	require.Equal(t, int32(1), notes.Load())
	gaveUp := errors.New("the person gave up")
	cancel(gaveUp)
	require.ErrorIs(t, <-done, gaveUp)
	require.NotContains(t, as.Log(), "token authorization_code")
}

func TestAClientOfTheUsersOwn(t *testing.T) {
	as := oauthtest.New(t)
	as.NoRegistration = true
	s := server(as)
	s.ClientID, s.ClientSecret, s.Issuer, s.Scopes = "mine", "a/b+c%", as.URL+"/", []string{"write"}
	s.CallbackURL = "http://localhost:0/back"
	_, err := login(t, as, s, oauth.Store{Dir: t.TempDir()})
	require.ErrorContains(t, err, "callback_port")

	free := httptest.NewServer(nil) // a port that is free a moment later
	port := free.Listener.Addr().String()
	free.Close()
	s.CallbackURL = "http://" + strings.Replace(port, "127.0.0.1", "localhost", 1) + "/back/here"
	as.AddClient("mine", "a/b+c%", s.CallbackURL)
	g, err := login(t, as, s, oauth.Store{Dir: t.TempDir()})
	require.NoError(t, err)
	require.Equal(t, []string{"write"}, g.Scopes)
	require.Zero(t, as.Count("register"))
	require.Empty(t, as.Faults())
}

// TestASecretIsForOneIssuer: which authorization server gets the secret of the config is not
// for the MCP server to say.
func TestASecretIsForOneIssuer(t *testing.T) {
	as := oauthtest.New(t)
	as.NoRegistration = true
	mux := http.NewServeMux()
	other := httptest.NewServer(mux)
	defer other.Close()
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q]}`, as.Endpoint(), as.URL)
	})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	free := httptest.NewServer(nil) // a port that is free a moment later
	callback := free.URL + "/callback"
	free.Close()
	as.AddClient("mine", "s3cret", callback)
	s := oauth.Server{Name: "guarded", URL: other.URL + "/mcp", ClientID: "mine", ClientSecret: "s3cret", CallbackURL: callback, Resource: as.Endpoint()}
	store := oauth.Store{Dir: t.TempDir()}

	_, err := login(t, as, s, store)
	require.ErrorContains(t, err, fmt.Sprintf("set authorization_server_issuer = %q in [mcp_servers.guarded.oauth]", as.URL))
	require.Zero(t, as.Count("authorize"))

	bound := s
	bound.Issuer = as.URL
	g, err := login(t, as, bound, store)
	require.NoError(t, err)
	require.NotEmpty(t, g.RefreshToken)
	kept, err := store.Load(bound)
	require.NoError(t, err)
	require.NotNil(t, kept)

	// A grant from before: its secret is not sent any more.
	for _, issuer := range []string{"", "https://another.example"} {
		s.Issuer = issuer
		kept, err = store.Load(s)
		require.NoError(t, err)
		require.Nil(t, kept)
	}
	count := as.Count("token refresh_token")
	_, err = oauth.NewSource(store, s, nil, nil).Renew(t.Context(), g.AccessToken, nil)
	var needed *oauth.LoginError
	require.ErrorAs(t, err, &needed)
	require.Equal(t, count, as.Count("token refresh_token"))

	// A server that is its own needs no more.
	own := server(as)
	own.ClientID, own.ClientSecret, own.CallbackURL = "mine", "s3cret", callback
	_, err = login(t, as, own, oauth.Store{Dir: t.TempDir()})
	require.NoError(t, err)
}

// A browser elsewhere cannot come back; its address is pasted.
func TestAPastedAddress(t *testing.T) {
	as := oauthtest.New(t)
	pasted := make(chan string, 2)
	g, err := login(t, as, server(as), oauth.Store{Dir: t.TempDir()}, func(o *oauth.Options) {
		o.Pasted = pasted
		o.OpenURL = func(address string) {
			c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			resp, err := c.Get(address)
			if err == nil {
				resp.Body.Close()
				pasted <- "what is this"
				pasted <- " " + resp.Header.Get("Location") + "\n"
			}
		}
	})
	require.NoError(t, err)
	require.NotEmpty(t, g.AccessToken)
}

func TestRefreshIsSharedByAll(t *testing.T) {
	as := oauthtest.New(t)
	store := oauth.Store{Dir: t.TempDir()}
	g, err := login(t, as, server(as), store)
	require.NoError(t, err)
	as.Expire()
	var all sync.WaitGroup
	var bad atomic.Int32
	for range 8 { // each a process of its own, as far as the file is concerned
		source := oauth.NewSource(store, server(as), nil, nil)
		for range 4 {
			all.Go(func() {
				if token, err := source.Renew(t.Context(), g.AccessToken, nil); err != nil || token == g.AccessToken {
					bad.Add(1)
				}
			})
		}
	}
	all.Wait()
	require.Zero(t, bad.Load())
	require.Equal(t, 1, as.Count("token refresh_token"))
	require.Empty(t, as.Faults(), "no refresh token was used twice")
}

func TestTokensAboutToExpireAreRenewedFirst(t *testing.T) {
	as := oauthtest.New(t)
	as.Lifetime = 5 * time.Second // less than what counts as early
	store := oauth.Store{Dir: t.TempDir()}
	g, err := login(t, as, server(as), store)
	require.NoError(t, err)
	as.Lifetime = time.Hour
	source := oauth.NewSource(store, server(as), nil, nil)
	for range 3 {
		token, err := source.Token(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, g.AccessToken, token)
	}
	require.Equal(t, 1, as.Count("token refresh_token"))
}

func TestWhenAPersonIsNeeded(t *testing.T) {
	as := oauthtest.New(t)
	store := oauth.Store{Dir: t.TempDir()}
	source := oauth.NewSource(store, server(as), nil, nil)
	token, err := source.Token(t.Context())
	require.NoError(t, err)
	require.Empty(t, token, "the server may need none")
	_, err = source.Renew(t.Context(), "", []string{`Bearer scope="write"`})
	require.EqualError(t, err, "login needed: run toolgate mcp login guarded (the server wants a token)")

	g, err := login(t, as, server(as), store)
	require.NoError(t, err)
	require.Contains(t, g.Scopes, "write", "what the server asked for")
	token, err = source.Token(t.Context())
	require.NoError(t, err)
	require.Equal(t, g.AccessToken, token, "a login elsewhere is seen")

	as.RevokeAll()
	_, err = source.Renew(t.Context(), token, nil)
	needed, ok := errors.AsType[*oauth.LoginError](err)
	require.True(t, ok, "%v", err)
	require.Contains(t, needed.Why, "revoked")
	_, err = source.Renew(t.Context(), token, nil)
	require.Error(t, err)
	require.Equal(t, 1, as.Count("token refresh_token"), "a revoked token is not tried again")
	_, err = login(t, as, server(as), store)
	require.NoError(t, err)
	require.Equal(t, 1, as.Count("register"))
}

// An authorization server that is away for a while costs nobody the login.
func TestALoginOutlivesABadDay(t *testing.T) {
	as := oauthtest.New(t)
	store := oauth.Store{Dir: t.TempDir()}
	g, err := login(t, as, server(as), store)
	require.NoError(t, err)
	source := oauth.NewSource(store, server(as), &http.Client{Transport: broken{}}, nil)
	_, err = source.Renew(t.Context(), g.AccessToken, nil)
	require.ErrorContains(t, err, "out of order")
	_, login := errors.AsType[*oauth.LoginError](err)
	require.False(t, login)
	source = oauth.NewSource(store, server(as), nil, nil)
	_, err = source.Renew(t.Context(), g.AccessToken, nil)
	require.NoError(t, err)
}

type broken struct{}

func (broken) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("out of order")
}

// A caller that leaves while a token is renewed does not lose it.
func TestRenewingEndsWhoeverWaits(t *testing.T) {
	as := oauthtest.New(t)
	store := oauth.Store{Dir: t.TempDir()}
	g, err := login(t, as, server(as), store)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	leaves := transport(func(r *http.Request) (*http.Response, error) {
		cancel()
		return http.DefaultTransport.RoundTrip(r)
	})
	source := oauth.NewSource(store, server(as), &http.Client{Transport: leaves}, nil)
	source.Renew(ctx, g.AccessToken, nil) // either way: it may be done by then
	token, err := source.Renew(t.Context(), g.AccessToken, nil)
	require.NoError(t, err)
	require.NotEqual(t, g.AccessToken, token)
	require.Equal(t, 1, as.Count("token refresh_token"))
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestInsufficientScopeIsNamed(t *testing.T) {
	as := oauthtest.New(t)
	store := oauth.Store{Dir: t.TempDir()}
	_, err := login(t, as, server(as), store)
	require.NoError(t, err)
	source := oauth.NewSource(store, server(as), nil, nil)
	require.NoError(t, source.Forbidden(t.Context(), []string{`Bearer error="invalid_token"`}))
	require.NoError(t, source.Forbidden(t.Context(), []string{`nonsense"`}))
	err = source.Forbidden(t.Context(), []string{`Bearer error="insufficient_scope", scope="write $(rm)"`})
	require.EqualError(t, err, `insufficient scope: the server guarded asks for "write", "$(rm)"; run toolgate mcp login guarded, which asks for it too`)
	g, err := login(t, as, server(as), store)
	require.NoError(t, err)
	require.Equal(t, []string{"read", "offline_access", "write", "$(rm)"}, g.Scopes, "with what it had")
	require.Empty(t, g.Needs)
}

func TestLogout(t *testing.T) {
	as := oauthtest.New(t)
	store := oauth.Store{Dir: t.TempDir()}
	_, err := login(t, as, server(as), store)
	require.NoError(t, err)
	was, err := oauth.Logout(t.Context(), server(as), store, nil)
	require.NoError(t, err)
	require.True(t, was)
	require.Zero(t, as.Live())
	require.NoFileExists(t, filepath.Join(store.Dir, "guarded.json"))
	was, err = oauth.Logout(t.Context(), server(as), store, nil)
	require.NoError(t, err)
	require.False(t, was)

	_, err = login(t, as, server(as), store)
	require.NoError(t, err)
	was, err = oauth.Logout(t.Context(), server(as), store, &http.Client{Transport: broken{}})
	require.ErrorIs(t, err, oauth.ErrNotRevoked)
	require.True(t, was)
	require.NoFileExists(t, filepath.Join(store.Dir, "guarded.json"))
}

// Tokens are for the address that they were asked for.
func TestTokensDoNotFollowTheConfig(t *testing.T) {
	as := oauthtest.New(t)
	store := oauth.Store{Dir: t.TempDir()}
	_, err := login(t, as, server(as), store)
	require.NoError(t, err)
	other := server(as)
	other.URL = "https://evil.example/mcp"
	token, err := oauth.NewSource(store, other, nil, nil).Token(t.Context())
	require.NoError(t, err)
	require.Empty(t, token)
}

func TestNamesOfServersDoNotCollide(t *testing.T) {
	dir := t.TempDir()
	store := oauth.Store{Dir: dir}
	for _, name := range []string{"a", "A", "../a", "a/b", "a:b"} {
		source := oauth.NewSource(store, oauth.Server{Name: name, URL: "https://x/" + name}, nil, nil)
		_, err := source.Renew(t.Context(), "", nil)
		require.Error(t, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 5)
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		require.True(t, json.Valid(b))
	}
}

// What servers put into headers is shown to people and models.
func FuzzForbidden(f *testing.F) {
	for _, seed := range []string{`Bearer error="insufficient_scope", scope="a b"`, `Bearer scope="\"", error=insufficient_scope`, `Basic x=y, Bearer error="insufficient_scope",scope=a,,`, `"`, "Bearer error=\"insufficient_scope\", scope=\"\x1b[2J\n\""} {
		f.Add(seed)
	}
	store := oauth.Store{Dir: f.TempDir()}
	f.Fuzz(func(t *testing.T, header string) {
		err := oauth.NewSource(store, oauth.Server{Name: "s", URL: "https://s"}, nil, nil).Forbidden(t.Context(), []string{header, header})
		if err == nil {
			return
		}
		_, ok := errors.AsType[*oauth.ScopeError](err)
		require.True(t, ok)
		require.NotContains(t, err.Error(), "\n")
		require.NotContains(t, err.Error(), "\x1b")
	})
}
