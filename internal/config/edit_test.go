package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/config"
)

const edited = `# my config
approval_policy = "never" # stays

[mcp_servers.a]
command = "x"   # a comment
[mcp_servers.a.env]
K = "v"

[mcp_servers."b.c"]
url = "https://example.com"

# last
[mcp_servers.ab]
command = "y"
`

func TestServersAreAddedAndRemovedInPlace(t *testing.T) {
	out, err := config.AddServers([]byte(edited), map[string]config.MCPServer{
		"new": {Command: "npx", Args: []string{"-y", `quo"te`}, Env: map[string]string{"A": "b"}, Network: true},
		"web": {URL: "https://example.org", BearerTokenEnvVar: "T"},
	})
	require.NoError(t, err)
	require.Contains(t, string(out), edited[:len(edited)-1])
	c, err := load(t, string(out))
	require.NoError(t, err)
	require.Len(t, c.MCPServers, 5)
	require.Equal(t, []string{"-y", `quo"te`}, c.MCPServers["new"].Args)
	require.True(t, c.MCPServers["new"].Network)
	require.Equal(t, "T", c.MCPServers["web"].BearerTokenEnvVar)
	for _, name := range []string{"new", "web"} {
		out, err = config.RemoveServer(out, name)
		require.NoError(t, err)
	}
	require.Equal(t, edited, string(out))

	out, err = config.RemoveServer([]byte(edited), "a")
	require.NoError(t, err)
	require.Equal(t, "# my config\napproval_policy = \"never\" # stays\n\n"+edited[len(edited)-len("[mcp_servers.\"b.c\"]\nurl = \"https://example.com\"\n\n# last\n[mcp_servers.ab]\ncommand = \"y\"\n"):], string(out))
	_, err = config.RemoveServer([]byte(edited), "b.c")
	require.NoError(t, err)
	_, err = config.RemoveServer([]byte(edited), "none")
	require.ErrorContains(t, err, "there is no server none")
	_, err = config.RemoveServer([]byte("mcp_servers = { a = { command = \"x\" } }\n"), "a")
	require.ErrorContains(t, err, "not written as a table")
	_, err = config.AddServers([]byte(edited), map[string]config.MCPServer{"a": {Command: "z"}})
	require.ErrorContains(t, err, "already")
	_, err = config.AddServers(nil, map[string]config.MCPServer{"z": {}})
	require.ErrorContains(t, err, "neither command nor url")
	_, err = config.AddServers([]byte("broken ="), map[string]config.MCPServer{"z": {Command: "z"}})
	require.Error(t, err)
}

func TestWriteKeepsTheOldFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "config.toml")
	require.NoError(t, config.Write(file, []byte("one")))
	require.NoFileExists(t, file+".bak")
	was, err := os.Stat(file)
	require.NoError(t, err)
	link := filepath.Join(t.TempDir(), "link.toml")
	require.NoError(t, os.Symlink(file, link))
	require.NoError(t, config.Write(link, []byte("two")))
	require.NoFileExists(t, file+".bak", "it may hold secrets, and nothing hides it there")
	for name, want := range map[string]string{file: "two", link + ".bak": "one"} {
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
	info, err = os.Stat(file)
	require.NoError(t, err)
	require.True(t, os.SameFile(was, info), "a sandbox that hides the file would lose sight of another one")
}

func TestServerTableHoldsAllThatIsSet(t *testing.T) {
	yes := true
	s := config.MCPServer{
		URL: "https://x", BearerTokenEnvVar: "T", HTTPHeaders: map[string]string{"A": "b"}, Enabled: &yes, Required: true,
		EnabledTools: []string{}, Scopes: []string{"s"}, OAuth: config.MCPOAuth{ClientID: "c", CallbackPort: 9},
		OAuthResource: "https://r", Tools: map[string]config.MCPTool{"t": {TimeoutSec: 2}}, IdleStop: "9m", NameBudget: 30,
	}
	table, err := config.ServerTable("x", s)
	require.NoError(t, err)
	c, err := load(t, table)
	require.NoError(t, err)
	s.Enabled = nil // the default
	require.Equal(t, s, c.MCPServers["x"])
}
