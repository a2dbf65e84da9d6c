package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"toolgate/internal/printable"
)

// Values of token_endpoint_auth_method (RFC 7591, section 2).
const (
	authNone  = "none"
	authPost  = "client_secret_post"
	authBasic = "client_secret_basic"
)

// An errorResponse is an error from the authorization server (RFC 6749, section 5.2).
type errorResponse struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

func (e *errorResponse) Error() string {
	s := "the authorization server refused: " + shown(e.Code)
	if e.Description != "" {
		s += ": " + shown(e.Description)
	}
	return s
}

// shown returns a server's text as it is shown, truncated.
func shown(s string) string { return printable.Line(s[:min(len(s), 300)]) }

// finalErrors are the codes after which retrying with the same token is pointless.
var finalErrors = []string{"invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope", "invalid_target"}

// A tokenResponse is a response of the token endpoint (RFC 6749, section 5.1).
type tokenResponse struct {
	AccessToken  string      `json:"access_token"`
	TokenType    string      `json:"token_type"`
	ExpiresIn    json.Number `json:"expires_in"` // some servers send a string
	RefreshToken string      `json:"refresh_token"`
	Scope        *string     `json:"scope"`
}

// post sends a form to an endpoint of the authorization server, authenticated as g's client.
func (g *Grant) post(ctx context.Context, c *http.Client, endpoint string, form url.Values) ([]byte, error) {
	if g.ClientAuth != authBasic {
		form.Set("client_id", g.ClientID)
	}
	if g.ClientAuth == authPost {
		form.Set("client_secret", g.ClientSecret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if g.ClientAuth == authBasic {
		req.SetBasicAuth(url.QueryEscape(g.ClientID), url.QueryEscape(g.ClientSecret))
	}
	resp, err := noRedirects(c).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return b, nil
	}
	var refused errorResponse
	if json.Unmarshal(b, &refused) == nil && refused.Code != "" {
		return nil, &refused
	}
	return nil, fmt.Errorf("the authorization server answered %s", resp.Status)
}

// requestTokens requests tokens from the token endpoint and stores them in g.
func (g *Grant) requestTokens(ctx context.Context, c *http.Client, form url.Values) error {
	form.Set("resource", g.Resource)
	b, err := g.post(ctx, c, g.TokenEndpoint, form)
	if err != nil {
		return err
	}
	var t tokenResponse
	if err := json.Unmarshal(b, &t); err != nil {
		return fmt.Errorf("decoding the token response: %w", err)
	}
	switch {
	case t.AccessToken == "":
		return errors.New("the token response has no access_token")
	case !strings.EqualFold(t.TokenType, "Bearer"):
		return fmt.Errorf("unsupported token type %q; only Bearer is supported", shown(t.TokenType))
	case strings.ContainsFunc(t.AccessToken, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return errors.New("the access token contains characters that are invalid in a header")
	}
	g.AccessToken, g.Expires = t.AccessToken, time.Time{}
	if s, err := t.ExpiresIn.Float64(); err == nil && s > 0 {
		g.Expires = time.Now().Add(time.Duration(min(s, 10*365*24*3600) * float64(time.Second)))
	}
	if t.RefreshToken != "" {
		g.RefreshToken = t.RefreshToken // "the client MUST discard the old" one
	}
	if t.Scope != nil {
		g.Scopes = strings.Fields(*t.Scope)
	}
	g.Needs, g.Why = nil, ""
	return nil
}
