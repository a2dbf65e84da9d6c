package config

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"toolgate/internal/lazyregexp"
	"toolgate/policy"
)

// HTTP is [http]: the callers over HTTP and their limits.
type HTTP struct {
	Hosts   []string `toml:"hosts"`   // allowed host names, besides localhost
	Origins []string `toml:"origins"` // allowed origins of web pages, besides its own

	SessionTTL  float64 `toml:"session_ttl"`  // idle seconds before a session ends, default 1800
	MaxSessions int     `toml:"max_sessions"` // per caller, default 64
	MaxCallers  int     `toml:"max_callers"`  // at the same time, default 64
	RateLimit   float64 `toml:"rate_limit"`   // requests per second and caller, default 50
	RateBurst   int     `toml:"rate_burst"`   // requests at once, default four times rate_limit
	OpenMetrics bool    `toml:"open_metrics"` // /metrics needs no token

	Tokens map[string]HTTPToken `toml:"tokens"` // by the caller's name
	OAuth  OAuth                `toml:"oauth"`
}

// Overrides are settings for individual callers. Zero fields inherit the rest of the config.
type Overrides struct {
	Workspace      string   `toml:"workspace"`
	ApprovalPolicy string   `toml:"approval_policy"`
	SandboxMode    string   `toml:"sandbox_mode"`
	Permissions    string   `toml:"default_permissions"` // a permission profile, instead of sandbox_mode
	Servers        []string `toml:"servers"`             // names of visible mcp_servers; not set: all
}

// HTTPToken is [http.tokens.NAME].
type HTTPToken struct {
	Hash string `toml:"hash"` // as `toolgate http token add` writes it
	Overrides
}

// OAuth is [http.oauth]: the authorization server whose tokens are accepted. Each subject is a separate caller.
type OAuth struct {
	Issuer   string   `toml:"issuer"`   // of accepted tokens
	Audience string   `toml:"audience"` // of accepted tokens, default resource
	Resource string   `toml:"resource"` // public URL of /mcp
	JWKSURL  string   `toml:"jwks_url"` // of the issuer's keys, default from its metadata
	Scopes   []string `toml:"scopes"`   // all required of a token
	Overrides
}

// Enabled reports whether OAuth is configured.
func (o OAuth) Enabled() bool { return o.Issuer != "" }

// SessionTime returns session_ttl as a duration.
func (h HTTP) SessionTime() time.Duration { return seconds(h.SessionTTL) }

var hashForm = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)

// checkHTTP validates [http].
func (c *Config) checkHTTP(src source) error {
	h := c.HTTP
	fault := func(table, key, hint, format string, args ...any) error {
		return src.fault(src.lineIn(table, key), table+": "+fmt.Sprintf(format, args...), hint)
	}
	for key, v := range map[string]float64{
		"session_ttl":  h.SessionTTL,
		"max_sessions": float64(h.MaxSessions),
		"max_callers":  float64(h.MaxCallers),
		"rate_limit":   h.RateLimit,
		"rate_burst":   float64(h.RateBurst),
	} {
		if v < 0 {
			return fault("http", key, "", "%s must not be negative", key)
		}
	}
	for _, o := range h.Origins {
		if u, err := url.Parse(o); err != nil || u.Host == "" || u.Scheme+"://"+u.Host != o {
			return fault("http", "origins", `origins look like "https://app.example.com"`, "%q is no origin", o)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.Tokens)) {
		t, table := h.Tokens[name], "http.tokens."+name
		if !nameForm.MatchString(name) || name == "default" {
			return fault(table, "", "", "the name may hold letters, digits and - _ : @ / . only, and is not default")
		}
		if !hashForm.MatchString(t.Hash) {
			hint := "`toolgate http token add " + name + "` creates one"
			return fault(table, "hash", hint, "hash is not sha256: and 64 hex digits")
		}
		if key, msg, hint := t.check(c.MCPServers); msg != "" {
			return fault(table, key, hint, "%s", msg)
		}
	}
	if key, msg, hint := h.OAuth.check(c.MCPServers); msg != "" {
		return fault("http.oauth", key, hint, "%s", msg)
	}
	return nil
}

func (o OAuth) check(servers map[string]MCPServer) (key, msg, hint string) {
	if !o.Enabled() {
		if !reflect.ValueOf(o).IsZero() {
			return "", "issuer is missing", "issuer is the URL of the authorization server"
		}
		return "", "", ""
	}
	for _, u := range []struct{ key, value string }{
		{"issuer", o.Issuer}, {"resource", o.Resource}, {"jwks_url", o.JWKSURL},
	} {
		if u.value != "" && !secureURL(u.value) {
			return u.key, fmt.Sprintf("%s %q is no https address", u.key, u.value),
				"http is only allowed for loopback addresses"
		}
	}
	if o.Resource == "" {
		return "resource", "resource is missing",
			`resource is the public URL of /mcp, such as "https://mcp.example.com/mcp"`
	}
	return o.Overrides.check(servers)
}

// secureURL reports whether u is https, or http on the loopback.
func secureURL(u string) bool {
	p, err := url.Parse(u)
	if err != nil || p.Host == "" || p.User != nil || p.Fragment != "" {
		return false
	}
	name := p.Hostname()
	loopback := name == "localhost" || name == "127.0.0.1" || name == "::1"
	return p.Scheme == "https" || p.Scheme == "http" && loopback
}

func (v Overrides) check(servers map[string]MCPServer) (key, msg, hint string) {
	if v.ApprovalPolicy != "" {
		if _, err := policy.ParseApproval(v.ApprovalPolicy); err != nil {
			return "approval_policy", err.Error(), err.(*policy.ValueError).Hint()
		}
	}
	if v.SandboxMode != "" {
		if _, err := policy.ParseMode(v.SandboxMode); err != nil {
			return "sandbox_mode", err.Error(), err.(*policy.ValueError).Hint()
		}
	}
	if v.SandboxMode != "" && v.Permissions != "" {
		return "default_permissions", "sandbox_mode and default_permissions are both set", "keep one of them"
	}
	for _, name := range v.Servers {
		if _, ok := servers[name]; !ok {
			known := strings.Join(slices.Sorted(maps.Keys(servers)), ", ")
			return "servers", fmt.Sprintf("there is no server %q", name), "servers are those of mcp_servers: " + known
		}
	}
	return "", "", ""
}

// AddToken returns text with the table of a token appended. The existing text is preserved byte for byte.
func AddToken(text []byte, name string, t HTTPToken) ([]byte, error) {
	before, err := edited(text)
	if err != nil {
		return nil, err
	}
	if _, ok := before.HTTP.Tokens[name]; ok {
		hint := "`toolgate http token remove " + name + "` removes it"
		return nil, &Error{File: editedFile, Msg: fmt.Sprintf("there is a token %s already", name), Hint: hint}
	}
	tokens := map[string]any{name: tableOf(reflect.ValueOf(t))}
	b, err := toml.Marshal(map[string]any{"http": map[string]any{"tokens": tokens}})
	if err != nil {
		return nil, err
	}
	out, err := appendTables(text, strings.TrimPrefix(string(b), "[http]\n[http.tokens]\n"))
	if err != nil {
		return nil, fmt.Errorf("appending the token: %w", err)
	}
	return out, nil
}

// RemoveToken returns the config text without the table of a token. Everything else is preserved byte for byte.
func RemoveToken(text []byte, name string) ([]byte, error) {
	names := func(c Config) []string { return slices.Collect(maps.Keys(c.HTTP.Tokens)) }
	return removeTable(text, "http.tokens", name, "token", "http token", names)
}
