package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"toolgate/internal/config"
	"toolgate/internal/lazyregexp"
)

// A foreignServer is the union of the server schemas of clients that use JSON.
type foreignServer struct {
	Type          string                     `json:"type"`
	Command       string                     `json:"command"`
	Args          []string                   `json:"args"`
	Env           map[string]any             `json:"env"`
	EnvFile       string                     `json:"envFile"`
	Cwd           string                     `json:"cwd"`
	URL           string                     `json:"url"`
	HTTPURL       string                     `json:"httpUrl"`   // Gemini
	ServerURL     string                     `json:"serverUrl"` // Windsurf
	Headers       map[string]string          `json:"headers"`
	HeadersHelper any                        `json:"headersHelper"`
	Timeout       float64                    `json:"timeout"` // of a call, in milliseconds
	Disabled      bool                       `json:"disabled"`
	Enabled       *bool                      `json:"enabled"`
	Trust         bool                       `json:"trust"` // Gemini
	IncludeTools  []string                   `json:"includeTools"`
	ExcludeTools  []string                   `json:"excludeTools"`
	DisabledTools []string                   `json:"disabledTools"` // Windsurf
	OAuth         map[string]json.RawMessage `json:"oauth"`
}

// Parse returns the servers in a client's config file: Codex's TOML, Goose's YAML,
// or the other clients' JSON, with or without comments. The notes name what could
// not be converted.
func Parse(name string, text []byte) (servers map[string]config.MCPServer, notes []string, err error) {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".toml":
		return parseCodex(text)
	case ".yaml", ".yml":
		return parseGoose(text)
	}
	var top struct {
		Claude   map[string]json.RawMessage `json:"mcpServers"`
		VSCode   map[string]json.RawMessage `json:"servers"`
		Zed      map[string]json.RawMessage `json:"context_servers"`
		Settings struct {
			Servers map[string]json.RawMessage `json:"servers"`
		} `json:"mcp"`
		Projects map[string]struct {
			Servers map[string]json.RawMessage `json:"mcpServers"`
		} `json:"projects"`
	}
	standard, err := standardJSON(text)
	if err == nil {
		err = json.Unmarshal(standard, &top)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("invalid JSON: %w", err)
	}
	servers = map[string]config.MCPServer{}
	named := map[string]string{} // original names in the client's file
	add := func(from map[string]json.RawMessage) {
		for _, key := range slices.Sorted(maps.Keys(from)) {
			var f foreignServer
			if err := json.Unmarshal(from[key], &f); err != nil {
				notes = append(notes, fmt.Sprintf("%s is left out: %v", key, err))
				continue
			}
			s, more := f.server()
			name := config.NameFrom(key)
			if err := config.CheckServer(name, s); err != nil {
				notes = append(notes, fmt.Sprintf("%s is left out: %v", key, err))
				continue
			}
			if _, ok := servers[name]; ok {
				if named[name] != key { // the same server in another scope: the first wins
					notes = append(notes,
						fmt.Sprintf("%s is left out: its name would collide with %s", key, named[name]))
				}
				continue
			}
			servers[name], named[name] = s, key
			for _, m := range more {
				notes = append(notes, key+": "+m)
			}
		}
	}
	add(top.Claude)
	add(top.VSCode)
	add(top.Zed)
	add(top.Settings.Servers)
	for _, dir := range slices.Sorted(maps.Keys(top.Projects)) {
		add(top.Projects[dir].Servers)
	}
	return servers, notes, nil
}

// server converts f to our schema.
func (f foreignServer) server() (s config.MCPServer, notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	s = config.MCPServer{
		Command:       f.Command,
		Args:          f.Args,
		Cwd:           f.Cwd,
		EnabledTools:  f.IncludeTools,
		DisabledTools: append(f.ExcludeTools, f.DisabledTools...),
	}
	if f.Timeout > 0 {
		s.ToolTimeoutSec = f.Timeout / 1000
	}
	if s.Command == "" {
		for _, u := range []string{f.HTTPURL, f.ServerURL, f.URL} {
			if s.URL == "" {
				s.URL = u
			}
		}
		f.headers(&s, note)
		f.oauth(&s, note)
	}
	for _, key := range slices.Sorted(maps.Keys(f.Env)) {
		value := fmt.Sprint(f.Env[key])
		name, whole := variable(value)
		switch {
		case whole && name == key:
			s.EnvVars = append(s.EnvVars, key)
			continue
		case strings.Contains(value, "${"):
			note("%s = %q holds a placeholder that only that client expands; use env_vars instead", key, value)
		}
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		s.Env[key] = value
	}
	for _, word := range append([]string{s.Command, s.Cwd, s.URL}, s.Args...) {
		if strings.Contains(word, "${") {
			note("%q holds a placeholder that only that client expands; replace it with its value", word)
		}
	}
	if f.EnvFile != "" {
		note("the variables in %s are not imported; list their names in env_vars", f.EnvFile)
	}
	if f.Trust {
		note("that client trusts it; toolgate asks until you set trusted or default_tools_approval_mode")
	}
	if f.Disabled || f.Enabled != nil && !*f.Enabled {
		off := false
		s.Enabled = &off
	}
	if needsNetwork(s.Command) {
		s.Network = true
		note(noteNetwork)
	}
	return s, notes
}

