package clients_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/clients"
	"toolgate/internal/config"
)

func client(t *testing.T, name string) clients.Client {
	t.Helper()
	for _, c := range clients.Known(clients.Places{Home: "/h", Config: "/c"}) {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no client %s", name)
	return clients.Client{}
}

// TestTables: what is written for each client is what its documentation says,
// and what we read back.
func TestTables(t *testing.T) {
	start := clients.Start{Command: "/bin/toolgate", Args: []string{"-C", "/p"}}
	url := clients.Start{URL: "http://127.0.0.1:8080/mcp"}
	for name, want := range map[string][2]string{
		"claude-code":    {`{"type":"stdio","command":"/bin/toolgate","args":["-C","/p"]}`, `{"type":"http","url":"http://127.0.0.1:8080/mcp","headers":{"Authorization":"Bearer ${TOOLGATE_HTTP_TOKEN}"}}`},
		"claude-desktop": {`{"command":"/bin/toolgate","args":["-C","/p"]}`, ``},
		"codex":          {`{"command":"/bin/toolgate","args":["-C","/p"],"required":true,"default_tools_approval_mode":"approve"}`, `{"url":"http://127.0.0.1:8080/mcp","bearer_token_env_var":"TOOLGATE_HTTP_TOKEN","required":true,"default_tools_approval_mode":"approve"}`},
		"copilot":        {`{"type":"local","command":"/bin/toolgate","args":["-C","/p"],"tools":["*"]}`, `{"type":"http","url":"http://127.0.0.1:8080/mcp","headers":{"Authorization":"Bearer ${TOOLGATE_HTTP_TOKEN}"},"tools":["*"]}`},
		"cursor":         {`{"command":"/bin/toolgate","args":["-C","/p"]}`, `{"url":"http://127.0.0.1:8080/mcp","headers":{"Authorization":"Bearer ${env:TOOLGATE_HTTP_TOKEN}"}}`},
		"gemini":         {`{"command":"/bin/toolgate","args":["-C","/p"]}`, `{"httpUrl":"http://127.0.0.1:8080/mcp","headers":{"Authorization":"Bearer $TOOLGATE_HTTP_TOKEN"}}`},
		"goose":          {`{"type":"stdio","enabled":true,"name":"toolgate","description":"","cmd":"/bin/toolgate","args":["-C","/p"],"timeout":300}`, `{"type":"streamable_http","enabled":true,"name":"toolgate","description":"","uri":"http://127.0.0.1:8080/mcp","headers":{"Authorization":"Bearer $TOOLGATE_HTTP_TOKEN"},"env_keys":["TOOLGATE_HTTP_TOKEN"],"timeout":300}`},
		"vscode":         {`{"type":"stdio","command":"/bin/toolgate","args":["-C","/p"]}`, `{"type":"http","url":"http://127.0.0.1:8080/mcp","headers":{"Authorization":"Bearer ${env:TOOLGATE_HTTP_TOKEN}"}}`},
		"windsurf":       {`{"command":"/bin/toolgate","args":["-C","/p"]}`, `{"serverUrl":"http://127.0.0.1:8080/mcp","headers":{"Authorization":"Bearer ${env:TOOLGATE_HTTP_TOKEN}"}}`},
		"zed":            {`{"source":"custom","command":"/bin/toolgate","args":["-C","/p"]}`, `{"source":"custom","url":"http://127.0.0.1:8080/mcp"}`},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, name)
			for i, s := range []clients.Start{start, url} {
				table, err := c.Table("toolgate", s, nil)
				if want[i] == "" {
					require.ErrorIs(t, err, clients.ErrNoHTTP)
					continue
				}
				require.NoError(t, err)
				got, err := json.Marshal(table)
				require.NoError(t, err)
				require.JSONEq(t, want[i], string(got))

				text, err := c.Files[0].Put(nil, "toolgate", table)
				require.NoError(t, err)
				tables, err := c.Files[0].Tables(text)
				require.NoError(t, err)
				require.Equal(t, s, clients.StartOf(tables["toolgate"]), "%s", text)
				servers, _, err := clients.Parse(c.Files[0].Path, text)
				require.NoError(t, err)
				require.Equal(t, config.MCPServer{Command: s.Command, Args: s.Args, URL: s.URL}, clearCodex(servers["toolgate"]), "%s", text)

				// From one way to the other nothing of the first is left, and
				// what the user added stays.
				tables["toolgate"]["mine"] = "kept"
				other, err := c.Table("toolgate", start, tables["toolgate"])
				require.NoError(t, err)
				require.Equal(t, start, clients.StartOf(redecoded(t, other)))
				require.Equal(t, "kept", other["mine"])
			}
		})
	}
}

