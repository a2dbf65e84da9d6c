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

func (im *importer) goose(text []byte) error {
	var c struct {
		Extensions map[string]yaml.Node `yaml:"extensions"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(c.Extensions)) {
		var g gooseExtension
		node := c.Extensions[key]
		if err := node.Decode(&g); err != nil {
			im.leaveOut(key, err)
			continue
		}
		if g.Type != "stdio" && g.Type != "streamable_http" {
			continue // built into Goose, or an obsolete transport
		}
		s, notes := g.server()
		im.add(key, config.NameFrom(key), s, notes)
	}
	return nil
}

// server converts g to our schema.
func (g gooseExtension) server() (s config.MCPServer, notes []string) {
	s = config.MCPServer{
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
	for _, key := range g.EnvKeys {
		if s.URL == "" { // a server over HTTP inherits nothing
			s.EnvVars = append(s.EnvVars, key)
		}
		notes = append(notes, fmt.Sprintf("the value of %s is in Goose's keyring; "+
			"export it as a variable and list its name in env_vars", key))
	}
	return s, notes
}
