package config

import (
	"fmt"
	"maps"
	"net/url"
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

// OAuth is [http.oauth]: the authorization server whose tokens are accepted. Each subject
// is a separate caller.
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
func (h HTTP) SessionTime() time.Duration { return time.Duration(h.SessionTTL * float64(time.Second)) }

var hashForm = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)

// checkHTTP validates [http].
func (c *Config) checkHTTP(text []byte, file string) error {
	h := c.HTTP
	fault := func(table, key, hint, format string, args ...any) error {
		msg := table + ": " + fmt.Sprintf(format, args...)
		return &Error{File: file, Line: lineIn(text, table, key), Msg: msg, Hint: hint}
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
		if !validName(name) || name == "default" {
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
		if o.Audience+o.Resource+o.JWKSURL != "" || o.Scopes != nil || !o.Overrides.empty() {
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

func (v Overrides) empty() bool {
	return v.Workspace+v.ApprovalPolicy+v.SandboxMode+v.Permissions == "" && v.Servers == nil
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

// lineIn returns the line that sets key in a table, the line of the table if key is not
// set, or 0.
func lineIn(text []byte, table, key string) int {
	inside, at := false, 0
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			inside = strings.NewReplacer(`"`, "", "'", "").Replace(line) == "["+table+"]"
			if inside {
				at = i + 1
			}
			continue
		}
		if name, _, ok := strings.Cut(line, "="); inside && ok && strings.TrimSpace(name) == key {
			return i + 1
		}
	}
	return at
}

// AddToken returns text with the table of a token appended. The existing text is preserved
// byte for byte.
func AddToken(text []byte, name string, t HTTPToken) ([]byte, error) {
	var before Config
	if err := before.decode(text, "config"); err != nil {
		return nil, err
	}
	if _, ok := before.HTTP.Tokens[name]; ok {
		return nil, &Error{
			File: "config",
			Msg:  fmt.Sprintf("there is a token %s already", name),
			Hint: "`toolgate http token remove " + name + "` removes it",
		}
	}
	set := map[string]any{"hash": t.Hash}
	for key, v := range map[string]string{
		"workspace":           t.Workspace,
		"approval_policy":     t.ApprovalPolicy,
		"sandbox_mode":        t.SandboxMode,
		"default_permissions": t.Permissions,
	} {
		if v != "" {
			set[key] = v
		}
	}
	if t.Servers != nil {
		set["servers"] = t.Servers
	}
	b, err := toml.Marshal(map[string]any{"http": map[string]any{"tokens": map[string]any{name: set}}})
	if err != nil {
		return nil, err
	}
	table := strings.TrimPrefix(string(b), "[http]\n")
	table = strings.TrimPrefix(table, "[http.tokens]\n")
	out := strings.TrimRight(string(text), "\n")
	if out != "" {
		out += "\n\n"
	}
	out += table
	var after Config
	if err := after.decode([]byte(out), "config"); err != nil {
		return nil, fmt.Errorf("appending the token: %w", err)
	}
	return []byte(out), nil
}

// RemoveToken returns the config text without the table of a token.
func RemoveToken(text []byte, name string) ([]byte, error) {
	var before Config
	if err := before.decode(text, "config"); err != nil {
		return nil, err
	}
	if _, ok := before.HTTP.Tokens[name]; !ok {
		return nil, &Error{
			File: "config",
			Msg:  fmt.Sprintf("there is no token %s", name),
			Hint: "`toolgate http token list` lists the tokens",
		}
	}
	var out strings.Builder
	inside := false
	for line := range strings.Lines(string(text)) {
		if t := strings.TrimSpace(line); strings.HasPrefix(t, "[") {
			inside = strings.NewReplacer(`"`, "", "'", "").Replace(t) == "[http.tokens."+name+"]"
		}
		if !inside {
			out.WriteString(line)
		}
	}
	var after Config
	err := after.decode([]byte(out.String()), "config")
	if err != nil || len(after.HTTP.Tokens) != len(before.HTTP.Tokens)-1 {
		return nil, &Error{
			File: "config",
			Msg:  fmt.Sprintf("the token %s is not written as a table of its own", name),
			Hint: "remove it by hand",
		}
	}
	return []byte(out.String()), nil
}
