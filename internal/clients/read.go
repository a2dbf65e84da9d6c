package clients

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"

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
	im := importer{servers: map[string]config.MCPServer{}, keys: map[string]string{}}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".toml":
		err = im.codex(text)
	case ".yaml", ".yml":
		err = im.goose(text)
	default:
		err = im.json(text)
	}
	if err != nil {
		return nil, nil, err
	}
	return im.servers, im.notes, nil
}

// An importer collects the servers of a client's file and notes on them.
type importer struct {
	servers map[string]config.MCPServer
	keys    map[string]string // keys in the client's file, by our name
	notes   []string
}

func (im *importer) leaveOut(key string, err error) {
	im.notes = append(im.notes, fmt.Sprintf("%s is left out: %v", key, err))
}

// add adds the server that the client's file has at key, with notes on it, unless it is invalid or its name is taken.
func (im *importer) add(key, name string, s config.MCPServer, notes []string) {
	if err := config.CheckServer(name, s); err != nil {
		im.leaveOut(key, err)
		return
	}
	if other, taken := im.keys[name]; taken {
		if other != key { // else the same server in another scope: the first wins
			im.leaveOut(key, fmt.Errorf("its name would collide with %s", other))
		}
		return
	}
	if needsNetwork(s.Command) && !s.Network {
		s.Network = true
		notes = append(notes, "network access is enabled, because its package runner needs it")
	}
	im.servers[name], im.keys[name] = s, key
	for _, note := range notes {
		im.notes = append(im.notes, key+": "+note)
	}
}

func (im *importer) json(text []byte) error {
	type tables map[string]json.RawMessage
	var top struct {
		Claude   tables `json:"mcpServers"`
		VSCode   tables `json:"servers"`
		Zed      tables `json:"context_servers"`
		Settings struct {
			Servers tables `json:"servers"`
		} `json:"mcp"`
		Projects map[string]struct {
			Servers tables `json:"mcpServers"`
		} `json:"projects"`
	}
	if err := decodeJSON(text, &top); err != nil {
		return fmt.Errorf("invalid JSON: %w", err)
	}
	scopes := []tables{top.Claude, top.VSCode, top.Zed, top.Settings.Servers}
	for _, dir := range slices.Sorted(maps.Keys(top.Projects)) {
		scopes = append(scopes, top.Projects[dir].Servers)
	}
	for _, scope := range scopes {
		for _, key := range slices.Sorted(maps.Keys(scope)) {
			var f foreignServer
			if err := json.Unmarshal(scope[key], &f); err != nil {
				im.leaveOut(key, err)
				continue
			}
			s, notes := f.server()
			im.add(key, config.NameFrom(key), s, notes)
		}
	}
	return nil
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
		s.URL = cmp.Or(f.HTTPURL, f.ServerURL, f.URL)
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
		s.Enabled = new(false)
	}
	return s, notes
}

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

func (im *importer) codex(text []byte) error {
	var c struct {
		Servers map[string]map[string]any `toml:"mcp_servers"`
	}
	if err := toml.Unmarshal(text, &c); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		s, notes, err := codexServer(c.Servers[name])
		if err != nil {
			im.leaveOut(name, err)
			continue
		}
		im.add(name, name, s, notes)
	}
	return nil
}

// codexServer decodes one table. Unknown keys are left out and noted.
func codexServer(table map[string]any) (s config.MCPServer, notes []string, err error) {
	text, err := toml.Marshal(table)
	if err != nil {
		return s, nil, err
	}
	err = toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&s)
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		err = nil
		unknown := ""
		for _, e := range strict.Errors {
			key := strings.Join(e.Key(), ".")
			if unknown != "" && strings.HasPrefix(key+".", unknown+".") {
				continue // a part of the table that was just left out
			}
			unknown = key
			notes = append(notes, fmt.Sprintf("unknown key %s is left out", key))
		}
	}
	return s, notes, err
}

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
