package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/config"
	"toolgate/policy"
)

func load(t *testing.T, text string) (config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.toml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return config.Load(file)
}

func TestServersAreReadWithCodexKeys(t *testing.T) {
	c, err := load(t, `
[mcp_servers.git]
command = "npx"
args = ["-y", "some-server"]
env = { A = "b" }
env_vars = ["TOKEN", { name = "OTHER", source = "local" }]
cwd = "/srv"
required = true
startup_timeout_sec = 2.5
tool_timeout_sec = 9
enabled_tools = ["x", "y"]
disabled_tools = ["y"]
default_tools_approval_mode = "writes"
supports_parallel_tool_calls = true
startup_readiness = "catalog"
tool_input_schema_max_bytes = 9000
environment_id = "e"
name = "old"
sandbox = { mode = "read-only", writable_roots = ["/data"] }
network = true
prefix = ""
name_budget = 60
trusted = true
startup = "lazy"
idle_stop = "10m"

[mcp_servers.git.tools.x]
approval_mode = "approve"
output_token_limit = 1000
timeout_sec = 1

[mcp_servers."a.b"]
url = "https://example.com/mcp"
bearer_token_env_var = "T"
http_headers = { X = "1" }
env_http_headers = { Y = "V" }
enabled = false
scopes = ["s"]
oauth = { client_id = "c" }
`)
	require.NoError(t, err)
	s := c.MCPServers["git"]
	require.True(t, s.IsEnabled())
	require.Equal(t, 2500*time.Millisecond, s.StartupTimeout())
	require.Equal(t, time.Second, s.ToolTimeout("x"))
	require.Equal(t, 9*time.Second, s.ToolTimeout("y"))
	require.Equal(t, 10*time.Minute, s.IdleTime())
	require.Equal(t, policy.ApproveAlways, s.Approval("x"))
	require.Equal(t, policy.ApproveWrites, s.Approval("y"))
	require.Equal(t, []string{"TOKEN", "OTHER"}, s.PassedOn())
	word, roots := s.Confinement()
	require.Equal(t, "read-only", word)
	require.Equal(t, []string{"/data"}, roots)
	require.Equal(t, []string{"environment_id", "name"}, s.WithoutEffect())
	require.False(t, c.MCPServers["a.b"].IsEnabled())
	require.Empty(t, c.MCPServers["a.b"].WithoutEffect())
	require.Equal(t, 30*time.Second, c.MCPServers["a.b"].StartupTimeout())
	require.Equal(t, 5*time.Minute, c.MCPServers["a.b"].ToolTimeout("t"))
}

func TestFaultsOfServers(t *testing.T) {
	for _, tt := range []struct{ name, table, want string }{
		{"nothing", ``, "neither command nor url"},
		{"both", `command = "a"` + "\n" + `url = "http://x"`, "both command and url"},
		{"http key for stdio", `command = "a"` + "\n" + `http_headers = { A = "b" }`, "http_headers is not supported for stdio"},
		{"stdio key for http", `url = "http://x"` + "\n" + `args = ["b"]`, "args is not supported for streamable_http"},
		{"sandbox for http", `url = "http://x"` + "\n" + `sandbox = "none"`, "sandbox is not supported for streamable_http"},
		{"url", `url = "ftp://x"`, "not an http"},
		{"token in clear", `url = "http://x"` + "\n" + `bearer_token = "b"`, "unknown key"},
		{"approval", `command = "a"` + "\n" + `default_tools_approval_mode = "yes"`, "unknown tool approval mode"},
		{"sandbox", `command = "a"` + "\n" + `sandbox = "off"`, `unknown sandbox "off"`},
		{"full access is spelt none", `command = "a"` + "\n" + `sandbox = "danger-full-access"`, "unknown sandbox"},
		{"sandbox number", `command = "a"` + "\n" + `sandbox = 3`, "neither a word nor a table"},
		{"sandbox key", `command = "a"` + "\n" + `sandbox = { modus = "none" }`, "modus"},
		{"startup", `command = "a"` + "\n" + `startup = "later"`, "unknown startup"},
		{"idle", `command = "a"` + "\n" + `idle_stop = "10"`, "not a duration"},
		{"budget", `command = "a"` + "\n" + `name_budget = 5`, "name_budget"},
		{"remote variable", `command = "a"` + "\n" + `env_vars = [{ name = "A", source = "remote" }]`, "env_vars"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(t, "# first\n[mcp_servers.s]\n"+tt.table+"\n")
			require.ErrorContains(t, err, tt.want)
			bad, ok := errors.AsType[*config.Error](err)
			require.True(t, ok)
			require.NotZero(t, bad.Line)
		})
	}
	_, err := load(t, "[mcp_servers.\"a b\"]\ncommand = \"x\"\n")
	require.ErrorContains(t, err, "the name may hold")
}

// TestServersWhoseNamesCollide are refused with both their names.
func TestServersWhoseNamesCollide(t *testing.T) {
	for _, tt := range []struct {
		name, one, oneKeys, other, otherKeys string
		refused                              bool
	}{
		{"hyphen and underscore", "my-server", "", "my_server", "", true},
		{"dot and slash", "my.server", "", "my/server", "", true},
		{"capitals", "Git", "", "git", "", true},
		{"also with prefixes of their own", "my-server", `prefix = "a__"`, "my_server", `prefix = "b__"`, true},
		{"two words and one", "pair", "", "pair__one", "", false},
		{"one begins like the other", "git", "", "github", "", false},
		{"one prefix", "a", `prefix = "x__"`, "b", `prefix = "X__"`, true},
		{"no prefix twice", "a", `prefix = ""`, "b", `prefix = ""`, true},
		{"no prefix beside one that a tool's name may begin with", "a", `prefix = ""`, "b", `prefix = "gh_"`, true},
		{"no prefix beside default ones", "a", `prefix = ""`, "b", "", false},
		{"a prefix that begins like another", "a", `prefix = "gh_"`, "b", `prefix = "gh_x_"`, true},
		{"two that end in two underscores", "a", `prefix = "gh__"`, "b", `prefix = "gh__x__"`, false},
		{"the default prefix of another", "a", `prefix = "mcp__b__"`, "b", "", true},
		{"one is disabled", "my-server", "enabled = false", "my_server", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := fmt.Sprintf("[mcp_servers.%q]\ncommand = \"x\"\n%s\n[mcp_servers.%q]\nurl = \"https://x\"\n%s\n", tt.one, tt.oneKeys, tt.other, tt.otherKeys)
			_, err := load(t, text)
			if !tt.refused {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.one)
			require.ErrorContains(t, err, tt.other)
			bad, ok := errors.AsType[*config.Error](err)
			require.True(t, ok)
			require.NotZero(t, bad.Line)
			require.NotEmpty(t, bad.Hint)
		})
	}
}

func TestSettingsReachServers(t *testing.T) {
	c, err := load(t, "[mcp_servers.s]\ncommand = \"a\"\nargs = [\"x\"]\n")
	require.NoError(t, err)
	require.NoError(t, c.Set("mcp_servers.s.enabled=false", "-c"))
	require.False(t, c.MCPServers["s"].IsEnabled())
	require.Equal(t, "a", c.MCPServers["s"].Command)
}
