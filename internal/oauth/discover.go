package oauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// A discovery is what discovery says about a server.
type discovery struct {
	resource string   // what tokens are to be asked for
	scopes   []string // that the server wants
	as       *oauthex.AuthServerMeta
}

// discover finds the authorization server of s. probe makes a request to s
// without a token and returns the answer's WWW-Authenticate headers.
func discover(ctx context.Context, s Server, c *http.Client, probe func(context.Context) ([]string, error)) (*discovery, error) {
	headers, err := probe(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking the server %s: %w", s.Name, err)
	}
	said := parseChallenges(headers)
	look := metadataClient(ctx, s, c)
	prm, err := protectedResource(ctx, s, said.metadata, look)
	if err != nil {
		return nil, err
	}
	f := &discovery{resource: s.resource(), scopes: said.scopes}
	issuer := ""
	if prm == nil { // before RFC 9728 a server was its own authorization server
		u, err := url.Parse(s.URL)
		if err != nil {
			return nil, err
		}
		issuer = u.Scheme + "://" + u.Host
	} else {
		if s.Resource == "" {
			f.resource = prm.Resource
		}
		if f.scopes == nil {
			f.scopes = prm.ScopesSupported
		}
		if len(prm.AuthorizationServers) > 0 {
			issuer = prm.AuthorizationServers[0]
		}
	}
	if s.Issuer != "" {
		if issuer, err = configuredIssuer(s, prm); err != nil {
			return nil, err
		}
	}
	if issuer == "" {
		return nil, fmt.Errorf("the server %s names no authorization server", s.Name)
	}
	f.as, err = auth.GetAuthServerMetadata(ctx, issuer, look)
	if err != nil {
		return nil, fmt.Errorf("the authorization server of %s: %w", s.Name, err)
	}
	if f.as == nil && prm == nil {
		f.as = &oauthex.AuthServerMeta{
			Issuer:                        issuer,
			AuthorizationEndpoint:         issuer + "/authorize",
			TokenEndpoint:                 issuer + "/token",
			RegistrationEndpoint:          issuer + "/register",
			CodeChallengeMethodsSupported: []string{"S256"}, // the revision of 2025-03-26 asks for it
		}
	}
	switch {
	case f.as == nil:
		return nil, fmt.Errorf("the authorization server %s has no metadata", issuer)
	case f.as.AuthorizationEndpoint == "" || f.as.TokenEndpoint == "":
		return nil, fmt.Errorf("the authorization server %s names no endpoints", issuer)
	case !slices.Contains(f.as.CodeChallengeMethodsSupported, "S256"):
		return nil, fmt.Errorf("the authorization server %s does not know the code challenge method S256", issuer)
	}
	return f, nil
}

// configuredIssuer returns the authorization server that the config asks for, as
// the server itself names it.
func configuredIssuer(s Server, prm *oauthex.ProtectedResourceMetadata) (string, error) {
	if prm == nil {
		return s.Issuer, nil
	}
	i := slices.IndexFunc(prm.AuthorizationServers, func(a string) bool { return sameIssuer(a, s.Issuer) })
	if i < 0 {
		return "", fmt.Errorf("the server %s names the authorization servers %q, and the config asks for %q", s.Name, prm.AuthorizationServers, s.Issuer)
	}
	return prm.AuthorizationServers[i], nil
}

