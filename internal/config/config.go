// Package config reads the user's config file.
//
//	c, err := config.Load(path) // a missing file is the zero Config
//	err = c.Set(`sandbox_mode = "read-only"`, "-c")
//
// Keys are the same as Codex's where Codex has them, so that users can paste them from
// ~/.codex/config.toml. An unknown key is an error with its line number: a misspelt
// restriction must not be ignored.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"toolgate/internal/fileowner"
	"toolgate/policy"
)

// Config is the config file. Zero values mean the defaults.
type Config struct {
	ApprovalPolicy any            `toml:"approval_policy"` // default "on-request"; see [Config.Approval]
	SandboxMode    string         `toml:"sandbox_mode"`    // default "workspace-write"
	WorkspaceWrite WorkspaceWrite `toml:"sandbox_workspace_write"`
	ApprovalWait   *float64       `toml:"approval_wait"`       // seconds to wait for the approval queue, default 20
	Permissions    Permissions    `toml:"permissions"`         // named profiles, by name
	DefaultProfile string         `toml:"default_permissions"` // the selected profile, instead of sandbox_mode
	PrivateTmp     bool           `toml:"private_tmp"`         // commands have a /tmp of their own
	Environment    Environment    `toml:"shell_environment_policy"`
	Tools          Tools          `toml:"tools"`
	Limits         Limits         `toml:"limits"`

	MCP        MCP                  `toml:"mcp"`
	MCPServers map[string]MCPServer `toml:"mcp_servers"` // downstream servers, by name

	MCPOAuthCallbackPort     int    `toml:"mcp_oauth_callback_port"`                // for every login; default any
	MCPOAuthCallbackURL      string `toml:"mcp_oauth_callback_url"`                 // redirect URL
	MCPOAuthCredentialsStore string `toml:"mcp_oauth_credentials_store"`            // Codex's; tokens are kept in files
	MCPEnterpriseManagedAuth any    `toml:"mcp_enterprise_managed_auth" use:"none"` // Codex's

	Hooks   Hooks   `toml:"hooks"`   // programs that run before and after calls
	Otel    Otel    `toml:"otel"`    // where traces are sent
	Console Console `toml:"console"` // the web console
	HTTP    HTTP    `toml:"http"`    // callers over HTTP
}

// MCP is [mcp].
type MCP struct {
	SchemaProfile string `toml:"schema_profile"` // "auto" (default), "default", "strict", "gemini"
}

// WorkspaceWrite is [sandbox_workspace_write].
type WorkspaceWrite struct {
	WritableRoots       []string `toml:"writable_roots"`         // besides the workspace
	NetworkAccess       bool     `toml:"network_access"`         // commands may use the network
	AllowedDomains      []string `toml:"allowed_domains"`        // ours: only these hosts; nil: all
	DeniedDomains       []string `toml:"denied_domains"`         // ours: except these hosts
	ExcludeTmpdirEnvVar bool     `toml:"exclude_tmpdir_env_var"` // $TMPDIR is not writable
	ExcludeSlashTmp     bool     `toml:"exclude_slash_tmp"`      // /tmp is not writable
	AllowGitWrites      bool     `toml:"allow_git_writes"`       // ours: .git is writable, except files that run code
}

// Console is [console]: the web console, served in addition to MCP on stdio.
type Console struct {
	Enabled bool   `toml:"enabled"`
	Address string `toml:"address"` // default: loopback with a free port
}

// An Error is an error in the config, with its location.
type Error struct {
	File string
	Line int // 0 if unknown
	Msg  string
	Hint string // what to do; may be empty
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Msg
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
}

// Load reads the file at path. A missing file is the zero Config; one that another user could
// change is refused. Errors are *[Error].
func Load(path string) (Config, error) {
	var c Config
	text, err := fileowner.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if fault, ok := errors.AsType[*fileowner.Error](err); ok {
		return c, &Error{File: path, Msg: "not read: " + fault.Error()}
	}
	if err != nil {
		return c, &Error{File: path, Msg: "reading the config: " + err.Error()}
	}
	return c, c.decode(source{path, text})
}

