package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// A Source provides the access tokens for one server. It notices when another process logs
// in or out. It may be used concurrently.
type Source struct {
	store  Store
	server Server
	client *http.Client
	log    *slog.Logger

	mu    sync.Mutex
	grant *Grant      // nil: not logged in
	seen  os.FileInfo // of the file that grant was read from
	read  bool
}

// NewSource returns the source of a server's tokens. client and log may be nil.
func NewSource(store Store, server Server, client *http.Client, log *slog.Logger) *Source {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Source{store: store, server: server, client: client, log: log}
}

// renewBefore is how long before its expiry a token is renewed, to allow for latency and
// clock skew.
const renewBefore = 10 * time.Second

// Token returns the access token, or "" if nobody has logged in, because the server may
// need none. A token that is about to expire is renewed first.
func (s *Source) Token(ctx context.Context) (string, error) {
	g, err := s.current()
	if err != nil || g == nil {
		return "", err
	}
	renewable := g.AccessToken != "" && g.RefreshToken != "" // else the server decides
	if !renewable || g.Expires.IsZero() || time.Until(g.Expires) > renewBefore {
		return g.AccessToken, nil
	}
	token, err := s.Renew(ctx, g.AccessToken, nil)
	if _, login := errors.AsType[*LoginError](err); err != nil && !login && time.Now().Before(g.Expires) {
		s.log.Warn("access token not renewed", "downstream", s.server.Name, "err", err)
		return g.AccessToken, nil
	}
	return token, err
}

// current returns the stored grant, which it reloads if the file has changed.
func (s *Source) current() (*Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.store.stamp(s.server.Name)
	if s.read && sameStamp(now, s.seen) {
		return s.grant, nil
	}
	g, err := s.store.Load(s.server)
	if err != nil {
		return nil, err
	}
	s.grant, s.seen, s.read = g, now, true
	return g, nil
}

// Renew returns a token to replace the rejected one ("" for none). challenges are the
// WWW-Authenticate headers of the response. The error is a *[LoginError] if the user must
// log in; other errors are temporary.
func (s *Source) Renew(ctx context.Context, refused string, challenges []string) (string, error) {
	type renewed struct {
		token string
		err   error
	}
	done := make(chan renewed, 1)
	go func() { // ends with the response or its timeout
		// Not canceled with ctx: the new refresh token would be lost, and the old one is spent.
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
		return kept.AccessToken, nil // another process was faster
	}
	g := Grant{URL: s.server.URL, Resource: s.server.resource()}
	if kept != nil {
		g = *kept
	}
	needs := parseChallenges(challenges).scopes
	if g.RefreshToken == "" {
		why := cmp.Or(g.Why, "the server wants a token")
		if refused != "" {
			why = "the server refuses the token, and there is none to renew it with"
		}
		return "", s.loginNeeded(&g, why, needs)
	}
	err = g.requestTokens(ctx, s.client, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.RefreshToken}})
	if no, ok := errors.AsType[*errorResponse](err); ok && slices.Contains(finalErrors, no.Code) {
		return "", s.loginNeeded(&g, no.Error(), needs)
	}
	if err != nil {
		return "", fmt.Errorf("renewing the access token of the server %s: %w", s.server.Name, err)
	}
	if err := s.store.save(s.server.Name, &g); err != nil {
		s.log.Error("saving the new tokens; a login will be needed", "downstream", s.server.Name, "err", err)
	}
	s.mu.Lock()
	s.grant, s.seen, s.read = &g, s.store.stamp(s.server.Name), true
	s.mu.Unlock()
	return g.AccessToken, nil
}

// Spent records that a token that has just been renewed was rejected too, and returns a
// *[LoginError].
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
		return s.server.loginError(why) // removed in the meantime
	}
	return s.loginNeeded(g, why, parseChallenges(challenges).scopes)
}

// loginNeeded removes the tokens, stores the reason, and returns it as an error. The lock
// must be held.
func (s *Source) loginNeeded(g *Grant, why string, needs []string) error {
	same := g.AccessToken == "" && g.RefreshToken == "" && g.Why == why &&
		len(union(g.Needs, needs)) == len(g.Needs)
	g.AccessToken, g.RefreshToken, g.Expires = "", "", time.Time{}
	g.Why, g.Needs = why, union(g.Needs, needs)
	if !same {
		if err := s.store.save(s.server.Name, g); err != nil {
			s.log.Warn("saving that a login is needed", "downstream", s.server.Name, "err", err)
		}
	}
	return s.server.loginError(why)
}

// Forbidden returns the reason for a 403 response: a *[ScopeError] if scopes are missing,
// nil if the headers give another reason or none. It also stores the missing scopes.
func (s *Source) Forbidden(ctx context.Context, challenges []string) error {
	c := parseChallenges(challenges)
	if c.err != "insufficient_scope" {
		return nil
	}
	if unlock, err := s.store.lock(ctx, s.server.Name); err == nil {
		defer unlock()
		if g, err := s.store.Load(s.server); err == nil && g != nil && len(union(g.Needs, c.scopes)) > len(g.Needs) {
			g.Needs = union(g.Needs, c.scopes) // the next login requests them
			if err := s.store.save(s.server.Name, g); err != nil {
				s.log.Warn("saving the missing scopes", "downstream", s.server.Name, "err", err)
			}
		}
	}
	return &ScopeError{Server: s.server.Name, Command: s.server.LoginCommand, Scopes: c.scopes}
}

// pollLogin is the interval of checks for a login in another process.
const pollLogin = 2 * time.Second

// Changed returns when the stored grant has changed, for example by a login, or when ctx ends.
func (s *Source) Changed(ctx context.Context) {
	was := s.store.stamp(s.server.Name)
	tick := time.NewTicker(pollLogin)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !sameStamp(s.store.stamp(s.server.Name), was) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// A challenge is the content of WWW-Authenticate headers with the Bearer scheme.
type challenge struct {
	metadata string // URL of the protected resource metadata
	scopes   []string
	err      string
}

func parseChallenges(headers []string) challenge {
	var c challenge
	for _, h := range headers {
		list, err := oauthex.ParseWWWAuthenticate([]string{h})
		if err != nil {
			continue // malformed
		}
		for _, one := range list {
			if one.Scheme != "bearer" {
				continue
			}
			c.metadata = cmp.Or(c.metadata, one.Params["resource_metadata"])
			c.err = cmp.Or(c.err, one.Params["error"])
			if c.scopes == nil && one.Params["scope"] != "" {
				c.scopes = strings.Fields(one.Params["scope"])
			}
		}
	}
	return c
}