func sameIssuer(a, b string) bool {
	return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// protectedResource returns the server's metadata, nil when it has none. That
// for another resource is an error: a token for it is not meant for s.
func protectedResource(ctx context.Context, s Server, named string, c *http.Client) (*oauthex.ProtectedResourceMetadata, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	origin := u.Scheme + "://" + u.Host
	const wellKnown = "/.well-known/oauth-protected-resource"
	type place struct{ at, of string }
	var places []place
	if named != "" {
		places = append(places, place{named, s.URL}, place{named, origin}, place{named, origin + "/"})
	}
	if p := strings.TrimSuffix(u.EscapedPath(), "/"); p != "" {
		places = append(places, place{origin + wellKnown + p, s.URL})
	}
	places = append(places, place{origin + wellKnown, s.URL}, place{origin + wellKnown, origin}, place{origin + wellKnown, origin + "/"})
	if s.Resource != "" {
		for _, p := range slices.Clone(places) {
			places = append(places, place{p.at, s.Resource})
		}
	}
	var wrong, broken error
	for _, p := range places {
		prm, err := oauthex.GetProtectedResourceMetadata(ctx, p.at, p.of, c)
		if err == nil {
			return prm, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if strings.Contains(err.Error(), "got metadata resource") || strings.Contains(err.Error(), "authorization_servers") {
			wrong = err // there is some, and it is not to be believed
		} else if !strings.Contains(err.Error(), "bad status 4") && !strings.Contains(err.Error(), "bad content type") {
			broken = err // there may be some
		}
	}
	if wrong != nil {
		return nil, fmt.Errorf("the metadata of the server %s is for something else: %w", s.Name, wrong)
	}
	if broken != nil {
		return nil, fmt.Errorf("the metadata of the server %s: %w", s.Name, broken)
	}
	return nil, nil
}

// metadataClient returns the client for what a server's metadata points at. It
// reaches no private address, so that a server on the internet cannot have us
// look at what only we can reach; unless the server itself is at one.
func metadataClient(ctx context.Context, s Server, c *http.Client) *http.Client {
	look := &http.Client{Timeout: timeout}
	if c != nil {
		look.Transport = c.Transport
	}
	u, err := url.Parse(s.URL)
	if err != nil || c != nil && c.Transport != nil {
		return look
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err == nil && slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Unmap().IsPrivate() || a.Unmap().IsLinkLocalUnicast() }) {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.DialContext = (&net.Dialer{Timeout: timeout}).DialContext
		look.Transport = own
	}
	return look
}

// register puts into g who we are to the authorization server: what the config
// says, what was registered before with the same redirect address, or a
// registration made now.
func (g *Grant) register(ctx context.Context, s Server, as *oauthex.AuthServerMeta, kept *Grant, c *http.Client) error {
	if s.ClientID != "" {
		g.ClientID, g.ClientSecret, g.ClientAuth = s.ClientID, s.ClientSecret, authMethod(s.ClientAuth, s.ClientSecret, as.TokenEndpointAuthMethodsSupported)
		return nil
	}
	g.Registered = true
	if kept != nil && kept.Registered && kept.Issuer == g.Issuer && kept.RedirectURI == g.RedirectURI && (kept.SecretExpires.IsZero() || time.Now().Before(kept.SecretExpires)) {
		g.ClientID, g.ClientSecret, g.ClientAuth, g.SecretExpires = kept.ClientID, kept.ClientSecret, kept.ClientAuth, kept.SecretExpires
		return nil
	}
	if as.RegistrationEndpoint == "" {
		return fmt.Errorf("the authorization server %s registers no clients by itself; register one there, with the redirect address %s, and set oauth = { client_id = \"…\" } for the server %s", as.Issuer, g.RedirectURI, s.Name)
	}
	meta := &oauthex.ClientRegistrationMetadata{
		RedirectURIs:            []string{g.RedirectURI},
		ClientName:              "toolgate",
		GrantTypes:              []string{"authorization_code", "refresh_token"},
		ResponseTypes:           []string{"code"},
		ApplicationType:         "native",
		TokenEndpointAuthMethod: registrationMethod(as.TokenEndpointAuthMethodsSupported),
	}
	reg, err := oauthex.RegisterClient(ctx, as.RegistrationEndpoint, meta, noRedirects(c))
	if err != nil {
		return fmt.Errorf("registering at %s: %w", as.Issuer, err)
	}
	g.ClientID, g.ClientSecret, g.SecretExpires = reg.ClientID, reg.ClientSecret, reg.ClientSecretExpiresAt
	g.ClientAuth = authMethod(or(reg.TokenEndpointAuthMethod, meta.TokenEndpointAuthMethod), reg.ClientSecret, as.TokenEndpointAuthMethodsSupported)
	return nil
}

// authMethod returns how a client with this secret authenticates.
func authMethod(asked, secret string, supported []string) string {
	switch {
	case secret == "":
		return authNone
	case asked == authPost || asked == authBasic:
		return asked
	case len(supported) == 0 || slices.Contains(supported, authBasic):
		return authBasic // "if omitted, the default is client_secret_basic" (RFC 8414)
	}
	return authPost
}

// registrationMethod is how we ask to authenticate: with PKCE a secret on a
// user's machine adds nothing.
func registrationMethod(supported []string) string {
	for _, m := range []string{authNone, authPost, authBasic} {
		if slices.Contains(supported, m) {
			return m
		}
	}
	return authNone
}

// scopesFor returns what a login asks for: what the person said, else what the
// config says or the server names, with what was granted and what was missing
// before.
func scopesFor(s Server, given []string, f *discovery, kept *Grant) []string {
	if given != nil {
		return given
	}
	scopes := s.Scopes
	if scopes == nil {
		scopes = f.scopes
		if slices.Contains(f.as.ScopesSupported, "offline_access") {
			scopes = union(scopes, []string{"offline_access"})
		}
	}
	if kept != nil {
		scopes = union(union(scopes, kept.Scopes), kept.Needs)
	}
	return scopes
}

var errNoCode = errors.New("the authorization server sent no code")
