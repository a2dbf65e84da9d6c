package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/config"
)

var someHash = "sha256:" + strings.Repeat("0f", 32)

func TestHTTPTable(t *testing.T) {
	const oauth = "[http.oauth]\nissuer = \"https://login.example.com\"\nresource = \"https://mcp.example.com/mcp\"\n"
	for name, tt := range map[string]struct {
		text string
		line int // of the fault, 0 for none
		want string
	}{
		"empty":              {"[http]\n", 0, ""},
		"all":                {"[http]\nhosts = [\"a.example\"]\norigins = [\"https://a.example:8443\"]\nsession_ttl = 60\nmax_sessions = 1\nmax_callers = 1\nrate_limit = 0.5\nrate_burst = 1\nopen_metrics = true\n" + oauth + "scopes = [\"a\"]\njwks_url = \"https://login.example.com/keys\"\n", 0, ""},
		"loopback issuer":    {strings.ReplaceAll(oauth, "https://login.example.com", "http://127.0.0.1:8080"), 0, ""},
		"unknown key":        {"[http]\ntoken = \"x\"\n", 2, `unknown key "http.token"`},
		"negative":           {"[http]\nmax_sessions = -1\n", 2, "must not be negative"},
		"origin with a path": {"[http]\norigins = [\"https://a.example/x\"]\n", 2, "is no origin"},
		"origin of all":      {"[http]\norigins = [\"*\"]\n", 2, "is no origin"},
		"origin null":        {"[http]\norigins = [\"null\"]\n", 2, "is no origin"},
		"token":              {"[http.tokens.a]\nhash = \"" + someHash + "\"\n", 0, ""},
		"token itself":       {"[http.tokens.a]\nhash = \"tg_SECRET\"\n", 2, "hash is not sha256"},
		"no hash":            {"\n[http.tokens.a]\nworkspace = \"/w\"\n", 2, "hash is not sha256"},
		"the name default":   {"[http.tokens.default]\nhash = \"" + someHash + "\"\n", 1, "is not default"},
		"approval":           {"[http.tokens.a]\nhash = \"" + someHash + "\"\napproval_policy = \"yes\"\n", 3, `unknown approval policy "yes"`},
		"mode and profile":   {"[http.tokens.a]\nhash = \"" + someHash + "\"\nsandbox_mode = \"read-only\"\ndefault_permissions = \":workspace\"\n", 4, "both set"},
		"mode":               {"[http.tokens.a]\nhash = \"" + someHash + "\"\nsandbox_mode = \"off\"\n", 3, `unknown sandbox mode "off"`},
		"server":             {"[http.tokens.a]\nhash = \"" + someHash + "\"\nservers = [\"git\"]\n", 3, `there is no server "git"`},
		"server there":       {"[mcp_servers.git]\ncommand = \"g\"\n[http.tokens.a]\nhash = \"" + someHash + "\"\nservers = [\"git\"]\n", 0, ""},
		"issuer in clear":    {strings.ReplaceAll(oauth, "https://login", "http://login"), 2, "is no https address"},
		"issuer like local":  {strings.ReplaceAll(oauth, "https://login.example.com", "http://localhost.example.com"), 2, "is no https address"},
		"no resource":        {"[http.oauth]\nissuer = \"https://login.example.com\"\n", 1, "resource is missing"},
		"no issuer":          {"[http.oauth]\nscopes = [\"a\"]\n", 1, "issuer is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadText(t, tt.text)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			fault, ok := errors.AsType[*config.Error](err)
			require.True(t, ok, "%v", err)
			require.Contains(t, fault.Msg, tt.want)
			require.Equal(t, tt.line, fault.Line)
		})
	}
}

func TestTokensAreAddedAndRemoved(t *testing.T) {
	const before = "# mine\nsandbox_mode = \"read-only\"\n\n[mcp_servers.git]\ncommand = \"g\" # keep\n"
	for _, name := range []string{"alice", "a.b", "ci/1", "x@y", "http"} {
		token := config.HTTPToken{Hash: someHash, Overrides: config.Overrides{Workspace: "/srv/it's \"w\"", ApprovalPolicy: "never", SandboxMode: "read-only", Servers: []string{}}}
		text, err := config.AddToken([]byte(before), name, token)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), before))
		c, err := loadText(t, string(text))
		require.NoError(t, err)
		require.Equal(t, token, c.HTTP.Tokens[name])
		require.NotNil(t, c.HTTP.Tokens[name].Servers, "none is not all")

		_, err = config.AddToken(text, name, token)
		require.ErrorContains(t, err, "already")
		both, err := config.AddToken(text, "other", config.HTTPToken{Hash: someHash})
		require.NoError(t, err)
		left, err := config.RemoveToken(both, name)
		require.NoError(t, err)
		c, err = loadText(t, string(left))
		require.NoError(t, err)
		require.Len(t, c.HTTP.Tokens, 1)
		require.Contains(t, c.HTTP.Tokens, "other")
		require.True(t, strings.HasPrefix(string(left), before))
		_, err = config.RemoveToken(left, name)
		require.ErrorContains(t, err, "there is no token")
	}
	_, err := config.AddToken([]byte(before), "a b", config.HTTPToken{Hash: someHash})
	require.Error(t, err)
	_, err = config.RemoveToken([]byte("http.tokens.a = { hash = \""+someHash+"\" }\n"), "a")
	require.ErrorContains(t, err, "table of its own")
}
