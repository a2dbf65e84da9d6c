package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// AddServers returns the config text with tables for servers added at its end.
// What stands there already keeps its bytes. Servers of the same name are an
// error.
func AddServers(text []byte, servers map[string]MCPServer) ([]byte, error) {
	var c Config
	if err := c.decode(text, "config"); err != nil {
		return nil, err
	}
	all := map[string]MCPServer{}
	maps.Copy(all, c.MCPServers)
	maps.Copy(all, servers)
	if _, msg, hint := checkNames(all); msg != "" {
		return nil, &Error{File: "config", Msg: msg, Hint: hint}
	}
	out := strings.TrimRight(string(text), "\n")
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		if _, ok := c.MCPServers[name]; ok {
			return nil, &Error{File: "config", Msg: fmt.Sprintf("there is a server %s already", name), Hint: "remove it first, or use another name"}
		}
		if err := CheckServer(name, servers[name]); err != nil {
			return nil, err
		}
		table, err := ServerTable(name, servers[name])
		if err != nil {
			return nil, err
		}
		if out != "" {
			out += "\n\n"
		}
		out += strings.TrimRight(table, "\n")
	}
	out += "\n"
	var after Config
	if err := after.decode([]byte(out), "config"); err != nil {
		return nil, fmt.Errorf("the servers cannot be added at the end: %w", err)
	}
	return []byte(out), nil
}

// ServerTable returns the server's table as it stands in a config file.
func ServerTable(name string, s MCPServer) (string, error) {
	set := tableOf(reflect.ValueOf(s))
	if s.IsEnabled() {
		delete(set, "enabled")
	}
	b, err := toml.Marshal(map[string]any{"mcp_servers": map[string]any{name: set}})
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(string(b), "[mcp_servers]\n"), nil
}

// emptyMatters are the lists of which an empty one is not the same as none: it
// enables no tool, and allows no host.
var emptyMatters = map[string]bool{"enabled_tools": true, "allowed_domains": true}

// tableOf returns the keys of a struct that say something.
func tableOf(v reflect.Value) map[string]any {
	set := map[string]any{}
	for i := range v.NumField() {
		key, f := v.Type().Field(i).Tag.Get("toml"), v.Field(i)
		empty := f.IsZero() || (f.Kind() == reflect.Map || f.Kind() == reflect.Slice && !emptyMatters[key]) && f.Len() == 0
		switch {
		case empty:
		case f.Kind() == reflect.Struct:
			set[key] = tableOf(f)
		case f.Kind() == reflect.Map && f.Type().Elem().Kind() == reflect.Struct:
			inner := map[string]any{}
			for _, k := range f.MapKeys() {
				inner[k.String()] = tableOf(f.MapIndex(k))
			}
			set[key] = inner
		default:
			set[key] = f.Interface()
		}
	}
	return set
}

// RemoveServer returns the config text without the tables of the server.
// Everything else keeps its bytes.
func RemoveServer(text []byte, name string) ([]byte, error) {
	var before Config
	if err := before.decode(text, "config"); err != nil {
		return nil, err
	}
	if _, ok := before.MCPServers[name]; !ok {
		return nil, &Error{File: "config", Msg: fmt.Sprintf("there is no server %s", name), Hint: "`toolgate mcp list` shows those there are"}
	}
	out := ReplaceServer(string(text), name, "")
	var after Config
	err := after.decode([]byte(out), "config")
	if _, still := after.MCPServers[name]; err != nil || still || len(after.MCPServers) != len(before.MCPServers)-1 {
		return nil, &Error{File: "config", Msg: fmt.Sprintf("the server %s is not written as a table of its own", name), Hint: "take it out by hand"}
	}
	return []byte(out), nil
}

// ReplaceServer returns the text of a TOML file with written in the place of the
// tables of the server, or at its end; an empty one takes them out. Comments and empty lines behind a table's last key stay: they
// mostly speak of what follows.
func ReplaceServer(text, name, written string) string {
	var out strings.Builder
	var behind []string // lines since the last key of a table of ours
	inside, done := false, written == ""
	for line := range strings.Lines(text) {
		t := strings.TrimSpace(line)
		if strings.HasPrefix(t, "[") {
			inside = isTableOf(t, name)
			if inside && !done {
				out.WriteString(strings.Join(behind, "") + written)
				behind, done = nil, true
			}
		}
		switch {
		case !inside:
			if len(behind) > 0 && written == "" && strings.TrimSpace(behind[0]) == "" && endsEmpty(out.String()) {
				behind = behind[1:] // one empty line is enough where the table was
			}
			out.WriteString(strings.Join(behind, "") + line)
			behind = nil
		case t == "" || strings.HasPrefix(t, "#"):
			behind = append(behind, line)
		default:
			behind = nil
		}
	}
	rest := out.String()
	if inside && written == "" && len(behind) == 0 && endsEmpty(rest) { // the line that set the last table apart
		rest = strings.TrimSuffix(strings.TrimSuffix(rest, "\n"), "\r")
	}
	rest += strings.Join(behind, "")
	if done {
		return rest
	}
	nl := "\n"
	if strings.Contains(text, "\r\n") {
		nl = "\r\n"
	}
	if rest != "" && !strings.HasSuffix(rest, "\n") {
		rest += nl
	}
	if rest != "" {
		rest += nl
	}
	return rest + written
}

// endsEmpty reports whether the text ends with an empty line, or is empty.
func endsEmpty(text string) bool {
	return text == "" || strings.HasSuffix(text, "\n\n") || strings.HasSuffix(text, "\n\r\n")
}

// isTableOf reports whether the line opens [mcp_servers.NAME] or a table below
// it.
func isTableOf(line, name string) bool {
	for _, quoted := range []string{name, `"` + name + `"`, "'" + name + "'"} {
		head := "[mcp_servers." + quoted
		if strings.HasPrefix(line, head+"]") || strings.HasPrefix(line, head+".") && quoted[0] != '[' {
			return true
		}
	}
	return false
}

// Write replaces the config file in one step and keeps the old one beside it,
// as FILE.bak. Both can be read by the user alone: they may hold secrets.
//
// Where path is a symlink, into somebody's dotfiles, it stays one. What it leads
// to is written in place, because a sandbox that hides it would lose sight of
// another file, and nothing is left beside it, where it would not be hidden.
func Write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := os.WriteFile(path+".bak", old, 0o600); err != nil {
			return fmt.Errorf("keeping the old config: %w", err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return os.WriteFile(path, text, 0o600)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".config-*") // made with mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(text)
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}
