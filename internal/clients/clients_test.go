package clients_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/clients"
	"toolgate/internal/config"
)

func TestParse(t *testing.T) {
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
		{"variables by name", ".mcp.json", `{"mcpServers":{"v":{"command":"c","env":{"T":"${T}","U":"${env:U}","W":"${V:-x}"}},"h":{"type":"http","url":"https://h","headers":{"Authorization":"Bearer ${TOK}","X-Key":"${env:KEY}","Y":"a ${B}"}}}}`,
			map[string]config.MCPServer{"v": {Command: "c", EnvVars: []any{"T", "U"}, Env: map[string]string{"W": "${V:-x}"}}, "h": {URL: "https://h", BearerTokenEnvVar: "TOK", EnvHTTPHeaders: map[string]string{"X-Key": "KEY"}, HTTPHeaders: map[string]string{"Y": "a ${B}"}}}, 2},
		{"Gemini, all of it", "settings.json", `{"mcpServers":{"g":{"command":"c","timeout":2500,"trust":true,"includeTools":["a"],"excludeTools":["b"],"envFile":".env"}}}`,
			map[string]config.MCPServer{"g": {Command: "c", ToolTimeoutSec: 2.5, EnabledTools: []string{"a"}, DisabledTools: []string{"b"}}}, 2},
		{"OAuth of Claude Code", ".claude.json", `{"mcpServers":{"o":{"type":"http","url":"https://o","oauth":{"clientId":"id","callbackPort":8123}}}}`,
			map[string]config.MCPServer{"o": {URL: "https://o", OAuth: config.MCPOAuth{ClientID: "id", CallbackPort: 8123}}}, 1},
		{"Codex, a key of tomorrow", "config.toml", "[mcp_servers.c]\ncommand = \"c\"\nfuture = 1\n[mcp_servers.c.tools.t]\napproval_mode = \"approve\"\nlater = 2\n",
			map[string]config.MCPServer{"c": {Command: "c", Tools: map[string]config.MCPTool{"t": {ApprovalMode: "approve"}}}}, 2},
		{"bad entries are left out", "mcp.json", `{"mcpServers":{"x":{},"y":{"command":["a"]},"z":{"command":"c"}}}`,
			map[string]config.MCPServer{"z": {Command: "c"}}, 2},
		{"Codex", "config.toml", "model = \"m\"\n[mcp_servers.c]\ncommand = \"c\"\n[mcp_servers.d]\n",
			map[string]config.MCPServer{"c": {Command: "c"}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, notes, err := clients.Parse(tt.file, []byte(tt.text))
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			require.Len(t, notes, tt.notes, "%v", notes)
			if len(got) > 0 {
				_, err = config.AddServers(nil, got)
				require.NoError(t, err)
			}
		})
	}
	_, _, err := clients.Parse("x.json", []byte(`not json`))
	require.Error(t, err)
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"mcpServers":{"a":{"command":"x",},},/*`, `"\`, `{"a":"//"}`, `//`, `[1,]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		servers, _, err := clients.Parse("x.json", []byte(text))
		if err != nil || len(servers) == 0 {
			return
		}
		out, err := config.AddServers(nil, servers)
		require.NoError(t, err)
		require.NotEmpty(t, out)
	})
}

const commented = `{
	// mine
	"theme": "dark", /* "mcpServers": {} */
	"mcpServers": {
		"one": { "command": "a", "args": ["//x", "}"] }, // first
		"two": {"command": "b"}
	},
}
`

func TestPutAndRemoveKeepAllElse(t *testing.T) {
	entry := map[string]any{"command": "toolgate", "args": []string{"serve"}, "env": map[string]string{"A": "<b>"}}
	for _, tt := range []struct {
		name       string
		form       clients.Form
		text, want string
	}{
		{"no file", clients.MCPServers, "", "{\n  \"mcpServers\": {\n    \"toolgate\": {\n      \"args\": [\n        \"serve\"\n      ],\n      \"command\": \"toolgate\",\n      \"env\": {\n        \"A\": \"<b>\"\n      }\n    }\n  }\n}\n"},
		{"with comments", clients.MCPServers, commented, `{
	// mine
	"theme": "dark", /* "mcpServers": {} */
	"mcpServers": {
		"one": { "command": "a", "args": ["//x", "}"] }, // first
		"two": {"command": "b"},
		"toolgate": {
			"args": [
				"serve"
			],
			"command": "toolgate",
			"env": {
				"A": "<b>"
			}
		}
	},
}
`},
		{"settings", clients.SettingServers, "\xef\xbb\xbf{ // c\n}", "\xef\xbb\xbf{ // c\n  \"mcp\": {\n    \"servers\": {\n      \"toolgate\": {\n        \"args\": [\n          \"serve\"\n        ],\n        \"command\": \"toolgate\",\n        \"env\": {\n          \"A\": \"<b>\"\n        }\n      }\n    }\n  }\n}"},
		{"Codex", clients.CodexServers, "model = \"m\" # c\n\n[mcp_servers.a]\ncommand = \"x\"\n", "model = \"m\" # c\n\n[mcp_servers.a]\ncommand = \"x\"\n\n[mcp_servers.toolgate]\nargs = ['serve']\ncommand = 'toolgate'\n\n[mcp_servers.toolgate.env]\nA = '<b>'\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clients.File{Form: tt.form}
			got, err := f.Put([]byte(tt.text), "toolgate", entry)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(got))
			again, err := f.Put(got, "toolgate", entry)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(again), "the second time changes nothing")
			changed, err := f.Put(got, "toolgate", map[string]any{"command": "other"})
			require.NoError(t, err)
			name := "x.json"
			if tt.form == clients.CodexServers {
				name = "x.toml"
			}
			servers, _, err := clients.Parse(name, changed)
			require.NoError(t, err)
			require.Equal(t, config.MCPServer{Command: "other"}, servers["toolgate"])
			back, err := f.Remove(changed, "toolgate")
			require.NoError(t, err)
			servers, _, err = clients.Parse(name, back)
			require.NoError(t, err)
			require.NotContains(t, servers, "toolgate")
			if tt.name == "with comments" {
				require.Equal(t, commented, string(back))
			}
			same, err := f.Remove([]byte(tt.text), "toolgate")
			require.NoError(t, err)
			require.Equal(t, tt.text, string(same))
		})
	}
}

func TestRemoveFromEveryPlace(t *testing.T) {
	for _, tt := range []struct{ text, name, want string }{
		{`{"mcpServers":{"a":{},"b":{},"c":{}}}`, "a", `{"mcpServers":{"b":{},"c":{}}}`},
		{`{"mcpServers":{"a":{},"b":{},"c":{}}}`, "b", `{"mcpServers":{"a":{},"c":{}}}`},
		{`{"mcpServers":{"a":{},"b":{},"c":{}}}`, "c", `{"mcpServers":{"a":{},"b":{}}}`},
		{`{"mcpServers":{"a":1}}`, "a", `{"mcpServers":{}}`},
		{commented, "one", "{\n\t// mine\n\t\"theme\": \"dark\", /* \"mcpServers\": {} */\n\t\"mcpServers\": { // first\n\t\t\"two\": {\"command\": \"b\"}\n\t},\n}\n"},
	} {
		got, err := clients.File{}.Remove([]byte(tt.text), tt.name)
		require.NoError(t, err)
		require.Equal(t, tt.want, string(got))
	}
}

func TestWhatCannotBeChangedInPlaceIsRefused(t *testing.T) {
	table := map[string]any{"command": "x"}
	for _, tt := range []struct {
		form clients.Form
		text string
	}{
		{clients.MCPServers, `[]`}, {clients.MCPServers, `{"mcpServers":[]}`}, {clients.MCPServers, `{"mcpServers":`}, {clients.MCPServers, `null`},
		{clients.CodexServers, "mcp_servers = { toolgate = { command = \"x\" } }\n"}, {clients.CodexServers, "a ="},
	} {
		_, err := clients.File{Form: tt.form}.Put([]byte(tt.text), "toolgate", table)
		require.Error(t, err, "%s", tt.text)
	}
}

func TestKnown(t *testing.T) {
	list := clients.Known(clients.Places{Home: "/h", Config: "/c"})
	require.Len(t, list, 10)
	require.Equal(t, clients.File{Path: filepath.Join("/h", ".codex", "config.toml"), Form: clients.CodexServers}, list[2].Files[0])
	list = clients.Known(clients.Places{Home: "/h", Config: "/c", CodexHome: "/x"})
	require.Equal(t, filepath.Join("/x", "config.toml"), list[2].Files[0].Path)
}

// A text that is taken keeps its other servers, and has the new one.
func FuzzPut(f *testing.F) {
	for _, seed := range []string{"", "{}", commented, `{"mcpServers":{"a":{"x":[1,{"b":"}"}]},},}`, `{"a":"\"","mcpServers":{}}`, `{"mcpServers" : /*{*/ { "toolgate" : 1 , "b":-1.5e3}}`, `{"\u006dcpServers":{}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		before, _, err := clients.Parse("x.json", []byte(text))
		if err != nil {
			return
		}
		got, err := clients.File{}.Put([]byte(text), "toolgate", map[string]any{"command": "toolgate"})
		if err != nil {
			return
		}
		after, _, err := clients.Parse("x.json", got)
		require.NoError(t, err, "%s", got)
		require.Equal(t, "toolgate", after["toolgate"].Command, "%s", got)
		for name, s := range before {
			if name != "toolgate" {
				require.Equal(t, s, after[name], "%s", got)
			}
		}
		gone, err := clients.File{}.Remove(got, "toolgate")
		require.NoError(t, err, "%s", got)
		_, _, err = clients.Parse("x.json", gone)
		require.NoError(t, err, "%s", gone)
	})
}
