package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/config"
)

// everyStdioKey and everyHTTPKey hold all keys of Codex's tables of servers,
// each with a value of its kind.
const (
	everyStdioKey = `
[mcp_servers.stdio]
command = "npx"
args = ["-y", "server"]
env = { A = "b" }
env_vars = ["TOKEN", { name = "OTHER", source = "local" }]
cwd = "/srv"
` + everySharedKey + `
[mcp_servers.stdio.tools.t]
approval_mode = "approve"
output_token_limit = 1000
`
	everyHTTPKey = `
mcp_oauth_credentials_store = "keyring"
mcp_oauth_callback_port = 8976
mcp_oauth_callback_url = "http://localhost:8976/callback"
mcp_enterprise_managed_auth = { issuer = "x" }

[mcp_servers.http]
url = "https://example.com/mcp"
bearer_token_env_var = "TOKEN"
http_headers = { X = "1" }
env_http_headers = { Y = "V" }
http_headers_helper = ["helper", "arg"]
auth = "chatgpt"
oauth_resource = "https://example.com"
scopes = ["read"]
` + everySharedKey + `
[mcp_servers.http.oauth]
client_id = "c"
client_secret = "s"
token_endpoint_auth_method = "client_secret_post"
callback_url = "http://localhost:1/c"
callback_port = 1
authorization_server_issuer = "https://login.example.com"
`
	everySharedKey = `
enabled = true
required = true
startup_timeout_sec = 2
startup_timeout_ms = 3000
tool_timeout_sec = 9
enabled_tools = ["x"]
disabled_tools = ["y"]
supports_parallel_tool_calls = true
default_tools_approval_mode = "writes"
startup_readiness = "connection"
tool_input_schema_max_bytes = 5000
environment_id = "e"
name = "old"
`
)

// Every key of Codex is taken, and what has no effect here is known to have
// none.
func TestEveryKeyOfCodexIsTaken(t *testing.T) {
	c, err := load(t, everyStdioKey)
	require.NoError(t, err)
	s := c.MCPServers["stdio"]
	require.Equal(t, []string{"environment_id", "name"}, s.WithoutEffect())
	require.Equal(t, "connection", s.StartupReadiness)
	require.Equal(t, 5000, s.ToolInputSchemaMaxBytes)
	require.Equal(t, 2*time.Second, s.StartupTimeout())
	require.Empty(t, c.WithoutEffect())

	c, err = load(t, everyHTTPKey)
	require.NoError(t, err)
	s = c.MCPServers["http"]
	require.Equal(t, []string{"auth", "environment_id", "http_headers_helper", "name"}, s.WithoutEffect())
	require.Equal(t, []string{"mcp_enterprise_managed_auth", "mcp_oauth_credentials_store"}, c.WithoutEffect())
	require.Equal(t, config.MCPOAuth{ClientID: "c", ClientSecret: "s", TokenEndpointAuthMethod: "client_secret_post", CallbackURL: "http://localhost:1/c", CallbackPort: 1, AuthorizationServerIssuer: "https://login.example.com"}, s.OAuth)
	require.Equal(t, 8976, c.MCPOAuthCallbackPort)
	require.False(t, s.TakesLogin(), "it has a token")
}

func TestFaultsOfLogins(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`mcp_oauth_credentials_store = "vault"`, "unknown mcp_oauth_credentials_store"},
		{`mcp_oauth_callback_port = 70000`, "70000 is no port"},
		{`mcp_oauth_callback_url = "here"`, "not an http or https address"},
		{"[mcp]\nschema_profile = \"loose\"", `unknown schema_profile "loose"`},
		{"[mcp_servers.s]\nurl = \"https://x\"\nauth = \"basic\"", `unknown auth "basic"`},
		{"[mcp_servers.s]\nurl = \"https://x\"\n[mcp_servers.s.oauth]\nclient_secret = \"x\"", "no client_id"},
		{"[mcp_servers.s]\nurl = \"https://x\"\n[mcp_servers.s.oauth]\ntoken_endpoint_auth_method = \"jwt\"", "unknown oauth.token_endpoint_auth_method"},
		{"[mcp_servers.s]\nurl = \"https://x\"\n[mcp_servers.s.oauth]\ncallback_port = -1", "oauth.callback_port -1"},
		{"[mcp_servers.s]\nurl = \"https://x\"\n[mcp_servers.s.oauth]\nclientid = \"x\"", "unknown key"},
		{"[mcp_servers.s]\ncommand = \"x\"\noauth = { client_id = \"x\" }", "oauth is not supported for stdio"},
		{"[mcp_servers.s]\ncommand = \"x\"\ntool_input_schema_max_bytes = -1", "less than 0"},
	} {
		_, err := load(t, tt.text+"\n")
		require.ErrorContains(t, err, tt.want)
	}
}
