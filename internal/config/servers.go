package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"toolgate/internal/lazyregexp"
	"toolgate/policy"
)

// MCPServer is [mcp_servers.NAME]: a downstream server, started by Command or reached at
// URL. The keys are Codex's, followed by ours. The tag "use" names the only transport that
// a key is for, or "none" for a key that is ignored.
type MCPServer struct {
	Command string            `toml:"command"`
	Args    []string          `toml:"args" use:"stdio"`
	Env     map[string]string `toml:"env" use:"stdio"`
	EnvVars []any             `toml:"env_vars" use:"stdio"` // inherited: names, or tables of name and source
	Cwd     string            `toml:"cwd" use:"stdio"`      // default: a folder of its own; see [CwdWorkspace]

	URL               string            `toml:"url"`
	BearerTokenEnvVar string            `toml:"bearer_token_env_var" use:"http"`
	HTTPHeaders       map[string]string `toml:"http_headers" use:"http"`
	EnvHTTPHeaders    map[string]string `toml:"env_http_headers" use:"http"` // header → variable
	HTTPHeadersHelper any               `toml:"http_headers_helper" use:"http,none"`
	Auth              string            `toml:"auth" use:"http"`
	OAuth             MCPOAuth          `toml:"oauth" use:"http"`
	OAuthResource     string            `toml:"oauth_resource" use:"http"`
	Scopes            []string          `toml:"scopes" use:"http"`

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
	EnvironmentID             string             `toml:"environment_id" use:"none"`
	Name                      string             `toml:"name" use:"none"`

	Sandbox        any      `toml:"sandbox" use:"stdio"`         // "none", a mode, or a table: mode, writable_roots
	Network        bool     `toml:"network" use:"stdio"`         // the server may use the network
	AllowedDomains []string `toml:"allowed_domains" use:"stdio"` // only these hosts; nil: all
	DeniedDomains  []string `toml:"denied_domains" use:"stdio"`  // except these hosts
	Prefix         *string  `toml:"prefix"`                      // of its tool names; default "mcp__NAME__"
	NameBudget     int      `toml:"name_budget"`                 // maximum length of a tool name, default 40
	Trusted        bool     `toml:"trusted"`                     // believe its annotations, and accept changed tools
	Startup        string   `toml:"startup"`                     // "eager" (default) or "lazy"
	IdleStop       string   `toml:"idle_stop"`                   // idle time before it is stopped, such as "10m"
}

// CwdWorkspace, as Cwd, means the workspace. Relative paths are relative to it.
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

// IsEnabled reports whether the server is enabled.
func (s MCPServer) IsEnabled() bool { return s.Enabled == nil || *s.Enabled }

// StartupTimeout limits the handshake and the first listing.
func (s MCPServer) StartupTimeout() time.Duration {
	switch {
	case s.StartupTimeoutSec > 0:
		return seconds(s.StartupTimeoutSec)
	case s.StartupTimeoutMS > 0:
		return time.Duration(s.StartupTimeoutMS) * time.Millisecond
	}
	return 30 * time.Second
}

// ToolTimeout is how long a call of the tool may take without progress.
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

// IdleTime returns IdleStop, or 0 if it is not set.
func (s MCPServer) IdleTime() time.Duration {
	d, _ := time.ParseDuration(s.IdleStop) // validated
	return d
}

// Approval returns the approval mode of the tool.
func (s MCPServer) Approval(tool string) policy.ToolApproval {
	mode, err := policy.ParseToolApproval(cmp.Or(s.Tools[tool].ApprovalMode, s.DefaultToolsApprovalMode))
	if err != nil {
		return policy.ApprovePrompt // validated, so not reached
	}
	return mode
}

// TakesLogin reports whether the server is reached over HTTP and the config contains no
// credentials, so that it may need a login.
func (s MCPServer) TakesLogin() bool {
	headers := slices.AppendSeq(slices.Collect(maps.Keys(s.HTTPHeaders)), maps.Keys(s.EnvHTTPHeaders))
	given := slices.ContainsFunc(headers, func(key string) bool { return strings.EqualFold(key, "Authorization") })
	return s.URL != "" && s.BearerTokenEnvVar == "" && !given
}

