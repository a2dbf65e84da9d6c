package clients

import (
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"toolgate/internal/config"
)

// A gooseExtension is one extension in Goose's config.
type gooseExtension struct {
	Type    string            `yaml:"type"`
	Enabled *bool             `yaml:"enabled"`
	Cmd     string            `yaml:"cmd"`
	Args    []string          `yaml:"args"`
	Envs    map[string]string `yaml:"envs"`
	EnvKeys []string          `yaml:"env_keys"` // secrets in Goose's keyring
	URI     string            `yaml:"uri"`
	Headers map[string]string `yaml:"headers"`
	Timeout float64           `yaml:"timeout"` // in seconds
	Tools   []string          `yaml:"available_tools"`
}

func parseGoose(text []byte) (map[string]config.MCPServer, []string, error) {
	var c struct {
		Extensions map[string]yaml.Node `yaml:"extensions"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return nil, nil, err
	}
	servers := map[string]config.MCPServer{}
	named := map[string]string{} // original names in Goose's file
	var notes []string
	for _, key := range slices.Sorted(maps.Keys(c.Extensions)) {
		note := func(format string, args ...any) { notes = append(notes, key+": "+fmt.Sprintf(format, args...)) }
		var g gooseExtension
		node := c.Extensions[key]
		if err := node.Decode(&g); err != nil {
			notes = append(notes, fmt.Sprintf("%s is left out: %v", key, err))
			continue
		}
		if g.Type != "stdio" && g.Type != "streamable_http" {
			continue // built into Goose, or an obsolete transport
		}
		s := config.MCPServer{
			Command:      g.Cmd,
			Args:         g.Args,
			Env:          g.Envs,
			URL:          g.URI,
			HTTPHeaders:  g.Headers,
			Enabled:      g.Enabled,
			EnabledTools: g.Tools,
		}
		if s.IsEnabled() {
			s.Enabled = nil
		}
		if g.Timeout != 300 { // the default of both
			s.ToolTimeoutSec = g.Timeout
		}
		name := config.NameFrom(key)
		if err := config.CheckServer(name, s); err != nil {
			notes = append(notes, fmt.Sprintf("%s is left out: %v", key, err))
			continue
		}
		if other, ok := named[name]; ok {
			notes = append(notes, fmt.Sprintf("%s is left out: its name would collide with %s", key, other))
			continue
		}
		named[name] = key
		for _, k := range g.EnvKeys {
			note("the value of %s is in Goose's keyring; export it as a variable and list its name in env_vars", k)
			s.EnvVars = append(s.EnvVars, k)
		}
		if needsNetwork(s.Command) {
			s.Network = true
			note(noteNetwork)
		}
		servers[name] = s
	}
	return servers, notes, nil
}
