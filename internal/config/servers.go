package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"toolgate/policy"
)

// MCPServer is one [mcp_servers.NAME]: a downstream server, started by Command
// or reached at URL. Its keys are Codex's, and below the line ours.
type MCPServer struct {
	Command string            `toml:"command"`
	Args    []string          `toml:"args"`
	Env     map[string]string `toml:"env"`
	EnvVars []any             `toml:"env_vars"` // names, or tables of name and source, passed on from our environment
	Cwd     string            `toml:"cwd"`      // default a folder of its own; see [CwdWorkspace]

	URL               string            `toml:"url"`
	BearerTokenEnvVar string            `toml:"bearer_token_env_var"`
	HTTPHeaders       map[string]string `toml:"http_headers"`
	EnvHTTPHeaders    map[string]string `toml:"env_http_headers"` // header → variable
	HTTPHeadersHelper any               `toml:"http_headers_helper"`
	Auth              string            `toml:"auth"`
	OAuth             MCPOAuth          `toml:"oauth"`
	OAuthResource     string            `toml:"oauth_resource"`
	Scopes            []string          `toml:"scopes"`

	Enabled                   *bool              `toml:"enabled"` // default true
	Required                  bool               `toml:"required"`
	StartupTimeoutSec         float64            `toml:"startup_timeout_sec"` // default 30
	StartupTimeoutMS          int64              `toml:"startup_timeout_ms"`
	ToolTimeoutSec            float64            `toml:"tool_timeout_sec"` // default 300
	EnabledTools              []string           `toml:"enabled_tools"`    // raw names; nil: all
	DisabledTools             []string           `toml:"disabled_tools"`   // wins over EnabledTools
	SupportsParallelToolCalls bool               `toml:"supports_parallel_tool_calls"`
	DefaultToolsApprovalMode  string             `toml:"default_tools_approval_mode"`
	Tools                     map[string]MCPTool `toml:"tools"`
	StartupReadiness          string             `toml:"startup_readiness"`
	ToolInputSchemaMaxBytes   int                `toml:"tool_input_schema_max_bytes"`
	EnvironmentID             string             `toml:"environment_id"`
	Name                      string             `toml:"name"`

	Sandbox        any      `toml:"sandbox"`         // "none", a sandbox mode, or a table of mode and writable_roots
	Network        bool     `toml:"network"`         // the server's process may use the network
	AllowedDomains []string `toml:"allowed_domains"` // if so, these hosts only; nil: all
	DeniedDomains  []string `toml:"denied_domains"`  // and none of these
	Prefix         *string  `toml:"prefix"`          // of its tools' names; default "mcp__NAME__"
	NameBudget     int      `toml:"name_budget"`     // characters in a tool's name, default 40
	Trusted        bool     `toml:"trusted"`         // what it claims of its tools counts, and its tools may change unseen
	Startup        string   `toml:"startup"`         // "eager" (default) or "lazy"
	IdleStop       string   `toml:"idle_stop"`       // such as "10m": ended when it had nothing to do for so long
}

// CwdWorkspace as Cwd stands for the workspace. A relative path counts from there.
const CwdWorkspace = "workspace"

// MCPTool is one [mcp_servers.NAME.tools.TOOL].
type MCPTool struct {
	ApprovalMode     string  `toml:"approval_mode"`
	OutputTokenLimit int     `toml:"output_token_limit"`
	TimeoutSec       float64 `toml:"timeout_sec"` // ours; default the server's
}

// MCPOAuth is one [mcp_servers.NAME.oauth].
type MCPOAuth struct {
	ClientID                  string `toml:"client_id"`
	ClientSecret              string `toml:"client_secret"`
	TokenEndpointAuthMethod   string `toml:"token_endpoint_auth_method"`
	CallbackURL               string `toml:"callback_url"`
	CallbackPort              int    `toml:"callback_port"`
	AuthorizationServerIssuer string `toml:"authorization_server_issuer"`
}

