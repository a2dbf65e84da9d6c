package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/config"
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
	require.Equal(t, edited+"\n", string(out))

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
	link := filepath.Join(t.TempDir(), "link.toml")
	require.NoError(t, os.Symlink(file, link))
	require.NoError(t, config.Write(link, []byte("two")))
	for name, want := range map[string]string{file: "two", file + ".bak": "one"} {
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
}

func TestForeignConfigs(t *testing.T) {
	for _, tt := range []struct {
		name, file, text string
		want             map[string]config.MCPServer
		notes            int
	}{
		{"Claude Desktop", "claude_desktop_config.json", `{"mcpServers":{"fs":{"command":"node","args":["s.js"],"env":{"A":"b","N":3}}},"other":1}`,
			map[string]config.MCPServer{"fs": {Command: "node", Args: []string{"s.js"}, Env: map[string]string{"A": "b", "N": "3"}}}, 0},
		{"Claude Code, with projects", ".claude.json", `{"mcpServers":{"a":{"type":"http","url":"https://x/mcp","headers":{"H":"v"}}},"projects":{"/p":{"mcpServers":{"a":{"command":"other"},"b":{"type":"stdio","command":"c"}}}}}`,
			map[string]config.MCPServer{"a": {URL: "https://x/mcp", HTTPHeaders: map[string]string{"H": "v"}}, "b": {Command: "c"}}, 0},
		{"VS Code, with comments", "mcp.json", "\xef\xbb\xbf{ // servers\n \"inputs\": [], /* all */ \"servers\": { \"my server\": { \"command\": \"c\", \"args\": [\"//no\", \"/* comment */\", \"\\\"\",], }, },\n}",
			map[string]config.MCPServer{"my_server": {Command: "c", Args: []string{"//no", "/* comment */", `"`}}}, 0},
		{"VS Code settings", "settings.json", `{"mcp":{"servers":{"s":{"command":"c","env":{"K":"${input:key}"}}}}}`,
			map[string]config.MCPServer{"s": {Command: "c", Env: map[string]string{"K": "${input:key}"}}}, 1},
		{"Gemini", "settings.json", `{"mcpServers":{"g":{"httpUrl":"http://localhost:1/mcp"}}}`,
			map[string]config.MCPServer{"g": {URL: "http://localhost:1/mcp"}}, 0},
		{"Windsurf", "mcp_config.json", `{"mcpServers":{"w":{"serverUrl":"https://w/sse","disabled":true}}}`,
			map[string]config.MCPServer{"w": {URL: "https://w/sse", Enabled: new(bool)}}, 0},
		{"package runners get the network", "mcp.json", `{"mcpServers":{"n":{"command":"npx","args":["-y","p"]}}}`,
			map[string]config.MCPServer{"n": {Command: "npx", Args: []string{"-y", "p"}, Network: true}}, 1},
		{"bad entries are left out", "mcp.json", `{"mcpServers":{"x":{},"y":{"command":["a"]},"z":{"command":"c"}}}`,
			map[string]config.MCPServer{"z": {Command: "c"}}, 2},
		{"Codex", "config.toml", "model = \"m\"\n[mcp_servers.c]\ncommand = \"c\"\n[mcp_servers.d]\n",
			map[string]config.MCPServer{"c": {Command: "c"}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, notes, err := config.ParseForeign(tt.file, []byte(tt.text))
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			require.Len(t, notes, tt.notes, "%v", notes)
			if len(got) > 0 {
				_, err = config.AddServers(nil, got)
				require.NoError(t, err)
			}
		})
	}
	_, _, err := config.ParseForeign("x.json", []byte(`not json`))
	require.Error(t, err)
}

func FuzzParseForeign(f *testing.F) {
	for _, seed := range []string{`{"mcpServers":{"a":{"command":"x",},},/*`, `"\`, `{"a":"//"}`, `//`, `[1,]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		servers, _, err := config.ParseForeign("x.json", []byte(text))
		if err != nil || len(servers) == 0 {
			return
		}
		out, err := config.AddServers(nil, servers)
		require.NoError(t, err)
		require.NotEmpty(t, out)
	})
}
