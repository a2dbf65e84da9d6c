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

// ToolSettings configures the built-in tools. The gate hands it to the worker, so that both have the same catalog.
type ToolSettings struct {
	Shell    shell.Options      `json:"shell"`
	Patch    applypatch.Options `json:"patch"`
	Watch    bool               `json:"watch,omitempty"`
	Enabled  []string           `json:"enabled,omitempty"`
	Disabled []string           `json:"disabled,omitempty"`
}

// AllTools returns every built-in tool, including those that are off. start
// starts a command inside the worker; the gate, which only describes calls,
// passes nil.
func AllTools(o ToolSettings, start shell.StartFunc) []tools.Tool {
	return slices.Concat(
		shell.Tools(o.Shell, start),
		applypatch.New(o.Patch),
		[]tools.Tool{files.ReadFile, files.ListDir, files.ViewImage, files.WriteFile, grep.Tool, grep.FindFiles},
	)
}

// Catalog returns the built-in tools that are offered: those of [AllTools] that
// are on by default or enabled in o, and not disabled in o.
func Catalog(o ToolSettings, start shell.StartFunc) []tools.Tool {
	return slices.DeleteFunc(AllTools(o, start), func(t tools.Tool) bool {
		off := t.Off() && !slices.Contains(o.Enabled, t.Name())
		return off || slices.Contains(o.Disabled, t.Name())
	})
}

// notForGPT are the tools that are not listed for clients that drive GPT models, which were
// trained on apply_patch. They can be called all the same.
var notForGPT = []string{"edit_file"}

// Listed reports whether an offered tool is listed for the client that calls itself client.
// All are if client is "". One that o enables is listed for every client.
func (o ToolSettings) Listed(tool, client string) bool {
	is := func(name string) bool { return strings.Contains(strings.ToLower(client), name) }
	drivesGPT := is("codex") || is("openai") || is("chatgpt")
	return !drivesGPT || !slices.Contains(notForGPT, tool) || slices.Contains(o.Enabled, tool)
}

// toolNames returns the names of all built-in tools, offered or not.
func toolNames() []string {
	var names []string
	for _, t := range AllTools(ToolSettings{}, nil) {
		names = append(names, t.Name())
	}
	return names
}

// secretVariables returns the names of the environment variables whose values toolgate
// itself sends, to servers and receivers of traces, or compares with what callers send.
func (s *Settings) secretVariables() []string {
	names := []string{tokenVariable}
	for _, server := range s.Config.MCPServers {
		names = append(names, server.BearerTokenEnvVar)
		names = slices.AppendSeq(names, maps.Values(server.EnvHTTPHeaders))
	}
	traces, _, _ := s.Config.Otel.Traces() // checked when the config was read
	for _, value := range traces.Headers {
		for _, m := range inBraces.FindAllStringSubmatch(value, -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// builtins returns the settings of the built-in tools.
func (s *Settings) builtins() (ToolSettings, error) {
	c := s.Config
	o := ToolSettings{Watch: c.Tools.Watch, Enabled: c.Tools.Enabled, Disabled: c.Tools.Disabled}
	o.Shell = shell.Options{
		Environment: shell.Environment{
			Inherit:               c.Environment.Inherit,
			IgnoreDefaultExcludes: c.Environment.IgnoreDefaultExcludes,
			Secrets:               s.secretVariables(),
			Keep:                  c.Environment.Keep,
			Exclude:               c.Environment.Exclude,
			IncludeOnly:           c.Environment.IncludeOnly,
			Set:                   c.Environment.Set,
		},
		Withheld:        s.Policy.Withheld(),
		Limits:          s.Limits(),
		MaxOutputTokens: c.Tools.OutputTokens,
		YieldMS:         c.Tools.YieldMS,
	}
	o.Patch = applypatch.Options{Roots: s.Policy.WritableRoots}
	if len(o.Enabled)+len(o.Disabled) == 0 {
		return o, nil // nothing to check
	}
	known := slices.Sorted(slices.Values(toolNames()))
	for _, name := range slices.Concat(o.Enabled, o.Disabled) {
		if !slices.Contains(known, name) {
			return o, &policy.ValueError{What: "tool", Value: name, Known: strings.Join(known, ", ")}
		}
	}
	return o, nil
}
