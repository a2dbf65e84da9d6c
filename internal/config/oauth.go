package config

import (
	"fmt"
	"net/url"
	"slices"
)

// checkMCP validates the settings that all servers share.
func (c *Config) checkMCP(src source) error {
	bad := func(key, msg, hint string) error { return src.fault(src.lineOf(key), msg, hint) }
	profiles := []string{"", "auto", "default", "strict", "gemini"}
	if !slices.Contains(profiles, c.MCP.SchemaProfile) {
		msg := fmt.Sprintf("unknown schema_profile %q", c.MCP.SchemaProfile)
		return bad("schema_profile", msg, "schema_profile is one of: auto, default, strict, gemini")
	}
	if stores := []string{"", "auto", "file", "keyring"}; !slices.Contains(stores, c.MCPOAuthCredentialsStore) {
		msg := fmt.Sprintf("unknown mcp_oauth_credentials_store %q", c.MCPOAuthCredentialsStore)
		return bad("mcp_oauth_credentials_store", msg, "it is one of: auto, file, keyring")
	}
	if msg := checkPort(c.MCPOAuthCallbackPort); msg != "" {
		return bad("mcp_oauth_callback_port", "mcp_oauth_callback_port "+msg, "")
	}
	if msg := checkCallbackURL(c.MCPOAuthCallbackURL); msg != "" {
		return bad("mcp_oauth_callback_url", "mcp_oauth_callback_url "+msg, "")
	}
	return nil
}

func checkPort(port int) string {
	if port < 0 || port > 65535 {
		return fmt.Sprintf("%d is no port", port)
	}
	return ""
}

func checkCallbackURL(address string) string {
	if address == "" {
		return ""
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Sprintf("%q is not an http or https address", address)
	}
	return ""
}

// check returns what is wrong with [mcp_servers.NAME.oauth], or "".
func (o MCPOAuth) check() (msg, hint string) {
	methods := []string{"", "none", "client_secret_basic", "client_secret_post"}
	if !slices.Contains(methods, o.TokenEndpointAuthMethod) {
		return fmt.Sprintf("unknown oauth.token_endpoint_auth_method %q", o.TokenEndpointAuthMethod),
			"it is one of: none, client_secret_basic, client_secret_post"
	}
	if o.ClientSecret != "" && o.ClientID == "" {
		return "oauth has a client_secret but no client_id", "set both, or neither"
	}
	if msg := checkPort(o.CallbackPort); msg != "" {
		return "oauth.callback_port " + msg, ""
	}
	if msg := checkCallbackURL(o.CallbackURL); msg != "" {
		return "oauth.callback_url " + msg, ""
	}
	return "", ""
}

// WithoutEffect returns the keys, outside of the servers' tables, that are set but ignored.
func (c *Config) WithoutEffect() []string {
	keys := keysFor(*c, "none")
	if c.MCPOAuthCredentialsStore == "keyring" {
		keys = append(keys, "mcp_oauth_credentials_store")
	}
	if c.Otel.MetricsExporter != nil && c.Otel.MetricsExporter != "none" {
		keys = append(keys, "otel.metrics_exporter")
	}
	return keys
}
