// Package oauth gets and keeps the access tokens of MCP servers that are
// reached over HTTP, as the authorization chapter of MCP says.
//
//	grant, err := oauth.Login(ctx, server, store, options) // a person, a browser
//	source := oauth.NewSource(store, server, client, log)
//	token, err := source.Token(ctx)                         // for each request
//	token, err = source.Renew(ctx, token, challenges)       // when it was refused
//
// A server is found by its protected resource metadata (RFC 9728), its
// authorization server by that server's (RFC 8414, OpenID Connect discovery).
// We are a public client with PKCE (RFC 7636), registered by the user or by
// ourselves (RFC 7591); tokens are asked for one resource (RFC 8707) and kept
// in one file for each server, which several processes share.
package oauth

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Server is an MCP server as the config describes it.
type Server struct {
	Name string
	URL  string

	LoginCommand string // that a person logs in with; "": toolgate mcp login NAME

	ClientID     string // registered by the user; "": we register ourselves
	ClientSecret string
	ClientAuth   string // how the client authenticates at the token endpoint; "": as the authorization server's metadata says

	Issuer   string   // the only authorization server that is taken; "": the one that the server names
	Resource string   // what tokens are asked for; "": URL
	Scopes   []string // asked for; nil: what the server names

	CallbackPort int    // of the loopback address that the browser comes back to; 0: any
	CallbackURL  string // that the browser comes back to, when it is not that address
}

// loginCommand is what a person is told to run.
func (s Server) loginCommand() string {
	return or(s.LoginCommand, "toolgate mcp login "+s.Name)
}

// resource is what the tokens are good for.
func (s Server) resource() string {
	if s.Resource != "" {
		return s.Resource
	}
	return s.URL
}

// A LoginError says that a person has to log in.
type LoginError struct {
	Server  string
	Command string // that does it; "": toolgate mcp login SERVER
	Why     string // may be empty
}

func (e *LoginError) Error() string {
	s := "login needed: run " + Server{Name: e.Server, LoginCommand: e.Command}.loginCommand()
	if e.Why != "" {
		s += " (" + e.Why + ")"
	}
	return s
}

// A ScopeError says that the token is good, and not for this.
type ScopeError struct {
	Server  string
	Command string   // that logs in anew; "": toolgate mcp login SERVER
	Scopes  []string // that are asked for
}

func (e *ScopeError) Error() string {
	command := Server{Name: e.Server, LoginCommand: e.Command}.loginCommand()
	return fmt.Sprintf("insufficient scope: the server %s asks for %s; run %s, which asks for it too", e.Server, scopeList(e.Scopes), command)
}

// scopeList names scopes, which a server chose, for a reader.
func scopeList(scopes []string) string {
	if len(scopes) == 0 {
		return "more than was granted"
	}
	var words []string
	for _, s := range scopes {
		words = append(words, fmt.Sprintf("%q", s))
	}
	return strings.Join(words, ", ")
}

// union returns the elements of both lists, each once.
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

// noRedirects returns c with a time limit and without redirects: what goes to a
// token endpoint goes nowhere else.
func noRedirects(c *http.Client) *http.Client {
	s := &http.Client{Timeout: timeout, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
		return fmt.Errorf("it redirects to %s, which is not followed", req.URL.Redacted())
	}}
	if c != nil {
		s.Transport = c.Transport
	}
	return s
}
