package config

// Console is [console]: the web console, served in addition to MCP on stdio.
type Console struct {
	Enabled bool   `toml:"enabled"`
	Address string `toml:"address"` // default: loopback with a free port
}