// IsEnabled reports whether the server is to be used.
func (s MCPServer) IsEnabled() bool { return s.Enabled == nil || *s.Enabled }

// StartupTimeout is how long handshake and first listing may take.
func (s MCPServer) StartupTimeout() time.Duration {
	switch {
	case s.StartupTimeoutSec > 0:
		return seconds(s.StartupTimeoutSec)
	case s.StartupTimeoutMS > 0:
		return time.Duration(s.StartupTimeoutMS) * time.Millisecond
	}
	return 30 * time.Second
}

// ToolTimeout is how long a call of the tool may go without a sign of life.
func (s MCPServer) ToolTimeout(tool string) time.Duration {
	switch {
	case s.Tools[tool].TimeoutSec > 0:
		return seconds(s.Tools[tool].TimeoutSec)
	case s.ToolTimeoutSec > 0:
		return seconds(s.ToolTimeoutSec)
	}
	return 5 * time.Minute
}

func seconds(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }

// IdleTime returns IdleStop, 0 when there is none.
func (s MCPServer) IdleTime() time.Duration {
	d, _ := time.ParseDuration(s.IdleStop) // checked when the file was read
	return d
}

// Approval returns the approval mode of the tool.
func (s MCPServer) Approval(tool string) policy.ToolApproval {
	word := s.Tools[tool].ApprovalMode
	if word == "" {
		word = s.DefaultToolsApprovalMode
	}
	mode, err := policy.ParseToolApproval(word)
	if err != nil {
		return policy.ApprovePrompt // checked when the file was read
	}
	return mode
}

// TakesLogin reports whether the server is one over HTTP that gets its access
// token from a login, should it ask for one: the config gives none.
func (s MCPServer) TakesLogin() bool {
	given := s.BearerTokenEnvVar != ""
	for key := range s.HTTPHeaders {
		given = given || strings.EqualFold(key, "Authorization")
	}
	for key := range s.EnvHTTPHeaders {
		given = given || strings.EqualFold(key, "Authorization")
	}
	return s.URL != "" && !given
}

// PassedOn returns the names of the variables of our environment that the
// server gets.
func (s MCPServer) PassedOn() []string {
	var names []string
	for _, v := range s.EnvVars {
		if name, ok := variable(v); ok {
			names = append(names, name)
		}
	}
	return names
}

func variable(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, v != ""
	case map[string]any:
		name, ok := v["name"].(string)
		source, given := v["source"]
		return name, ok && name != "" && (!given || source == "local")
	}
	return "", false
}

// Confinement returns what Sandbox says: the word "none", a mode's name, or ""
// for the default, and the folders that may be written.
func (s MCPServer) Confinement() (word string, roots []string) {
	switch v := s.Sandbox.(type) {
	case string:
		return v, nil
	case map[string]any:
		word, _ = v["mode"].(string)
		list, _ := v["writable_roots"].([]any)
		for _, r := range list {
			if root, ok := r.(string); ok {
				roots = append(roots, root)
			}
		}
	}
	return word, roots
}

