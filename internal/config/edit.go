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

// AddServers returns text with tables for servers appended. The existing text is
// preserved byte for byte. A server that exists already is an error.
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
			return nil, &Error{
				File: "config",
				Msg:  fmt.Sprintf("there is a server %s already", name),
				Hint: "remove it first, or use another name",
			}
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
		return nil, fmt.Errorf("appending the servers: %w", err)
	}
	return []byte(out), nil
}

// ServerTable returns the server as a TOML table for the config file.
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

// emptyMatters are the lists for which empty differs from unset: an empty one enables no
// tool, or allows no host.
var emptyMatters = map[string]bool{"enabled_tools": true, "allowed_domains": true}

// tableOf returns the non-zero fields of a struct by key.
func tableOf(v reflect.Value) map[string]any {
	set := map[string]any{}
	for i := range v.NumField() {
		key, f := v.Type().Field(i).Tag.Get("toml"), v.Field(i)
		list := f.Kind() == reflect.Map || f.Kind() == reflect.Slice && !emptyMatters[key]
		empty := f.IsZero() || list && f.Len() == 0
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

// RemoveServer returns text without the tables of the server. Everything else is
// preserved byte for byte.
func RemoveServer(text []byte, name string) ([]byte, error) {
	var before Config
	if err := before.decode(text, "config"); err != nil {
		return nil, err
	}
	if _, ok := before.MCPServers[name]; !ok {
		return nil, &Error{
			File: "config",
			Msg:  fmt.Sprintf("there is no server %s", name),
			Hint: "`toolgate mcp list` lists the servers",
		}
	}
	out := ReplaceServer(string(text), name, "")
	var after Config
	err := after.decode([]byte(out), "config")
	if _, still := after.MCPServers[name]; err != nil || still || len(after.MCPServers) != len(before.MCPServers)-1 {
		return nil, &Error{
			File: "config",
			Msg:  fmt.Sprintf("the server %s is not written as a table of its own", name),
			Hint: "remove it by hand",
		}
	}
	return []byte(out), nil
}

// ReplaceServer returns TOML text with the tables of the server replaced by written, or
// with written appended if there are none. If written is "", it removes the tables.
// Comments and empty lines after a table's last key are kept, because they mostly
// belong to what follows.
func ReplaceServer(text, name, written string) string {
	var out strings.Builder
	var behind []string // lines since the last key of the server's table
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
				behind = behind[1:] // leave one empty line where the table was
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
	if inside && written == "" && len(behind) == 0 && endsEmpty(rest) { // the separator of the last table
		rest = strings.TrimSuffix(strings.TrimSuffix(rest, "\n"), "\r")
	}
	rest += strings.Join(behind, "")
	if done {
		return rest
	}
	return rest + separator(text, rest) + written
}

// separator returns the line breaks between rest and an appended table, in the style
// of text.
func separator(text, rest string) string {
	nl := "\n"
	if strings.Contains(text, "\r\n") {
		nl = "\r\n"
	}
	switch {
	case rest == "":
		return ""
	case strings.HasSuffix(rest, "\n"):
		return nl
	}
	return nl + nl
}

// endsEmpty reports whether text is empty or ends with an empty line.
func endsEmpty(text string) bool {
	return text == "" || strings.HasSuffix(text, "\n\n") || strings.HasSuffix(text, "\n\r\n")
}

// isTableOf reports whether the line is the header of [mcp_servers.NAME] or a table below it.
func isTableOf(line, name string) bool {
	for _, quoted := range []string{name, `"` + name + `"`, "'" + name + "'"} {
		head := "[mcp_servers." + quoted
		if strings.HasPrefix(line, head+"]") || strings.HasPrefix(line, head+".") && quoted[0] != '[' {
			return true
		}
	}
	return false
}

// Write replaces the config file atomically and keeps the old content in FILE.bak. Only
// the user can read the files, because they may contain secrets.
//
// If path is a symlink, for example into dotfiles, its target is written in place: a
// sandbox that hides the target would not hide a new file, nor a temporary one next to it.
func Write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := os.WriteFile(path+".bak", old, 0o600); err != nil {
			return fmt.Errorf("backing up the config: %w", err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return os.WriteFile(path, text, 0o600)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".config-*") // mode 0600
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
