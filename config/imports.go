package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Places returns where the known clients keep their servers, by client. home
// is the user's folder and appData the one where programs keep their settings
// on this system.
func Places(home, appData string) map[string][]string {
	at := func(parts ...string) string { return filepath.Join(parts...) }
	return map[string][]string{
		"claude-desktop": {at(appData, "Claude", "claude_desktop_config.json")},
		"claude-code":    {at(home, ".claude.json")},
		"codex":          {at(home, ".codex", "config.toml")},
		"cursor":         {at(home, ".cursor", "mcp.json")},
		"vscode":         {at(appData, "Code", "User", "mcp.json"), at(appData, "Code", "User", "settings.json")},
		"gemini":         {at(home, ".gemini", "settings.json")},
		"windsurf":       {at(home, ".codeium", "windsurf", "mcp_config.json")},
	}
}

// A foreignServer is a server in a client's own JSON.
type foreignServer struct {
	Type      string            `json:"type"`
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
	Env       map[string]any    `json:"env"`
	Cwd       string            `json:"cwd"`
	URL       string            `json:"url"`
	HTTPURL   string            `json:"httpUrl"`   // Gemini
	ServerURL string            `json:"serverUrl"` // Windsurf
	Headers   map[string]string `json:"headers"`
	Disabled  bool              `json:"disabled"`
	Enabled   *bool             `json:"enabled"`
}

// ParseForeign reads the servers out of a client's config file: TOML of Codex,
// or JSON, also with comments, of the others. Notes tell what could not be
// taken over.
func ParseForeign(name string, text []byte) (servers map[string]MCPServer, notes []string, err error) {
	if strings.EqualFold(filepath.Ext(name), ".toml") {
		return parseCodex(text)
	}
	var top struct {
		Claude   map[string]json.RawMessage `json:"mcpServers"`
		VSCode   map[string]json.RawMessage `json:"servers"`
		Settings struct {
			Servers map[string]json.RawMessage `json:"servers"`
		} `json:"mcp"`
		Projects map[string]struct {
			Servers map[string]json.RawMessage `json:"mcpServers"`
		} `json:"projects"`
	}
	if err := json.Unmarshal(plainJSON(text), &top); err != nil {
		return nil, nil, fmt.Errorf("it is neither JSON nor JSON with comments: %w", err)
	}
	servers = map[string]MCPServer{}
	add := func(from map[string]json.RawMessage) {
		for _, key := range slices.Sorted(maps.Keys(from)) {
			var f foreignServer
			if err := json.Unmarshal(from[key], &f); err != nil {
				notes = append(notes, fmt.Sprintf("%s is left out: %v", key, err))
				continue
			}
			s, more := f.server()
			name := importedName(key)
			if err := CheckServer(name, s); err != nil {
				notes = append(notes, fmt.Sprintf("%s is left out: %v", key, err))
				continue
			}
			if _, ok := servers[name]; ok {
				continue // the nearer file's word counts
			}
			servers[name] = s
			for _, m := range more {
				notes = append(notes, key+": "+m)
			}
		}
	}
	add(top.Claude)
	add(top.VSCode)
	add(top.Settings.Servers)
	for _, dir := range slices.Sorted(maps.Keys(top.Projects)) {
		add(top.Projects[dir].Servers)
	}
	return servers, notes, nil
}

// server returns f in our words.
func (f foreignServer) server() (s MCPServer, notes []string) {
	s = MCPServer{Command: f.Command, Args: f.Args, Cwd: f.Cwd, HTTPHeaders: f.Headers}
	for _, u := range []string{f.URL, f.HTTPURL, f.ServerURL} {
		if s.URL == "" {
			s.URL = u
		}
	}
	if s.Command != "" {
		s.URL, s.HTTPHeaders = "", nil
	}
	for _, key := range slices.Sorted(maps.Keys(f.Env)) {
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		value := fmt.Sprint(f.Env[key])
		if strings.Contains(value, "${") {
			notes = append(notes, fmt.Sprintf("the variable %s is %q, which only that client fills in; put its name into env_vars instead", key, value))
		}
		s.Env[key] = value
	}
	if f.Disabled || f.Enabled != nil && !*f.Enabled {
		off := false
		s.Enabled = &off
	}
	if needsNetwork(s.Command) {
		s.Network = true
		notes = append(notes, "it is given the network, which its package runner needs")
	}
	return s, notes
}

// needsNetwork reports whether the command fetches the program it runs.
func needsNetwork(command string) bool {
	switch strings.TrimSuffix(filepath.Base(command), ".cmd") {
	case "npx", "uvx", "bunx", "pnpx", "pipx", "docker", "podman":
		return true
	}
	return false
}

// importedName makes a name that we take.
func importedName(name string) string {
	return strings.Map(func(r rune) rune {
		if validName(string(r)) {
			return r
		}
		return '_'
	}, name)
}

func parseCodex(text []byte) (map[string]MCPServer, []string, error) {
	var c struct {
		Servers map[string]MCPServer `toml:"mcp_servers"`
	}
	if err := toml.NewDecoder(bytes.NewReader(text)).Decode(&c); err != nil {
		return nil, nil, err
	}
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		s := c.Servers[name]
		if err := CheckServer(name, s); err != nil {
			notes = append(notes, fmt.Sprintf("%s is left out: %v", name, err))
			delete(c.Servers, name)
			continue
		}
		if needsNetwork(s.Command) && !s.Network {
			s.Network = true
			c.Servers[name] = s
			notes = append(notes, name+": it is given the network, which its package runner needs")
		}
	}
	return c.Servers, notes, nil
}

// plainJSON returns text without comments and commas before a closing
// bracket. What stands in strings is left alone.
func plainJSON(text []byte) []byte {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var out []byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			end := i + 1
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(text))
			out = append(out, text[i:end]...)
			i = end - 1
		case c == '/' && i+1 < len(text) && text[i+1] == '/':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case c == '/' && i+1 < len(text) && text[i+1] == '*':
			end := bytes.Index(text[i+2:], []byte("*/"))
			if end < 0 {
				return out
			}
			i += end + 3
		case c == '}' || c == ']':
			if trimmed := bytes.TrimRight(out, " \t\r\n"); bytes.HasSuffix(trimmed, []byte(",")) {
				out = trimmed[:len(trimmed)-1]
			}
			out = append(out, c)
		default:
			out = append(out, c)
		}
	}
	return out
}
