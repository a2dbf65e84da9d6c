package app

import (
	"cmp"
	"path/filepath"

	"toolgate/internal/config"
	"toolgate/internal/oauth"
)

// TokenStore returns the store of logins.
func TokenStore(stateDir string) oauth.Store {
	return oauth.Store{Dir: filepath.Join(stateDir, "oauth")}
}

// OAuthServer returns what a login to the server needs.
func OAuthServer(name string, s config.MCPServer, c config.Config) oauth.Server {
	return oauth.Server{
		Name:         name,
		URL:          s.URL,
		ClientID:     s.OAuth.ClientID,
		ClientSecret: s.OAuth.ClientSecret,
		ClientAuth:   s.OAuth.TokenEndpointAuthMethod,
		Issuer:       s.OAuth.AuthorizationServerIssuer,
		Resource:     s.OAuthResource,
		Scopes:       s.Scopes,
		CallbackPort: cmp.Or(s.OAuth.CallbackPort, c.MCPOAuthCallbackPort),
		CallbackURL:  cmp.Or(s.OAuth.CallbackURL, c.MCPOAuthCallbackURL),
	}
}

// Tokens returns the source of a server's access tokens, nil if the config authenticates in another way.
func (s *Settings) Tokens(name string, server config.MCPServer) *oauth.Source {
	if !server.TakesLogin() {
		return nil
	}
	of := OAuthServer(name, server, s.Config)
	if s.verbatim { // wrapped, so that it is not in the config
		of.LoginCommand = "toolgate mcp login " + name + " --url " + server.URL
	}
	return oauth.NewSource(TokenStore(s.StateDir), of, nil, s.Log)
}
