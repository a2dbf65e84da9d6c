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

// HTTP is [http]: who may call over HTTP, and how much of everything each may
// have.
type HTTP struct {
	Hosts   []string `toml:"hosts"`   // names it is reached by, beside localhost
	Origins []string `toml:"origins"` // of pages that may call it, beside its own

	SessionTTL  float64 `toml:"session_ttl"`  // seconds until what nobody uses ends, default 1800
	MaxSessions int     `toml:"max_sessions"` // of one caller, default 64
	MaxCallers  int     `toml:"max_callers"`  // at a time, default 64
	RateLimit   float64 `toml:"rate_limit"`   // requests of one caller in a second, default 50
	RateBurst   int     `toml:"rate_burst"`   // of them at once, default four times rate_limit
	OpenMetrics bool    `toml:"open_metrics"` // /metrics asks for no token

	Tokens map[string]HTTPToken `toml:"tokens"` // by the caller's name
	OAuth  OAuth                `toml:"oauth"`
}

// A Overrides is what callers get that is different from the rest of the
// config. Zero fields leave that as it is.
type Overrides struct {
	Workspace      string   `toml:"workspace"`
	ApprovalPolicy string   `toml:"approval_policy"`
	SandboxMode    string   `toml:"sandbox_mode"`
	Permissions    string   `toml:"default_permissions"` // a permission profile, in place of sandbox_mode
	Servers        []string `toml:"servers"`             // of mcp_servers, those to be seen; not set: all
}

// HTTPToken is [http.tokens.NAME].
type HTTPToken struct {
	Hash string `toml:"hash"` // as `toolgate http token add` writes it
	Overrides
}

// OAuth is [http.oauth]: tokens of an authorization server let in who it says.
// Each subject is a caller of its own.
type OAuth struct {
	Issuer   string   `toml:"issuer"`   // whose tokens are good
	Audience string   `toml:"audience"` // that they must be made for, default resource
	Resource string   `toml:"resource"` // the URL of /mcp as clients know it
	JWKSURL  string   `toml:"jwks_url"` // of the issuer's keys, default from its metadata
	Scopes   []string `toml:"scopes"`   // that a token must have, all of them
	Overrides
}

// Enabled reports whether tokens of an authorization server are taken.
func (o OAuth) Enabled() bool { return o.Issuer != "" }

// SessionTime returns session_ttl.
func (h HTTP) SessionTime() time.Duration { return time.Duration(h.SessionTTL * float64(time.Second)) }

var hashForm = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)

// checkHTTP refuses what cannot be meant.
func (c *Config) checkHTTP(text []byte, file string) error {
	h := c.HTTP
	fault := func(table, key, hint, format string, args ...any) error {
		return &Error{File: file, Line: lineIn(text, table, key), Msg: table + ": " + fmt.Sprintf(format, args...), Hint: hint}
	}
	for key, v := range map[string]float64{"session_ttl": h.SessionTTL, "max_sessions": float64(h.MaxSessions), "max_callers": float64(h.MaxCallers), "rate_limit": h.RateLimit, "rate_burst": float64(h.RateBurst)} {
		if v < 0 {
			return fault("http", key, "", "%s is less than nothing", key)
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
			return fault(table, "hash", "`toolgate http token add "+name+"` makes one", "hash is not sha256: and 64 hex digits")
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
	for _, u := range []struct{ key, value string }{{"issuer", o.Issuer}, {"resource", o.Resource}, {"jwks_url", o.JWKSURL}} {
		if u.value != "" && !secureURL(u.value) {
			return u.key, fmt.Sprintf("%s %q is no https address", u.key, u.value), "http is for the loopback only"
		}
	}
	if o.Resource == "" {
		return "resource", "resource is missing", `resource is the URL that clients reach /mcp at, such as "https://mcp.example.com/mcp"`
	}
	return o.Overrides.check(servers)
}

// secureURL reports whether u cannot be read on the way.
func secureURL(u string) bool {
	p, err := url.Parse(u)
	if err != nil || p.Host == "" || p.User != nil || p.Fragment != "" {
		return false
	}
	name := p.Hostname()
	return p.Scheme == "https" || p.Scheme == "http" && (name == "localhost" || name == "127.0.0.1" || name == "::1")
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
			return "servers", fmt.Sprintf("there is no server %q", name), "servers are those of mcp_servers: " + strings.Join(slices.Sorted(maps.Keys(servers)), ", ")
		}
	}
	return "", "", ""
}

// lineIn returns the line that sets key in a table, that of the table when
// there is no key, 0 when neither is found.
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

// AddToken returns the config text with the table of a token added at its
// end. What stands there already keeps its bytes.
func AddToken(text []byte, name string, t HTTPToken) ([]byte, error) {
	var before Config
	if err := before.decode(text, "config"); err != nil {
		return nil, err
	}
	if _, ok := before.HTTP.Tokens[name]; ok {
		return nil, &Error{File: "config", Msg: fmt.Sprintf("there is a token %s already", name), Hint: "`toolgate http token remove " + name + "` takes it out"}
	}
	set := map[string]any{"hash": t.Hash}
	for key, v := range map[string]string{"workspace": t.Workspace, "approval_policy": t.ApprovalPolicy, "sandbox_mode": t.SandboxMode, "default_permissions": t.Permissions} {
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
		return nil, fmt.Errorf("the token cannot be added at the end: %w", err)
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
		return nil, &Error{File: "config", Msg: fmt.Sprintf("there is no token %s", name), Hint: "`toolgate http token list` shows those there are"}
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
		return nil, &Error{File: "config", Msg: fmt.Sprintf("the token %s is not written as a table of its own", name), Hint: "take it out by hand"}
	}
	return []byte(out.String()), nil
}