const noteNetwork = "network access is enabled, because its package runner needs it"

// headers converts the headers. One that is a variable is kept as a reference.
func (f foreignServer) headers(s *config.MCPServer, note func(string, ...any)) {
	for _, key := range slices.Sorted(maps.Keys(f.Headers)) {
		value := f.Headers[key]
		token, isBearer := strings.CutPrefix(value, "Bearer ")
		if name, ok := variable(token); ok && isBearer && strings.EqualFold(key, "Authorization") {
			s.BearerTokenEnvVar = name
			continue
		}
		if name, ok := variable(value); ok {
			if s.EnvHTTPHeaders == nil {
				s.EnvHTTPHeaders = map[string]string{}
			}
			s.EnvHTTPHeaders[key] = name
			continue
		}
		if strings.Contains(value, "${") {
			note("header %s = %q holds a placeholder that only that client expands; use env_http_headers", key, value)
		}
		if s.HTTPHeaders == nil {
			s.HTTPHeaders = map[string]string{}
		}
		s.HTTPHeaders[key] = value
	}
	if f.HeadersHelper != nil {
		note("headersHelper is not imported; put the token into a variable and name it in bearer_token_env_var")
	}
}

// oauth converts the OAuth client registration of Claude Code and Gemini.
func (f foreignServer) oauth(s *config.MCPServer, note func(string, ...any)) {
	if f.OAuth == nil {
		return
	}
	for key, into := range map[string]any{
		"clientId":     &s.OAuth.ClientID,
		"clientSecret": &s.OAuth.ClientSecret,
		"callbackPort": &s.OAuth.CallbackPort,
		"redirectUri":  &s.OAuth.CallbackURL,
		"issuer":       &s.OAuth.AuthorizationServerIssuer,
		"scopes":       &s.Scopes,
	} {
		if v, ok := f.OAuth[key]; ok && json.Unmarshal(v, into) != nil {
			note("oauth.%s is not imported: unsupported value %s", key, v)
		}
	}
	note("log in with `toolgate mcp login`; that client's tokens are not imported")
}

var wholeVariable = lazyregexp.New(`^\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}$`)

// variable returns NAME if the whole value is ${NAME} or ${env:NAME}.
func variable(value string) (name string, ok bool) {
	m := wholeVariable.FindStringSubmatch(value)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// needsNetwork reports whether the command downloads the program that it runs.
func needsNetwork(command string) bool {
	switch strings.TrimSuffix(filepath.Base(command), ".cmd") {
	case "npx", "uvx", "bunx", "pnpx", "pipx", "docker", "podman":
		return true
	}
	return false
}

func parseCodex(text []byte) (map[string]config.MCPServer, []string, error) {
	var c struct {
		Servers map[string]map[string]any `toml:"mcp_servers"`
	}
	if err := toml.NewDecoder(bytes.NewReader(text)).Decode(&c); err != nil {
		return nil, nil, err
	}
	servers := map[string]config.MCPServer{}
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		s, unknown, err := codexServer(c.Servers[name])
		if err == nil {
			err = config.CheckServer(name, s)
		}
		if err != nil {
			notes = append(notes, fmt.Sprintf("%s is left out: %v", name, err))
			continue
		}
		for _, key := range unknown {
			notes = append(notes, fmt.Sprintf("%s: unknown key %s is left out", name, key))
		}
		if needsNetwork(s.Command) && !s.Network {
			s.Network = true
			notes = append(notes, name+": "+noteNetwork)
		}
		servers[name] = s
	}
	return servers, notes, nil
}

// codexServer decodes one table and returns its unknown keys, which it removes from table.
func codexServer(table map[string]any) (s config.MCPServer, unknown []string, err error) {
	for {
		text, err := toml.Marshal(table)
		if err != nil {
			return s, unknown, err
		}
		s = config.MCPServer{}
		err = toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&s)
		strict, ok := errors.AsType[*toml.StrictMissingError](err)
		if !ok || len(strict.Errors) == 0 {
			return s, unknown, err
		}
		key := strict.Errors[0].Key()
		unknown = append(unknown, strings.Join(key, "."))
		if !dropKey(table, key) {
			return s, unknown, err
		}
	}
}

// dropKey removes the key path from the table and reports whether it was there.
func dropKey(table map[string]any, key []string) bool {
	for len(key) > 1 {
		inner, ok := table[key[0]].(map[string]any)
		if !ok {
			return false
		}
		table, key = inner, key[1:]
	}
	_, ok := table[key[0]]
	delete(table, key[0])
	return ok
}
