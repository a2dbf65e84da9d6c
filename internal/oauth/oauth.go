// Package oauth obtains and stores the access tokens for MCP servers that are reached over
// HTTP, as specified in the authorization chapter of MCP.
//
//	grant, err := oauth.Login(ctx, server, store, options) // a person, a browser
//	source := oauth.NewSource(store, server, client, log)
//	token, err := source.Token(ctx)                         // for each request
//	token, err = source.Renew(ctx, token, challenges)       // when it was rejected
//
// The authorization server is discovered from the MCP server's protected resource metadata
// (RFC 9728) and its own metadata (RFC 8414, OpenID Connect Discovery). toolgate is a
// public client with PKCE (RFC 7636), registered by the user or dynamically (RFC 7591).
// Tokens are requested for one resource (RFC 8707) and stored in one file per server, which
// several processes share.
package oauth

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Server is an MCP server as the config describes it.
type Server struct {
	Name string
	URL  string

	LoginCommand string // shown to the user; "": toolgate mcp login NAME

	ClientID     string // registered by the user; "": dynamic registration
	ClientSecret string
	ClientAuth   string // token_endpoint_auth_method; "": from the authorization server's metadata

	Issuer   string   // the required authorization server; "": the one that the server names, without ClientSecret
	Resource string   // to request tokens for; "": URL
	Scopes   []string // to request; nil: those that the server names

	CallbackPort int    // local port of the redirect URI; 0: any
	CallbackURL  string // redirect URI, if not on the loopback
}

// resource returns the resource that tokens are requested for.
func (s Server) resource() string { return cmp.Or(s.Resource, s.URL) }

// loginError returns the error that asks for a login.
func (s Server) loginError(why string) error {
	return &LoginError{Server: s.Name, Command: s.LoginCommand, Why: why}
}

// loginCommand returns the command that logs in to the server, if command is not given.
func loginCommand(command, server string) string {
	return cmp.Or(command, "toolgate mcp login "+server)
}

// A LoginError means that the user must log in.
type LoginError struct {
	Server  string
	Command string // that does it; "": toolgate mcp login SERVER
	Why     string // may be empty
}

func (e *LoginError) Error() string {
	s := "login needed: run " + loginCommand(e.Command, e.Server)
	if e.Why != "" {
		s += " (" + e.Why + ")"
	}
	return s
}

// A ScopeError means that the token is valid but lacks a scope.
type ScopeError struct {
	Server  string
	Command string   // that logs in again; "": toolgate mcp login SERVER
	Scopes  []string // required
}

func (e *ScopeError) Error() string {
	scopes := "more than was granted"
	if len(e.Scopes) > 0 {
		var quoted []string // because a server chose them
		for _, s := range e.Scopes {
			quoted = append(quoted, strconv.Quote(s))
		}
		scopes = strings.Join(quoted, ", ")
	}
	return fmt.Sprintf("insufficient scope: the server %s asks for %s; run %s, which asks for it too",
		e.Server, scopes, loginCommand(e.Command, e.Server))
}

// union returns the elements of both lists without duplicates.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// timeout of one request to an authorization server.
const timeout = 30 * time.Second

// noRedirects returns c with a timeout and without redirects, because credentials must not
// be forwarded.
func noRedirects(c *http.Client) *http.Client {
	s := &http.Client{Timeout: timeout, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
		return fmt.Errorf("unexpected redirect to %s", req.URL.Redacted())
	}}
	if c != nil {
		s.Transport = c.Transport
	}
	return s
}
