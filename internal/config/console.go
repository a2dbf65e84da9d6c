package config

// Console is [console]: the page on which a person sees what waits for a yes
// and what happened, beside a server on stdio.
type Console struct {
	Enabled bool   `toml:"enabled"`
	Address string `toml:"address"` // default a port of the loopback that the system chooses
}
