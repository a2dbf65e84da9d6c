package oauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// A Source gives the requests to one server their access token. It follows
// its file: a login or logout elsewhere is seen with the next request. It may
// be used concurrently.
type Source struct {
	store  Store
	server Server
	client *http.Client
	log    *slog.Logger

	mu    sync.Mutex
	grant *Grant // nil: nothing is kept
	seen  stamp  // of the file that grant was read from
	read  bool
}

// NewSource returns the source of a server's tokens. client may be nil.
func NewSource(store Store, server Server, client *http.Client, log *slog.Logger) *Source {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Source{store: store, server: server, client: client, log: log}
}

// renewBefore is how long before its end a token is renewed: requests take time, and
// clocks differ.
const renewBefore = 10 * time.Second

// Token returns the access token, "" when nobody has logged in: the server may
// need none. One that is about to expire is renewed first.
func (s *Source) Token(ctx context.Context) (string, error) {
	g, err := s.current()
	if err != nil || g == nil {
		return "", err
	}
	if g.AccessToken == "" || g.Expires.IsZero() || time.Until(g.Expires) > renewBefore {
		return g.AccessToken, nil
	}
	if g.RefreshToken == "" {
		return g.AccessToken, nil // the server has the last word
	}
	token, err := s.Renew(ctx, g.AccessToken, nil)
	if _, login := errors.AsType[*LoginError](err); err != nil && !login && time.Now().Before(g.Expires) {
		s.log.Warn("access token not renewed", "downstream", s.server.Name, "err", err)
		return g.AccessToken, nil
	}
	return token, err
}

// current returns what is kept, read anew when the file has changed.
func (s *Source) current() (*Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.store.stamp(s.server.Name)
	if s.read && now.same(s.seen) {
		return s.grant, nil
	}
	g, err := s.store.Load(s.server)
	if err != nil {
		return nil, err
	}
	s.grant, s.seen, s.read = g, now, true
	return g, nil
}

// Renew returns another token than the one that the server refused, "" for
// none, with these WWW-Authenticate headers. Its error is a *[LoginError] when
// only a person can help, and another when the authorization server cannot be
// reached now.
func (s *Source) Renew(ctx context.Context, refused string, challenges []string) (string, error) {
	type renewed struct {
		token string
		err   error
	}
	done := make(chan renewed, 1)
	go func() { // ends with the answer, or the time limit of the request
		// Who cuts this off loses the new refresh token, and the old one is spent.
		token, err := s.renew(context.WithoutCancel(ctx), refused, challenges)
		done <- renewed{token, err}
	}()
	select {
	case r := <-done:
		return r.token, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (s *Source) renew(ctx context.Context, refused string, challenges []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	unlock, err := s.store.lock(ctx, s.server.Name)
	if err != nil {
		return "", err
	}
	defer unlock()
	kept, err := s.store.Load(s.server)
	if err != nil {
		return "", err
	}
	if kept != nil && kept.AccessToken != "" && kept.AccessToken != refused {
		return kept.AccessToken, nil // somebody else was faster
	}
	g := Grant{URL: s.server.URL, Resource: s.server.resource()}
	if kept != nil {
		g = *kept
	}
	needs := parseChallenges(challenges).scopes
	if g.RefreshToken == "" {
		why := "the server wants a token"
		if refused == "" && g.Why != "" {
			why = g.Why // it was known before
		}
		if refused != "" {
			why = "the server refuses the token, and there is none to renew it with"
		}
		return "", s.loginNeeded(&g, why, needs)
	}
	err = g.requestTokens(ctx, s.client, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.RefreshToken}})
	if no, ok := errors.AsType[*errorResponse](err); ok && no.final() {
		return "", s.loginNeeded(&g, no.Error(), needs)
	}
	if err != nil {
		return "", fmt.Errorf("renewing the access token of the server %s: %w", s.server.Name, err)
	}
	if err := s.store.save(s.server.Name, &g); err != nil {
		s.log.Error("the new tokens are not kept; a login will be needed", "downstream", s.server.Name, "err", err)
	}
	s.mu.Lock()
	s.grant, s.seen, s.read = &g, s.store.stamp(s.server.Name), true
	s.mu.Unlock()
	return g.AccessToken, nil
}