// Headers returns the headers of requests to the server. A header whose variable is not
// set is left out, and Headers returns an error, too.
func (s MCPServer) Headers() (h http.Header, err error) {
	h = http.Header{}
	for key, value := range s.HTTPHeaders {
		h.Set(key, value)
	}
	for key, name := range s.EnvHTTPHeaders {
		if value := os.Getenv(name); value != "" {
			h.Set(key, value)
		} else {
			err = fmt.Errorf("the variable %s, for the header %s, is not set", name, key)
		}
	}
	if name := s.BearerTokenEnvVar; name != "" {
		if value := os.Getenv(name); value != "" {
			h.Set("Authorization", "Bearer "+value)
		} else {
			err = fmt.Errorf("the variable %s, for the bearer token, is not set", name)
		}
	}
	return h, err
}

// PassedOn returns the names of the environment variables that the server inherits.
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

// Confinement returns the sandbox mode, "none", or "" for the default, and the writable folders.
func (s MCPServer) Confinement() (word string, roots []string) {
	word, roots, _ = s.parseSandbox()
	return word, roots
}

// parseSandbox is [MCPServer.Confinement]; fault says what is wrong, and is "" if nothing is.
func (s MCPServer) parseSandbox() (word string, roots []string, fault string) {
	switch v := s.Sandbox.(type) {
	case nil:
	case string:
		word = v
	case map[string]any:
		for key, setting := range v {
			mode, isWord := setting.(string)
			list, isList := setting.([]any)
			for _, r := range list {
				root, ok := r.(string)
				isList = isList && ok
				roots = append(roots, root)
			}
			switch {
			case key == "mode" && isWord:
				word = mode
			case key != "writable_roots" || !isList:
				return word, nil, fmt.Sprintf("sandbox: unknown setting %s = %v", key, setting)
			}
		}
	default:
		return "", nil, "sandbox is neither a word nor a table"
	}
	switch word {
	case "", "none", "read-only", "workspace-write":
		return word, roots, ""
	}
	return word, roots, fmt.Sprintf("unknown sandbox %q", word)
}

// WithoutEffect returns the keys that are set but ignored.
func (s MCPServer) WithoutEffect() []string {
	keys := keysFor(s, "none")
	if s.Auth != "" && s.Auth != "oauth" {
		keys = append(keys, "auth")
	}
	slices.Sort(keys)
	return keys
}

// keysFor returns the keys of a table that are set and have this word in the tag "use".
func keysFor(table any, use string) (keys []string) {
	for field, v := range reflect.ValueOf(table).Fields() {
		uses := strings.Split(field.Tag.Get("use"), ",")
		if !v.IsZero() && slices.Contains(uses, use) {
			keys = append(keys, field.Tag.Get("toml"))
		}
	}
	return keys
}

// checkServers validates the servers. Errors contain the line of the server's table.
func (c *Config) checkServers(src source) error {
	for _, name := range slices.Sorted(maps.Keys(c.MCPServers)) {
		if msg, hint := c.MCPServers[name].check(name); msg != "" {
			table := "mcp_servers." + name
			return src.fault(src.lineIn(table, ""), table+": "+msg, hint)
		}
	}
	if name, msg, hint := checkNames(c.MCPServers); msg != "" {
		return src.fault(src.lineIn("mcp_servers."+name, ""), msg, hint)
	}
	return nil
}

