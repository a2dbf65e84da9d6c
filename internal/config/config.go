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
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

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
	Environment    Environment    `toml:"shell_environment_policy"`
	Tools          Tools          `toml:"tools"`

	MCP        MCP                  `toml:"mcp"`
	MCPServers map[string]MCPServer `toml:"mcp_servers"` // downstream servers, by name

	MCPOAuthCallbackPort     int    `toml:"mcp_oauth_callback_port"`     // for every login; default any
	MCPOAuthCallbackURL      string `toml:"mcp_oauth_callback_url"`      // redirect URL
	MCPOAuthCredentialsStore string `toml:"mcp_oauth_credentials_store"` // Codex's; ignored, tokens are kept in files
	MCPEnterpriseManagedAuth any    `toml:"mcp_enterprise_managed_auth"` // Codex's; ignored

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

// Load reads the file at path. A missing file is the zero Config. Errors are *[Error].
func Load(path string) (Config, error) {
	var c Config
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, &Error{File: path, Msg: "reading the config: " + err.Error()}
	}
	return c, c.decode(text, path)
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
	return c.decode([]byte(key+" = "+value), where)
}

func (c *Config) decode(text []byte, name string) error {
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	err := d.Decode(c)
	if err == nil {
		return c.check(text, name)
	}
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(strict.Errors) > 0 {
		first := strict.Errors[0]
		line, _ := first.Position()
		return &Error{
			File: name, Line: line,
			Msg:  fmt.Sprintf("unknown key %q", strings.Join(first.Key(), ".")),
			Hint: "see `toolgate help` and the documentation of the config file for the known keys",
		}
	}
	if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := bad.Position()
		return &Error{File: name, Line: line, Msg: strings.TrimPrefix(bad.Error(), "toml: ")}
	}
	return &Error{File: name, Msg: err.Error()}
}

// check validates c. Errors contain the line of the invalid setting.
func (c *Config) check(text []byte, name string) error {
	if _, _, err := c.Approval(); err != nil {
		return valueError(err, text, "approval_policy", name)
	}
	if c.SandboxMode != "" {
		if _, err := policy.ParseMode(c.SandboxMode); err != nil {
			return valueError(err, text, "sandbox_mode", name)
		}
	}
	if _, _, err := c.WorkspaceWrite.Network(); err != nil {
		return networkError(err, text, name)
	}
	if c.SandboxMode != "" && c.DefaultProfile != "" {
		return &Error{
			File: name, Line: lineOf(text, "default_permissions"),
			Msg:  "sandbox_mode and default_permissions are both set, but are mutually exclusive",
			Hint: "remove one of them; -s and -P on the command line apply to one run",
		}
	}
	if err := c.checkPermissions(text, name); err != nil {
		return err
	}
	if err := c.checkHooks(text, name); err != nil {
		return err
	}
	if err := c.checkOtel(text, name); err != nil {
		return err
	}
	profiles := []string{"", "auto", "default", "strict", "gemini"}
	if !slices.Contains(profiles, c.MCP.SchemaProfile) {
		return &Error{
			File: name, Line: lineOf(text, "schema_profile"),
			Msg:  fmt.Sprintf("unknown schema_profile %q", c.MCP.SchemaProfile),
			Hint: "schema_profile is one of: auto, default, strict, gemini",
		}
	}
	if err := c.checkOAuth(text, name); err != nil {
		return err
	}
	if err := c.checkServers(text, name); err != nil {
		return err
	}
	return c.checkHTTP(text, name)
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

func valueError(err error, text []byte, key, name string) error {
	e := &Error{File: name, Line: lineOf(text, key), Msg: err.Error()}
	if v, ok := errors.AsType[*policy.ValueError](err); ok {
		e.Hint = v.Hint()
	}
	return e
}

// lineOf returns the line that sets key, or 0 if there is none.
func lineOf(text []byte, key string) int {
	for i, line := range strings.Split(string(text), "\n") {
		name, _, ok := strings.Cut(line, "=")
		if ok && strings.Trim(strings.TrimSpace(name), `"'`) == key {
			return i + 1
		}
	}
	return 0
}