func clearCodex(s config.MCPServer) config.MCPServer {
	s.Required, s.DefaultToolsApprovalMode, s.BearerTokenEnvVar = false, "", ""
	s.HTTPHeaders, s.EnvHTTPHeaders, s.EnvVars = nil, nil, nil
	return s
}

func redecoded(t *testing.T, table map[string]any) (out map[string]any) {
	t.Helper()
	b, err := json.Marshal(table)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &out))
	return out
}

func TestPlacesByUserAndSystem(t *testing.T) {
	first := func(p clients.Places, name string) string {
		for _, c := range clients.Known(p) {
			if c.Name == name {
				return strings.ReplaceAll(c.Files[0].Path, `\`, "/")
			}
		}
		return ""
	}
	linux := clients.Places{Home: "/h", Config: "/h/.config", OS: "linux"}
	mac := clients.Places{Home: "/h", Config: "/h/Library/Application Support", OS: "darwin", XDGConfig: "/x"}
	windows := clients.Places{Home: "C:/Users/me", Config: "C:/Users/me/AppData/Roaming", OS: "windows"}
	for _, tt := range []struct {
		places clients.Places
		client string
		want   string
	}{
		{linux, "claude-desktop", "/h/.config/Claude/claude_desktop_config.json"},
		{mac, "claude-desktop", "/h/Library/Application Support/Claude/claude_desktop_config.json"},
		{windows, "claude-desktop", "C:/Users/me/AppData/Roaming/Claude/claude_desktop_config.json"},
		{linux, "zed", "/h/.config/zed/settings.json"},
		{mac, "zed", "/h/.config/zed/settings.json"},
		{windows, "zed", "C:/Users/me/AppData/Roaming/Zed/settings.json"},
		{mac, "goose", "/h/.config/goose/config.yaml"},
		{windows, "goose", "C:/Users/me/AppData/Roaming/Block/goose/config/config.yaml"},
		{clients.Places{Home: "/h", XDGConfig: "/x", OS: "linux"}, "goose", "/x/goose/config.yaml"},
		{clients.Places{Home: "/h", ClaudeHome: "/cc"}, "claude-code", "/cc/.claude.json"},
		{clients.Places{Home: "/h", CopilotHome: "/cp"}, "copilot", "/cp/mcp-config.json"},
		{windows, "vscode", "C:/Users/me/AppData/Roaming/Code/User/mcp.json"},
		{mac, "windsurf", "/h/.codeium/windsurf/mcp_config.json"},
	} {
		require.Equal(t, tt.want, first(tt.places, tt.client))
	}
}

const goose = `# my goose
GOOSE_MODEL: x # which one
extensions:
  # the first
  developer:
    enabled: true
    type: builtin

  mine:   # a comment
    type: stdio
    cmd: c
    args: [a, "b: c"]
    envs:
      K: v
# at the margin
GOOSE_MODE: auto
`

const tomlText = `# my codex
model = "m" # which one

[mcp_servers.one] # first
command = "a"

# about two
[mcp_servers.two]
command = "b"
args = [
  "x", # why
]

[mcp_servers.two.env]
K = "v"

# about the rest
[tui]
theme = "dark"
`

// TestOnlyTheEntryChanges sets an entry, changes it and takes it out again.
func TestOnlyTheEntryChanges(t *testing.T) {
	for _, tt := range []struct {
		name string
		form clients.Form
		text string
		want string // with the entry
		back string // "" when it is text again
	}{
		{name: "YAML", form: clients.Extensions, text: goose, want: strings.Replace(goose, "      K: v\n", "      K: v\n  toolgate:\n    cmd: \"c d\"\n    enabled: true\n", 1)},
		{name: "YAML without a file", form: clients.Extensions, text: "", want: "extensions:\n  toolgate:\n    cmd: \"c d\"\n    enabled: true\n", back: "extensions:\n"},
		{name: "YAML without extensions", form: clients.Extensions, text: "a: 1 # one", want: "a: 1 # one\nextensions:\n  toolgate:\n    cmd: \"c d\"\n    enabled: true\n", back: "a: 1 # one\nextensions:\n"},
		{name: "YAML with none", form: clients.Extensions, text: "extensions: {} # none\nb: 2\n", want: "extensions: # none\n  toolgate:\n    cmd: \"c d\"\n    enabled: true\nb: 2\n", back: "extensions: # none\nb: 2\n"},
		{name: "YAML of Windows, four spaces", form: clients.Extensions, text: "extensions:\r\n    a:\r\n        type: builtin\r\n", want: "extensions:\r\n    a:\r\n        type: builtin\r\n    toolgate:\r\n      cmd: \"c d\"\r\n      enabled: true\r\n"},
		{name: "TOML", form: clients.CodexServers, text: tomlText, want: tomlText + "\n[mcp_servers.toolgate]\ncmd = 'c d'\nenabled = true\n"},
		{name: "TOML of Windows", form: clients.CodexServers, text: "a = 1\r\n", want: "a = 1\r\n\r\n[mcp_servers.toolgate]\r\ncmd = 'c d'\r\nenabled = true\r\n"},
		{name: "JSON of Windows", form: clients.MCPServers, text: "{\r\n  \"mcpServers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n", want: "{\r\n  \"mcpServers\": {\r\n    \"a\": {},\r\n    \"toolgate\": {\r\n      \"cmd\": \"c d\",\r\n      \"enabled\": true\r\n    }\r\n  }\r\n}\r\n"},
		{name: "JSON with an empty object", form: clients.ContextServers, text: "{\n  \"context_servers\": {\n  },\n  // end\n}\n", want: "{\n  \"context_servers\": {\n    \"toolgate\": {\n      \"cmd\": \"c d\",\n      \"enabled\": true\n    }\n  },\n  // end\n}\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clients.File{Form: tt.form}
			got, err := f.Put([]byte(tt.text), "toolgate", map[string]any{"cmd": "c d", "enabled": true})
			require.NoError(t, err)
			require.Equal(t, tt.want, string(got))
			other, err := f.Put(got, "toolgate", map[string]any{"cmd": "other"})
			require.NoError(t, err)
			again, err := f.Put(other, "toolgate", map[string]any{"cmd": "c d", "enabled": true})
			require.NoError(t, err)
			require.Equal(t, tt.want, string(again))
			back, err := f.Remove(again, "toolgate")
			require.NoError(t, err)
			if tt.back == "" {
				tt.back = tt.text
			}
			require.Equal(t, tt.back, string(back))
		})
	}
}

// TestTakingOutKeepsComments of what stands around it.
func TestTakingOutKeepsComments(t *testing.T) {
	f := clients.File{Form: clients.CodexServers}
	got, err := f.Remove([]byte(tomlText), "two")
	require.NoError(t, err)
	require.Equal(t, "# my codex\nmodel = \"m\" # which one\n\n[mcp_servers.one] # first\ncommand = \"a\"\n\n# about two\n\n# about the rest\n[tui]\ntheme = \"dark\"\n", string(got))
	got, err = f.Put([]byte(tomlText), "one", map[string]any{"command": "new"})
	require.NoError(t, err)
	require.Equal(t, strings.Replace(tomlText, "[mcp_servers.one] # first\ncommand = \"a\"\n", "[mcp_servers.one]\ncommand = 'new'\n", 1), string(got))

	f = clients.File{Form: clients.Extensions}
	got, err = f.Remove([]byte(goose), "developer")
	require.NoError(t, err)
	require.Equal(t, strings.Replace(goose, "  developer:\n    enabled: true\n    type: builtin\n", "", 1), string(got))
}

func TestYAMLThatCannotBeChangedInPlace(t *testing.T) {
	for _, text := range []string{"extensions: {a: {type: builtin}}\n", "extensions: &x\n  a: 1\n", "- a\n", "a: [", "\"extensions\":\n  a: 1\n", "a: |\n extensions:\nextensions:\n  - x\n"} {
		_, err := clients.File{Form: clients.Extensions}.Put([]byte(text), "toolgate", map[string]any{"cmd": "x"})
		require.Error(t, err, "%s", text)
	}
}

func TestParseGooseAndZed(t *testing.T) {
	got, notes, err := clients.Parse("config.yaml", []byte(goose+"# more\n"))
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Equal(t, map[string]config.MCPServer{"mine": {Command: "c", Args: []string{"a", "b: c"}, Env: map[string]string{"K": "v"}}}, got)
	got, notes, err = clients.Parse("config.yaml", []byte("extensions:\n  r:\n    type: streamable_http\n    uri: https://r\n    timeout: 20\n    enabled: false\n  k:\n    type: stdio\n    cmd: npx\n    env_keys: [TOKEN]\n  bad:\n    type: stdio\n    args: 1\n"))
	require.NoError(t, err)
	require.Len(t, notes, 3)
	require.Equal(t, map[string]config.MCPServer{"r": {URL: "https://r", ToolTimeoutSec: 20, Enabled: new(bool)}, "k": {Command: "npx", Network: true, EnvVars: []any{"TOKEN"}}}, got)
	got, _, err = clients.Parse("settings.json", []byte("// Zed\n{\"theme\":\"x\",\"context_servers\":{\"z\":{\"source\":\"custom\",\"command\":\"c\",\"args\":[]}}}"))
	require.NoError(t, err)
	require.Equal(t, "c", got["z"].Command)
}

// onlyInserted reports whether after is before with bytes added in one place.
func onlyInserted(before, after []byte) bool {
	n := 0
	for n < len(before) && n < len(after) && before[n] == after[n] {
		n++
	}
	return len(after) >= len(before) && bytes.HasSuffix(after, before[n:])
}

// FuzzEdits: an entry that was not there is inserted, in one place, and no
// other byte is lost; taking it out leaves everything else as it was.
func FuzzEdits(f *testing.F) {
	for _, seed := range []string{commented, `{"mcpServers":{"a":{}}}`, "{\r\n\"mcpServers\":{}\r\n}", `{"mcpServers":{/* x */}}`, "{}", " {} // x\n", `{"a":"mcpServers","mcpServers" : {"b":[{}]} , "c":1}`} {
		f.Add(seed, uint8(clients.MCPServers))
	}
	for _, seed := range []string{tomlText, "a=1", "[mcp_servers]\n", "[mcp_servers.a]\nx=\"\"\"\n[mcp_servers.toolgate]\n\"\"\"\n", "a=1\r\n\r\n\r\n", "[mcp_servers.toolgate.env]\nA='b'\n# c\n", "[[x]]\n# y\n[mcp_servers.'toolgate']\n"} {
		f.Add(seed, uint8(clients.CodexServers))
	}
	for _, seed := range []string{goose, "extensions:\n", "a: |\n  extensions:\n   b\nextensions:\n  c: {}\n", "extensions: {}\n", "a: 1\r\nextensions:\r\n  \"toolgate\": {}\r\n", "? a\n: b\n", "extensions:\n  a: |\n    x\n\n\n  b: 2"} {
		f.Add(seed, uint8(clients.Extensions))
	}
	f.Fuzz(func(t *testing.T, text string, form uint8) {
		file := clients.File{Form: clients.Form(form % 6)}
		before, err := file.Tables([]byte(text))
		if err != nil {
			return
		}
		got, err := file.Put([]byte(text), "toolgate", map[string]any{"command": "x", "args": []string{"a b"}})
		if err != nil {
			return // it was refused, and nothing is written
		}
		after, err := file.Tables(got)
		require.NoError(t, err, "%q", got)
		require.Equal(t, clients.Start{Command: "x", Args: []string{"a b"}}, clients.StartOf(after["toolgate"]))
		empty := strings.TrimSpace(strings.TrimPrefix(text, "\xef\xbb\xbf")) == ""
		anew := file.Form == clients.Extensions && strings.Contains(text, "{") // {} becomes lines
		if !empty && !anew && !strings.Contains(text, "toolgate") && !strings.Contains(text, `\u`) {
			require.True(t, onlyInserted([]byte(text), got), "%q\nbecame %q", text, got)
		}
		delete(after, "toolgate")
		delete(before, "toolgate")
		require.Equal(t, before, after)

		back, err := file.Remove(got, "toolgate")
		require.NoError(t, err, "%q", got)
		left, err := file.Tables(back)
		require.NoError(t, err, "%q", back)
		require.Equal(t, before, left)
	})
}