// Set applies one KEY=VALUE setting from the command line. The value is TOML; like in
// Codex, invalid TOML is taken as a string. where names the source in errors.
func (c *Config) Set(setting, where string) error {
	key, value, ok := strings.Cut(setting, "=")
	if !ok || strings.TrimSpace(key) == "" {
		return &Error{File: where, Msg: fmt.Sprintf("%q is not KEY=VALUE", setting)}
	}
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if strings.ContainsAny(key, "\n[") || strings.Contains(value, "\n") {
		return &Error{File: where, Msg: fmt.Sprintf("%q is not a single setting", setting)}
	}
	var probe map[string]any
	if toml.Unmarshal([]byte("v = "+value), &probe) != nil {
		quoted, err := toml.Marshal(map[string]string{"v": value})
		if err != nil {
			return &Error{File: where, Msg: err.Error()}
		}
		value = strings.TrimSpace(strings.TrimPrefix(string(quoted), "v = "))
	}
	return c.decode(source{where, []byte(key + " = " + value)})
}

func (c *Config) decode(src source) error {
	err := toml.NewDecoder(bytes.NewReader(src.text)).DisallowUnknownFields().Decode(c)
	if err == nil {
		return c.check(src)
	}
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(strict.Errors) > 0 {
		first := strict.Errors[0]
		line, _ := first.Position()
		const hint = "see `toolgate help` and the documentation of the config file for the known keys"
		return src.fault(line, fmt.Sprintf("unknown key %q", strings.Join(first.Key(), ".")), hint)
	}
	if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := bad.Position()
		return src.fault(line, strings.TrimPrefix(bad.Error(), "toml: "), "")
	}
	return src.fault(0, err.Error(), "")
}

// check validates c. Errors contain the line of the invalid setting.
func (c *Config) check(src source) error {
	if _, _, err := c.Approval(); err != nil {
		return src.fault(src.lineOf("approval_policy"), err.Error(), hint(err))
	}
	if c.SandboxMode != "" {
		if _, err := policy.ParseMode(c.SandboxMode); err != nil {
			return src.fault(src.lineOf("sandbox_mode"), err.Error(), hint(err))
		}
	}
	_, _, err := c.WorkspaceWrite.Network()
	if e, ok := errors.AsType[*NetworkError](err); ok {
		return src.fault(src.lineOf(e.Key), "sandbox_workspace_write."+e.Error(), e.Hint)
	}
	if c.SandboxMode != "" && c.DefaultProfile != "" {
		return src.fault(src.lineOf("default_permissions"),
			"sandbox_mode and default_permissions are both set, but are mutually exclusive",
			"remove one of them; -s and -P on the command line apply to one run")
	}
	for _, check := range []func(source) error{
		c.checkPermissions, c.checkHooks, c.checkOtel, c.checkMCP, c.checkServers, c.checkHTTP,
	} {
		if err := check(src); err != nil {
			return err
		}
	}
	return nil
}

// Approval returns the approval policy, on-request by default. The setting is a word, or
// Codex's table {granular = {…}} of kinds of questions.
func (c *Config) Approval() (policy.Approval, policy.QuestionKinds, error) {
	var kinds policy.QuestionKinds
	switch v := c.ApprovalPolicy.(type) {
	case nil:
		return policy.OnRequest, kinds, nil
	case string:
		a, err := policy.ParseApproval(v)
		return a, kinds, err
	case map[string]any:
		// Decoded from TOML again, because only the decoder rejects unknown keys.
		text, err := toml.Marshal(v)
		if err != nil {
			return policy.Untrusted, kinds, err
		}
		var table struct {
			Granular *policy.QuestionKinds `toml:"granular"`
		}
		err = toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&table)
		if err != nil || table.Granular == nil {
			return policy.Untrusted, kinds, &policy.ValueError{
				What: "approval policy table", Value: strings.TrimSpace(string(text)),
				Known: "granular with sandbox_approval, rules, skill_approval, request_permissions, mcp_elicitations",
			}
		}
		return policy.Granular, *table.Granular, nil
	}
	return policy.Untrusted, kinds, &policy.ValueError{
		What: "approval policy", Value: fmt.Sprint(c.ApprovalPolicy),
		Known: "untrusted, on-request, never, or a table granular",
	}
}