// checkNames returns the first server whose tool names could collide with another's; msg is "" if there is none.
func checkNames(servers map[string]MCPServer) (name, msg, hint string) {
	names := slices.Sorted(maps.Keys(servers))
	names = slices.DeleteFunc(names, func(name string) bool { return !servers[name].IsEnabled() })
	for i, b := range names {
		for _, a := range names[:i] {
			p, q := servers[a].prefix(a), servers[b].prefix(b)
			switch {
			case strings.EqualFold(policy.PlainName(a), policy.PlainName(b)):
				return b, fmt.Sprintf("the servers %s and %s cannot be told apart: "+
					"in names only letters, digits and _ count, and case does not", a, b), "rename one of them"
			case policy.PrefixesOverlap(p, q):
				return b, fmt.Sprintf("tool names of the servers %s (prefix %q) and %s (prefix %q) could collide",
					a, p, b, q), "set a prefix that ends in __, or none"
			}
		}
	}
	return "", "", ""
}

// prefix returns the prefix of the server's tool names.
func (s MCPServer) prefix(name string) string {
	if s.Prefix != nil {
		return policy.PlainName(*s.Prefix)
	}
	return policy.ToolPrefix(name)
}

// CheckServer validates a server that does not come from a file. The error is an *[Error].
func CheckServer(name string, s MCPServer) error {
	if msg, hint := s.check(name); msg != "" {
		return &Error{File: name, Msg: msg, Hint: hint}
	}
	return nil
}

// check returns what is wrong with s, or "".
func (s MCPServer) check(name string) (msg, hint string) {
	if !nameForm.MatchString(name) {
		return "the name may hold letters, digits and - _ : @ / . only", "rename it"
	}
	switch {
	case s.Command == "" && s.URL == "":
		return "it has neither command nor url", "set command for a server to start, or url for one to connect to"
	case s.Command != "" && s.URL != "":
		return "it has both command and url", "keep one of them"
	case s.Command != "":
		if keys := keysFor(s, "http"); keys != nil {
			return keys[0] + " is not supported for stdio", "remove it, or set url in place of command"
		}
	default:
		if keys := keysFor(s, "stdio"); keys != nil {
			return keys[0] + " is not supported for streamable_http", "remove it, or set command in place of url"
		}
		if !strings.HasPrefix(s.URL, "http://") && !strings.HasPrefix(s.URL, "https://") {
			return fmt.Sprintf("url %q is not an http or https address", s.URL), ""
		}
	}
	return s.checkValues()
}

// checkValues returns which value of s is invalid, or "".
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
			return "env_vars holds something that is neither a name nor a table with name",
				"only variables of this machine are supported: source is \"local\" or left out"
		}
	}
	if _, _, fault := s.parseSandbox(); fault != "" {
		return fault, "sandbox is \"none\", \"read-only\", \"workspace-write\", " +
			"or a table like { mode = \"read-only\", writable_roots = [\"/data\"] }"
	}
	if msg, hint := s.checkHosts(); msg != "" {
		return msg, hint
	}
	for _, word := range []struct {
		key, value string
		known      []string
	}{
		{"auth", s.Auth, []string{"oauth", "chatgpt", "ema_auth"}},
		{"startup", s.Startup, []string{"eager", "lazy"}},
		{"startup_readiness", s.StartupReadiness, []string{"connection", "catalog"}},
	} {
		if word.value != "" && !slices.Contains(word.known, word.value) {
			return fmt.Sprintf("unknown %s %q", word.key, word.value),
				word.key + " is one of: " + strings.Join(word.known, ", ")
		}
	}
	if msg, hint := s.OAuth.check(); msg != "" {
		return msg, hint
	}
	if s.IdleStop != "" {
		if d, err := time.ParseDuration(s.IdleStop); err != nil || d <= 0 {
			return fmt.Sprintf("idle_stop %q is not a duration", s.IdleStop), "write it like \"10m\" or \"90s\""
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

var (
	nameForm      = lazyregexp.New(`^[A-Za-z0-9_:@/.-]{1,64}$`)
	invalidInName = lazyregexp.New(`[^A-Za-z0-9_:@/.-]`)
)

// NameFrom returns a valid server name, with invalid characters replaced by "_".
func NameFrom(name string) string { return invalidInName.ReplaceAllString(name, "_") }
