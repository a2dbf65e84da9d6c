package aggregator_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/internal/oauth"
	"toolgate/internal/oauth/oauthtest"
)

// A guarded is a set with one server that requires a login.
type guarded struct {
	as    *oauthtest.Server
	set   *aggregator.Downstreams
	store oauth.Store
	told  chan aggregator.Change
}

func (g *guarded) server() oauth.Server {
	return oauth.Server{Name: "guarded", URL: g.as.Endpoint()}
}

func (g *guarded) login(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := oauth.Login(ctx, g.server(), g.store, oauth.Options{OpenURL: func(a string) { go g.as.Browse(a) }})
	require.NoError(t, err)
}

func newGuarded(t *testing.T, loggedIn bool) *guarded {
	g := &guarded{as: oauthtest.New(t), store: oauth.Store{Dir: t.TempDir()}, told: make(chan aggregator.Change, 100)}
	if loggedIn {
		g.login(t)
	}
	one := spec("guarded", nil)
	one.HTTP = &aggregator.HTTP{URL: g.as.Endpoint(), Tokens: oauth.NewSource(g.store, g.server(), nil, nil)}
	g.set = set(t, one)
	g.set.Listen(aggregator.Listener{Changed: func(c aggregator.Change) { g.told <- c }})
	return g
}

func TestALoginIsNeeded(t *testing.T) {
	g := newGuarded(t, false)
	st := g.set.Status()[0]
	require.Equal(t, aggregator.LoginNeeded, st.State)
	require.Equal(t, "login needed: run toolgate mcp login guarded (the server wants a token)", st.Error)
	require.Equal(t, 1, g.as.Count("mcp without"), "it is not tried again and again")
	require.Empty(t, g.set.Tools())
	g.login(t)
	<-g.told // the login is seen without a call
	require.Equal(t, []string{"mcp__guarded__hello"}, names(g.set))
	got, err := call(t.Context(), g.set, "guarded", "hello", `{}`)
	require.NoError(t, err)
	require.Contains(t, got, "hello from behind")
	require.Empty(t, g.as.Faults())
}

func TestATokenThatExpiredIsRenewedWithinTheCall(t *testing.T) {
	g := newGuarded(t, true)
	for range 3 {
		g.as.Expire()
		var all sync.WaitGroup
		var bad atomic.Int32
		for range 8 {
			all.Go(func() {
				if _, err := call(t.Context(), g.set, "guarded", "hello", `{}`); err != nil {
					bad.Add(1)
				}
			})
		}
		all.Wait()
		require.Zero(t, bad.Load())
	}
	require.Equal(t, 3, g.as.Count("token refresh_token"))
	require.Equal(t, 1, g.as.Count("mcp initialize"), "the session goes on")
	require.Empty(t, g.as.Faults())
}

func TestARevokedLogin(t *testing.T) {
	g := newGuarded(t, true)
	g.as.RevokeAll()
	_, err := call(t.Context(), g.set, "guarded", "hello", `{}`)
	require.ErrorContains(t, err, "login needed: run toolgate mcp login guarded")
	_, err = call(t.Context(), g.set, "guarded", "hello", `{}`)
	require.ErrorContains(t, err, "login needed: run toolgate mcp login guarded")
	require.ErrorContains(t, err, "revoked", "still why it is")
	require.Equal(t, aggregator.LoginNeeded, g.set.Status()[0].State)
	require.NotEmpty(t, g.set.Tools(), "they are still listed")
	g.login(t)
	_, err = call(t.Context(), g.set, "guarded", "hello", `{}`)
	require.NoError(t, err)
}

func TestMissingScopesAreNamed(t *testing.T) {
	g := newGuarded(t, true)
	g.as.Need("write")
	_, err := call(t.Context(), g.set, "guarded", "hello", `{}`)
	require.EqualError(t, err, `insufficient scope: the server guarded asks for "write"; run toolgate mcp login guarded, which asks for it too`)
	require.Equal(t, aggregator.Ready, g.set.Status()[0].State, "its other tools may need less")
	require.Zero(t, g.as.Count("token refresh_token"), "another token of the same scopes would not help")
	g.login(t)
	_, err = call(t.Context(), g.set, "guarded", "hello", `{}`)
	require.NoError(t, err)
}

// The token is sent to its server only: a redirect to another host is an error.
func TestATokenIsSentToItsServerOnly(t *testing.T) {
	g := newGuarded(t, true)
	var leaked atomic.Bool
	other := newWeb(t, func(_ http.ResponseWriter, r *http.Request, _ message) { leaked.Store(true) })
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		http.Redirect(w, r, other.URL, http.StatusPermanentRedirect)
	})
	store := oauth.Store{Dir: t.TempDir()}
	_, err := oauth.NewSource(store, oauth.Server{Name: "web", URL: w.URL}, nil, nil).Token(t.Context())
	require.NoError(t, err)
	one := webSpec(w)
	one.HTTP = &aggregator.HTTP{URL: w.URL, Tokens: oauth.NewSource(g.store, g.server(), nil, nil)}
	s := set(t, one)
	require.Contains(t, s.Status()[0].Error, "another host")
	require.False(t, leaked.Load())
}