// Spent says that a token which has just been renewed is refused as well, and
// returns why: a *[LoginError].
func (s *Source) Spent(ctx context.Context, refused string, challenges []string) error {
	unlock, err := s.store.lock(ctx, s.server.Name)
	if err != nil {
		return err
	}
	defer unlock()
	why := "the server refuses even a new token"
	g, err := s.store.Load(s.server)
	if err != nil {
		return err
	}
	if g == nil || g.AccessToken != refused {
		return &LoginError{Server: s.server.Name, Command: s.server.LoginCommand, Why: why} // it is gone already
	}
	return s.loginNeeded(g, why, parseChallenges(challenges).scopes)
}

// loginNeeded keeps why nobody is logged in any more, and returns it as an
// error. The lock is held.
func (s *Source) loginNeeded(g *Grant, why string, needs []string) error {
	same := g.AccessToken == "" && g.RefreshToken == "" && g.Why == why && len(union(g.Needs, needs)) == len(g.Needs)
	g.AccessToken, g.RefreshToken, g.Expires = "", "", time.Time{}
	g.Why, g.Needs = why, union(g.Needs, needs)
	if same {
		return &LoginError{Server: s.server.Name, Command: s.server.LoginCommand, Why: why}
	}
	if err := s.store.save(s.server.Name, g); err != nil {
		s.log.Warn("it is not kept that a login is needed", "downstream", s.server.Name, "err", err)
	}
	return &LoginError{Server: s.server.Name, Command: s.server.LoginCommand, Why: why}
}

// Forbidden returns why the server answered 403: a *[ScopeError] when the
// token's scopes are the reason, nil when the headers name another or none.
func (s *Source) Forbidden(ctx context.Context, challenges []string) error {
	c := parseChallenges(challenges)
	if c.err != "insufficient_scope" {
		return nil
	}
	if unlock, err := s.store.lock(ctx, s.server.Name); err == nil {
		defer unlock()
		if g, err := s.store.Load(s.server); err == nil && g != nil && len(union(g.Needs, c.scopes)) > len(g.Needs) {
			g.Needs = union(g.Needs, c.scopes) // the next login asks for them
			if err := s.store.save(s.server.Name, g); err != nil {
				s.log.Warn("missing scopes are not kept", "downstream", s.server.Name, "err", err)
			}
		}
	}
	return &ScopeError{Server: s.server.Name, Command: s.server.LoginCommand, Scopes: c.scopes}
}

// pollLogin is how often a login elsewhere is looked for.
const pollLogin = 2 * time.Second

// Changed returns when what is kept has changed, such as by a login, or with
// ctx.
func (s *Source) Changed(ctx context.Context) {
	was := s.store.stamp(s.server.Name)
	tick := time.NewTicker(pollLogin)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !s.store.stamp(s.server.Name).same(was) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// A challenge is what WWW-Authenticate headers say to a client with a bearer
// token.
type challenge struct {
	metadata string // where the protected resource metadata is
	scopes   []string
	err      string
}

func parseChallenges(headers []string) challenge {
	var c challenge
	for _, h := range headers {
		list, err := oauthex.ParseWWWAuthenticate([]string{h})
		if err != nil {
			continue // one that is no challenge says nothing
		}
		for _, one := range list {
			if one.Scheme != "bearer" {
				continue
			}
			c.metadata = or(c.metadata, one.Params["resource_metadata"])
			c.err = or(c.err, one.Params["error"])
			if c.scopes == nil && one.Params["scope"] != "" {
				c.scopes = strings.Fields(one.Params["scope"])
			}
		}
	}
	return c
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
