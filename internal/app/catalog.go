package app

import (
	"maps"
	"slices"
	"strings"

	"toolgate/policy"
	"toolgate/tools"
	"toolgate/tools/applypatch"
	"toolgate/tools/files"
	"toolgate/tools/grep"
	"toolgate/tools/shell"
)

// ToolSettings is what the built-in tools must know. The gate hands it to the
// worker, so that both have the same catalogue.
type ToolSettings struct {
	Shell    shell.Options      `json:"shell"`
	Patch    applypatch.Options `json:"patch"`
	Watch    bool               `json:"watch,omitempty"`
	Enabled  []string           `json:"enabled,omitempty"`
	Disabled []string           `json:"disabled,omitempty"`
}

// Catalog is every built-in tool that is offered. start starts a command
// inside the worker; the gate, which only describes calls, passes nil.
func Catalog(o ToolSettings, start shell.StartFunc) []tools.Tool {
	all := slices.Concat(
		shell.Tools(o.Shell, start),
		applypatch.New(o.Patch),
		[]tools.Tool{files.ReadFile, files.ListDir, files.ViewImage, files.WriteFile, grep.Tool},
	)
	return slices.DeleteFunc(all, func(t tools.Tool) bool {
		off := t.Name() == "write_file" && !slices.Contains(o.Enabled, t.Name())
		return off || slices.Contains(o.Disabled, t.Name())
	})
}

// builtins returns the settings of the built-in tools.
func (s *Settings) builtins() (ToolSettings, error) {
	c := s.Config
	o := ToolSettings{Watch: c.Tools.Watch, Enabled: c.Tools.Enabled, Disabled: c.Tools.Disabled}
	o.Shell = shell.Options{
		Environment: shell.Environment{
			Inherit:               c.Environment.Inherit,
			IgnoreDefaultExcludes: c.Environment.IgnoreDefaultExcludes,
			Keep:                  c.Environment.Keep,
			Exclude:               c.Environment.Exclude,
			IncludeOnly:           c.Environment.IncludeOnly,
			Set:                   c.Environment.Set,
		},
		Limits:          shell.Limits(c.Tools.Limits),
		MaxOutputTokens: c.Tools.OutputTokens,
		YieldMS:         c.Tools.YieldMS,
	}
	for _, name := range c.Tools.Enabled {
		if slices.Contains(shell.AliasNames, name) {
			o.Shell.Aliases = append(o.Shell.Aliases, name)
		}
	}
	o.Patch = applypatch.Options{Roots: s.Policy.WritableRoots}
	if len(o.Enabled)+len(o.Disabled) == 0 {
		return o, nil // by far the most, and a client waits for our first answer
	}
	known := map[string]bool{}
	for _, t := range Catalog(ToolSettings{Shell: shell.Options{Aliases: shell.AliasNames}, Enabled: []string{"write_file"}}, nil) {
		known[t.Name()] = true
	}
	for _, name := range slices.Concat(o.Enabled, o.Disabled) {
		if !known[name] {
			return o, &policy.ValueError{What: "tool", Value: name, Known: strings.Join(slices.Sorted(maps.Keys(known)), ", ")}
		}
	}
	return o, nil
}
