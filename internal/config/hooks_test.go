package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/config"
)

// loadConfig reads text as the file c.toml.
func loadConfig(t *testing.T, text string) (config.Config, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "c.toml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	c, err := config.Load(name)
	if e, ok := errors.AsType[*config.Error](err); ok {
		e.File = filepath.Base(e.File)
	}
	return c, err
}

func TestCodexHooksAreRead(t *testing.T) {
	c, err := loadConfig(t, `
[[hooks.PreToolUse]]
matcher = "^Bash$"

[[hooks.PreToolUse.hooks]]
type = "command"
command = 'python3 "$HOME/check.py"'
commandWindows = "py check.py"
timeout = 30
statusMessage = "Checking"
additionalContextLimit = 100

[[hooks.PreToolUse.hooks]]
type = "command"
command = "true"
async = true
on_failure = "allow"

[[hooks.PostToolUse]]
[[hooks.PostToolUse.hooks]]
type = "command"
command = "true"

[hooks.state."/home/me/.codex/config.toml:pre_tool_use:0:0"]
trusted_hash = "sha256:00"
`)
	require.NoError(t, err)
	require.Len(t, c.Hooks.For(config.PreToolUse), 1)
	group := c.Hooks.PreToolUse[0]
	require.Len(t, group.Hooks, 2)
	require.Equal(t, 30*time.Second, group.Hooks[0].TimeLimit())
	require.Equal(t, 10*time.Minute, group.Hooks[1].TimeLimit())
	require.Equal(t, "py check.py", group.Hooks[0].CommandWindows)
	require.True(t, group.Hooks[1].Async)
	require.True(t, group.Matches("Bash"))
	require.False(t, group.Matches("BashOutput"))
	require.Empty(t, c.Hooks.For(config.PermissionRequest))
}

func TestHookFaults(t *testing.T) {
	hook := func(lines string) string { return "[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\n" + lines }
	for _, tt := range []struct{ name, text, want string }{
		{"prompt", hook("type = \"prompt\"\nprompt = \"Safe?\""), `c.toml:3: PreToolUse hook: type "prompt" cannot be run here: toolgate has no model and calls no tools itself; use type "command" or remove the hook`},
		{"agent", hook(`type = "agent"`), `c.toml:3: PreToolUse hook: type "agent" cannot be run here: toolgate has no model and calls no tools itself; use type "command" or remove the hook`},
		{"mcp_tool", hook("type = \"mcp_tool\"\nserver = \"s\"\ntool = \"t\"\ninput = {a = 1}"), `c.toml:3: PreToolUse hook: type "mcp_tool" cannot be run here: toolgate has no model and calls no tools itself; use type "command" or remove the hook`},
		{"no type", hook(`command = "x"`), `c.toml: PreToolUse hook: unknown type ""`},
		{"no command", hook(`type = "command"`), `c.toml:3: PreToolUse hook: there is no command to run`},
		{"negative", hook("type = \"command\"\ncommand = \"x\"\ntimeout = -1"), `c.toml:5: PreToolUse hook: timeout is in seconds, and must not be negative`},
		{"on_failure", hook("type = \"command\"\ncommand = \"x\"\non_failure = \"ignore\""), `c.toml:5: PreToolUse hook: unknown on_failure "ignore"`},
		{"matcher", "[[hooks.PostToolUse]]\nmatcher = \"[\"", "c.toml:2: PostToolUse hook: matcher \"[\" is not a regular expression: error parsing regexp: missing closing ]: `[`"},
		{"unknown key", hook("type = \"command\"\ncomand = \"x\""), `c.toml:4: unknown key "hooks.PreToolUse.hooks.comand"`},
		{"an event that never comes", "\n[[hooks.SessionStart]]\n[[hooks.SessionStart.hooks]]\ntype = \"command\"", `c.toml:2: hooks.SessionStart never run here: toolgate sees tool calls, not the conversation`},
		{"an event that nobody knows", "[[hooks.PreToolUsed]]\n", `c.toml:1: unknown key "hooks.PreToolUsed"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadConfig(t, tt.text)
			require.EqualError(t, err, tt.want)
		})
	}
}

func TestOtel(t *testing.T) {
	to := func(url string) *config.Exporter { return &config.Exporter{Endpoint: url} }
	for _, tt := range []struct {
		name, text string
		traces     *config.Exporter
	}{
		{"nothing", ``, nil},
		{"none", `exporter = "none"`, nil},
		{"by the environment", `exporter = "otlp-http"`, to("")},
		{"for all signals", `exporter = {otlp-http = {endpoint = "http://h:4318"}}`, to("http://h:4318/v1/traces")},
		{"Codex's for logs", `exporter = {otlp-http = {endpoint = "https://h/x/v1/logs", protocol = "binary"}}`, to("https://h/x/v1/traces")},
		{"traces", "trace_exporter = {otlp-http = {endpoint = \"http://t/a\"}}", to("http://t/a")},
		{"traces override", "exporter = \"otlp-http\"\ntrace_exporter = \"none\"\nlog_user_prompt = true", nil},
		{"headers", `trace_exporter = {otlp-http = {headers = {k = "${V}"}}}`, &config.Exporter{Headers: map[string]string{"k": "${V}"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := loadConfig(t, "[otel]\n"+tt.text)
			require.NoError(t, err)
			got, ok, err := c.Otel.Traces()
			require.NoError(t, err)
			require.Equal(t, tt.traces != nil, ok)
			if ok {
				require.Equal(t, *tt.traces, got)
			}
		})
	}
}

func TestMetricsExporterHasNoEffect(t *testing.T) {
	for text, want := range map[string][]string{
		`metrics_exporter = "none"`:    nil,
		`metrics_exporter = "statsig"`: {"otel.metrics_exporter"},
	} {
		c, err := loadConfig(t, "[otel]\n"+text)
		require.NoError(t, err)
		require.Equal(t, want, c.WithoutEffect())
	}
}

func TestOtelFaults(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"grpc", `exporter = "otlp-grpc"`, "c.toml:2: exporter: otlp-grpc is not supported; use otlp-http, which receivers accept as well"},
		{"statsig", `trace_exporter = "statsig"`, `c.toml:2: trace_exporter: unknown exporter "statsig"`},
		{"two", `trace_exporter = {none = {}, otlp-http = {}}`, "c.toml:2: trace_exporter: exactly one exporter must be named"},
		{"number", `exporter = 1`, "c.toml:2: exporter: exactly one exporter must be named"},
		{"no URL", `exporter = {otlp-http = {endpoint = "localhost:4318"}}`, `c.toml:2: exporter: endpoint "localhost:4318" is not a URL`},
		{"key", `exporter = {otlp-http = {endpiont = "http://x"}}`, `c.toml:2: exporter: unknown or wrong key "endpiont"`},
		{"headers", `exporter = {otlp-http = {headers = {a = 1}}}`, `c.toml:2: exporter: headers is a table of strings`},
		{"unknown key", `exporters = "none"`, `c.toml:2: unknown key "otel.exporters"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadConfig(t, "[otel]\n"+tt.text)
			require.EqualError(t, err, tt.want)
		})
	}
}