// WithoutEffect returns the keys that are read for Codex's sake and do nothing
// here.
func (s MCPServer) WithoutEffect() []string {
	var keys []string
	for key, set := range map[string]bool{
		"http_headers_helper": s.HTTPHeadersHelper != nil,
		"auth":                s.Auth != "" && s.Auth != "oauth",
		"environment_id":      s.EnvironmentID != "",
		"name":                s.Name != "",
	} {
		if set {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// checkServers refuses what cannot be meant, with the line of the server's
// table.
func (c *Config) checkServers(text []byte, file string) error {
	for _, name := range slices.Sorted(maps.Keys(c.MCPServers)) {
		if msg, hint := c.MCPServers[name].check(name); msg != "" {
			return &Error{File: file, Line: lineOfTable(text, name), Msg: fmt.Sprintf("mcp_servers.%s: %s", name, msg), Hint: hint}
		}
	}
	if name, msg, hint := checkNames(c.MCPServers); msg != "" {
		return &Error{File: file, Line: lineOfTable(text, name), Msg: msg, Hint: hint}
	}
	return nil
}

// checkNames returns the first server whose tools another one's could be taken
// for, and why; msg is "" when there is none.
func checkNames(servers map[string]MCPServer) (name, msg, hint string) {
	names := slices.Sorted(maps.Keys(servers))
	names = slices.DeleteFunc(names, func(name string) bool { return !servers[name].IsEnabled() })
	for i, b := range names {
		for _, a := range names[:i] {
			p, q := servers[a].prefix(a), servers[b].prefix(b)
			switch {
			case strings.EqualFold(policy.PlainName(a), policy.PlainName(b)):
				return b, fmt.Sprintf("the servers %s and %s cannot be told apart: in names only letters, digits and _ count, and capitals do not", a, b), "rename one of them"
			case policy.PrefixesOverlap(p, q):
				return b, fmt.Sprintf("a tool of the server %s (prefix %q) could have the name of one of the server %s (prefix %q)", a, p, b, q), "set a prefix that ends in __, or none"
			}
		}
	}
	return "", "", ""
}

// prefix returns what the names of the server's tools begin with.
func (s MCPServer) prefix(name string) string {
	if s.Prefix != nil {
		return policy.PlainName(*s.Prefix)
	}
	return policy.ToolPrefix(name)
}

// CheckServer returns what is wrong with a server that does not come from a
// file, as an *[Error].
func CheckServer(name string, s MCPServer) error {
	if msg, hint := s.check(name); msg != "" {
		return &Error{File: name, Msg: msg, Hint: hint}
	}
	return nil
}

// check returns what is wrong with s, "" when nothing is.
func (s MCPServer) check(name string) (msg, hint string) {
	if !validName(name) {
		return "the name may hold letters, digits and - _ : @ / . only", "rename it"
	}
	stdio := []keySet{{"args", s.Args != nil}, {"env", s.Env != nil}, {"env_vars", s.EnvVars != nil}, {"cwd", s.Cwd != ""}, {"sandbox", s.Sandbox != nil}, {"network", s.Network}, {"allowed_domains", s.AllowedDomains != nil}, {"denied_domains", s.DeniedDomains != nil}}
	http := []keySet{{"bearer_token_env_var", s.BearerTokenEnvVar != ""}, {"http_headers", s.HTTPHeaders != nil}, {"env_http_headers", s.EnvHTTPHeaders != nil}, {"http_headers_helper", s.HTTPHeadersHelper != nil}, {"auth", s.Auth != ""}, {"oauth", s.OAuth != MCPOAuth{}}, {"oauth_resource", s.OAuthResource != ""}, {"scopes", s.Scopes != nil}}
	switch {
	case s.Command == "" && s.URL == "":
		return "it has neither command nor url", "set command for a server to start, or url for one to connect to"
	case s.Command != "" && s.URL != "":
		return "it has both command and url", "keep one of them"
	case s.Command != "":
		if key := firstSet(http); key != "" {
			return key + " is not supported for stdio", "remove it, or set url in place of command"
		}
	default:
		if key := firstSet(stdio); key != "" {
			return key + " is not supported for streamable_http", "remove it, or set command in place of url"
		}
		if !strings.HasPrefix(s.URL, "http://") && !strings.HasPrefix(s.URL, "https://") {
			return fmt.Sprintf("url %q is not an http or https address", s.URL), ""
		}
	}
	return s.checkValues()
}

// checkValues returns which of the words of s is not known.
func (s MCPServer) checkValues() (msg, hint string) {
	modes := []string{s.DefaultToolsApprovalMode}
	for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
		modes = append(modes, s.Tools[name].ApprovalMode)
	}
	for _, m := range modes {
		if _, err := policy.ParseToolApproval(m); err != nil {
			return err.Error(), err.(*policy.ValueError).Hint()
		}
	}
	for _, v := range s.EnvVars {
		if _, ok := variable(v); !ok {
			return "env_vars holds something that is neither a name nor a table with name", "variables come from this machine only: source is \"local\" or left out"
		}
	}
	if msg, hint := s.checkSandbox(); msg != "" {
		return msg, hint
	}
	if msg, hint := s.checkHosts(); msg != "" {
		return msg, hint
	}
	if auths := []string{"", "oauth", "chatgpt", "ema_auth"}; !slices.Contains(auths, s.Auth) {
		return fmt.Sprintf("unknown auth %q", s.Auth), "auth is one of: oauth, chatgpt, ema_auth"
	}
	if msg, hint := s.OAuth.check(); msg != "" {
		return msg, hint
	}
	if s.Startup != "" && s.Startup != "eager" && s.Startup != "lazy" {
		return fmt.Sprintf("unknown startup %q", s.Startup), "startup is one of: eager, lazy"
	}
	if s.StartupReadiness != "" && s.StartupReadiness != "connection" && s.StartupReadiness != "catalog" {
		return fmt.Sprintf("unknown startup_readiness %q", s.StartupReadiness), "startup_readiness is one of: connection, catalog"
	}
	if s.IdleStop != "" {
		if d, err := time.ParseDuration(s.IdleStop); err != nil || d <= 0 {
			return fmt.Sprintf("idle_stop %q is not a time", s.IdleStop), "write it like \"10m\" or \"90s\""
		}
	}
	if s.ToolInputSchemaMaxBytes < 0 {
		return fmt.Sprintf("tool_input_schema_max_bytes %d is less than 0", s.ToolInputSchemaMaxBytes), ""
	}
	if s.NameBudget != 0 && (s.NameBudget < 20 || s.NameBudget > 128) {
		return fmt.Sprintf("name_budget %d is not between 20 and 128", s.NameBudget), ""
	}
	return "", ""
}

func (s MCPServer) checkSandbox() (msg, hint string) {
	hint = "sandbox is \"none\", \"read-only\", \"workspace-write\", or a table like { mode = \"read-only\", writable_roots = [\"/data\"] }"
	switch v := s.Sandbox.(type) {
	case nil, string:
	case map[string]any:
		for key, val := range v {
			list, isList := val.([]any)
			_, isWord := val.(string)
			if key != "mode" && key != "writable_roots" || key == "mode" && !isWord || key == "writable_roots" && (!isList || slices.ContainsFunc(list, func(r any) bool { _, ok := r.(string); return !ok })) {
				return fmt.Sprintf("sandbox: %s = %v is not known", key, val), hint
			}
		}
	default:
		return "sandbox is neither a word nor a table", hint
	}
	switch word, _ := s.Confinement(); word {
	case "", "none", "read-only", "workspace-write":
		return "", ""
	default:
		return fmt.Sprintf("unknown sandbox %q", word), hint
	}
}

// keySet is a key and whether it is set.
type keySet struct {
	key string
	set bool
}

func firstSet(keys []keySet) string {
	for _, k := range keys {
		if k.set {
			return k.key
		}
	}
	return ""
}

// NameFrom makes a name of a server that a config file takes out of any name.
func NameFrom(name string) string {
	return strings.Map(func(r rune) rune {
		if validName(string(r)) {
			return r
		}
		return '_'
	}, name)
}

func validName(name string) bool {
	return name != "" && len(name) <= 64 && strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_:@/.", r))
	}) < 0
}

// lineOfTable returns the line of [mcp_servers.NAME], 0 when none is found.
func lineOfTable(text []byte, name string) int {
	for i, line := range strings.Split(string(text), "\n") {
		inner, ok := strings.CutPrefix(strings.TrimSpace(line), "[mcp_servers.")
		if ok && strings.Trim(strings.TrimSuffix(strings.TrimSpace(inner), "]"), `"'`) == name {
			return i + 1
		}
	}
	return 0
}
