package oauth

import (
	"cmp"
	"context"
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

// A discovery is the result of discovering a server's authorization server.
type discovery struct {
	resource string   // the resource to request tokens for
	scopes   []string // required by the server
	as       *oauthex.AuthServerMeta
}

// discover finds the authorization server of s.
func discover(ctx context.Context, s Server, o Options) (*discovery, error) {
	headers, err := probe(ctx, s, o)
	if err != nil {
		return nil, fmt.Errorf("probing the server %s: %w", s.Name, err)
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	challenges := parseChallenges(headers)
	client := metadataClient(ctx, u)
	prm, err := protectedResource(ctx, s, u, challenges.metadata, client)
	if err != nil {
		return nil, err
	}
	f := &discovery{resource: s.resource(), scopes: challenges.scopes}
	issuer := ""
	if prm == nil { // before RFC 9728 a server was its own authorization server
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
	f.as, err = auth.GetAuthServerMetadata(ctx, issuer, client)
	if err != nil {
		return nil, fmt.Errorf("the authorization server of %s: %w", s.Name, err)
	}
	if f.as == nil && prm == nil {
		f.as = &oauthex.AuthServerMeta{
			Issuer:                        issuer,
			AuthorizationEndpoint:         issuer + "/authorize",
			TokenEndpoint:                 issuer + "/token",
			RegistrationEndpoint:          issuer + "/register",
			CodeChallengeMethodsSupported: []string{"S256"}, // required by MCP 2025-03-26
		}
	}
	switch {
	case f.as == nil:
		return nil, fmt.Errorf("the authorization server %s has no metadata", issuer)
	case f.as.AuthorizationEndpoint == "" || f.as.TokenEndpoint == "":
		return nil, fmt.Errorf("the authorization server %s names no endpoints", issuer)
	case !slices.Contains(f.as.CodeChallengeMethodsSupported, "S256"):
		return nil, fmt.Errorf("the authorization server %s does not support the code challenge method S256", issuer)
	}
	return f, nil
}

// checkIssuer returns an error unless the client secret of the config is for that
// authorization server: the one that the config requires, or the server's own. Otherwise
// the server could name one that collects secrets.
func (s Server) checkIssuer(issuer string) error {
	if s.Issuer != "" {
		if strings.TrimSuffix(issuer, "/") == strings.TrimSuffix(s.Issuer, "/") {
			return nil
		}
	} else if own, err := url.Parse(s.URL); err == nil {
		as, err := url.Parse(issuer)
		if err == nil && as.Scheme == own.Scheme && as.Host == own.Host {
			return nil
		}
	}
	return fmt.Errorf("the server %s names the authorization server %q, and the config does not say that its "+
		"client_secret is for that one; if it is, set authorization_server_issuer = %q in [mcp_servers.%s.oauth]",
		s.Name, issuer, issuer, s.Name)
}

// configuredIssuer returns the authorization server from the config, spelled as in the
// server's metadata. It is an error if the metadata does not list it.
func configuredIssuer(s Server, prm *oauthex.ProtectedResourceMetadata) (string, error) {
	if prm == nil {
		return s.Issuer, nil
	}
	i := slices.IndexFunc(prm.AuthorizationServers, func(a string) bool {
		return strings.TrimSuffix(a, "/") == strings.TrimSuffix(s.Issuer, "/")
	})
	if i < 0 {
		return "", fmt.Errorf("the server %s names the authorization servers %q, but the config requires %q",
			s.Name, prm.AuthorizationServers, s.Issuer)
	}
	return prm.AuthorizationServers[i], nil
}

// protectedResource returns the server's metadata, or nil if it has none. Metadata for
// another resource is an error, because its tokens would not be meant for s.
func protectedResource(
	ctx context.Context, s Server, u *url.URL, named string, c *http.Client,
) (*oauthex.ProtectedResourceMetadata, error) {
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
	root := origin + wellKnown
	places = append(places, place{root, s.URL}, place{root, origin}, place{root, origin + "/"})
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
		mentions := func(text string) bool { return strings.Contains(err.Error(), text) }
		if mentions("got metadata resource") || mentions("authorization_servers") {
			wrong = err // there is metadata, but it cannot be trusted
		} else if !mentions("bad status 4") && !mentions("bad content type") {
			broken = err // there may be metadata
		}
	}
	if wrong != nil {
		return nil, fmt.Errorf("the metadata of the server %s is for another resource: %w", s.Name, wrong)
	}
	if broken != nil {
		return nil, fmt.Errorf("the metadata of the server %s: %w", s.Name, broken)
	}
	return nil, nil
}

// metadataClient returns the client for URLs in a server's metadata. Unless the server
// itself has a private address, the client does not connect to private addresses, so that
// a server on the internet cannot make us send requests to the local network.
func metadataClient(ctx context.Context, u *url.URL) *http.Client {
	c := &http.Client{Timeout: timeout}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	private := func(a netip.Addr) bool { return a.Unmap().IsPrivate() || a.Unmap().IsLinkLocalUnicast() }
	if err == nil && slices.ContainsFunc(addrs, private) {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.DialContext = (&net.Dialer{Timeout: timeout}).DialContext
		c.Transport = own
	}
	return c
}

// register sets g's client: the one from the config, an earlier registration with the same
// redirect URI, or a new registration.
func (g *Grant) register(ctx context.Context, s Server, as *oauthex.AuthServerMeta, kept *Grant) error {
	if s.ClientID != "" {
		if s.ClientSecret != "" {
			if err := s.checkIssuer(as.Issuer); err != nil {
				return err
			}
		}
		g.ClientID, g.ClientSecret = s.ClientID, s.ClientSecret
		g.ClientAuth = authMethod(s.ClientAuth, s.ClientSecret, as.TokenEndpointAuthMethodsSupported)
		return nil
	}
	g.Registered = true
	if kept.registeredFor(g) {
		g.ClientID, g.ClientSecret = kept.ClientID, kept.ClientSecret
		g.ClientAuth, g.SecretExpires = kept.ClientAuth, kept.SecretExpires
		return nil
	}
	if as.RegistrationEndpoint == "" {
		return fmt.Errorf("the authorization server %s does not support dynamic registration; register a client there "+
			"with the redirect URI %s, and set oauth = { client_id = \"…\" } for the server %s",
			as.Issuer, g.RedirectURI, s.Name)
	}
	meta := &oauthex.ClientRegistrationMetadata{
		RedirectURIs:            []string{g.RedirectURI},
		ClientName:              "toolgate",
		GrantTypes:              []string{"authorization_code", "refresh_token"},
		ResponseTypes:           []string{"code"},
		ApplicationType:         "native",
		TokenEndpointAuthMethod: registrationMethod(as.TokenEndpointAuthMethodsSupported),
	}
	reg, err := oauthex.RegisterClient(ctx, as.RegistrationEndpoint, meta, noRedirects(nil))
	if err != nil {
		return fmt.Errorf("registering at %s: %w", as.Issuer, err)
	}
	g.ClientID, g.ClientSecret, g.SecretExpires = reg.ClientID, reg.ClientSecret, reg.ClientSecretExpiresAt
	asked := cmp.Or(reg.TokenEndpointAuthMethod, meta.TokenEndpointAuthMethod)
	g.ClientAuth = authMethod(asked, reg.ClientSecret, as.TokenEndpointAuthMethodsSupported)
	return nil
}

// registeredFor reports whether k, which may be nil, holds a valid registration with
// g's issuer and redirect URI.
func (k *Grant) registeredFor(g *Grant) bool {
	return k != nil && k.Registered && k.Issuer == g.Issuer && k.RedirectURI == g.RedirectURI &&
		(k.SecretExpires.IsZero() || time.Now().Before(k.SecretExpires))
}

// authMethod returns how a client with this secret authenticates at the token endpoint.
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

// registrationMethod returns the authentication method to register with. With PKCE, a
// secret on a user's machine adds no security, so none is preferred.
func registrationMethod(supported []string) string {
	for _, m := range []string{authNone, authPost, authBasic} {
		if slices.Contains(supported, m) {
			return m
		}
	}
	return authNone
}

// scopesFor returns the scopes to request: the user's, else those of the config or the
// server together with scopes that were granted or missing before.
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
