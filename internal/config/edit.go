package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"toolgate/internal/atomicfile"
)

// editedFile is the name of the config in errors of functions that edit its text.
const editedFile = "config"

// edited decodes text that is to be edited or was.
func edited(text []byte) (c Config, err error) {
	return c, c.decode(source{editedFile, text})
}

// AddServers returns text with tables for servers appended. The existing text is
// preserved byte for byte. A server that exists already is an error.
func AddServers(text []byte, servers map[string]MCPServer) ([]byte, error) {
	c, err := edited(text)
	if err != nil {
		return nil, err
	}
	all := map[string]MCPServer{}
	maps.Copy(all, c.MCPServers)
	maps.Copy(all, servers)
	if _, msg, hint := checkNames(all); msg != "" {
		return nil, &Error{File: editedFile, Msg: msg, Hint: hint}
	}
	var tables []string
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		if _, ok := c.MCPServers[name]; ok {
			msg := fmt.Sprintf("there is a server %s already", name)
			return nil, &Error{File: editedFile, Msg: msg, Hint: "remove it first, or use another name"}
		}
		if err := CheckServer(name, servers[name]); err != nil {
			return nil, err
		}
		table, err := ServerTable(name, servers[name])
		if err != nil {
			return nil, err
		}
		tables = append(tables, table)
	}
	out, err := appendTables(text, tables...)
	if err != nil {
		return nil, fmt.Errorf("appending the servers: %w", err)
	}
	return out, nil
}

// appendTables returns text followed by tables, with an empty line before each.
func appendTables(text []byte, tables ...string) ([]byte, error) {
	out := strings.TrimRight(string(text), "\n")
	for _, table := range tables {
		if out != "" {
			out += "\n\n"
		}
		out += strings.TrimRight(table, "\n")
	}
	after := []byte(out + "\n")
	_, err := edited(after)
	return after, err
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
// tool, allows no host, or shows no server.
var emptyMatters = map[string]bool{"enabled_tools": true, "allowed_domains": true, "servers": true}

// tableOf returns the non-zero fields of a struct by key.
func tableOf(v reflect.Value) map[string]any {
	set := map[string]any{}
	for i := range v.NumField() {
		key, f := v.Type().Field(i).Tag.Get("toml"), v.Field(i)
		list := f.Kind() == reflect.Map || f.Kind() == reflect.Slice && !emptyMatters[key]
		empty := f.IsZero() || list && f.Len() == 0
		switch {
		case empty:
		case v.Type().Field(i).Anonymous:
			maps.Copy(set, tableOf(f))
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

// RemoveServer returns text without the tables of the server. Everything else is preserved byte for byte.
func RemoveServer(text []byte, name string) ([]byte, error) {
	names := func(c Config) []string { return slices.Collect(maps.Keys(c.MCPServers)) }
	return removeTable(text, "mcp_servers", name, "server", "mcp", names)
}

// removeTable returns text without the tables below parent of the entry called name. In
// errors it is a what, which `toolgate COMMAND list` lists. Names returns the names of all.
func removeTable(text []byte, parent, name, what, command string, names func(Config) []string) ([]byte, error) {
	before, err := edited(text)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names(before), name) {
		hint := fmt.Sprintf("`toolgate %s list` lists the %ss", command, what)
		return nil, &Error{File: editedFile, Msg: fmt.Sprintf("there is no %s %s", what, name), Hint: hint}
	}
	out := []byte(replaceTable(string(text), parent, name, ""))
	after, err := edited(out)
	if left := names(after); err != nil || slices.Contains(left, name) || len(left) != len(names(before))-1 {
		msg := fmt.Sprintf("the %s %s is not written as a table of its own", what, name)
		return nil, &Error{File: editedFile, Msg: msg, Hint: "remove it by hand"}
	}
	return out, nil
}

// ReplaceServer returns TOML text with the tables of the server replaced by written, or
// with written appended if there are none. If written is "", it removes the tables.
// Comments and empty lines after a table's last key are kept, because they mostly
// belong to what follows.
func ReplaceServer(text, name, written string) string {
	return replaceTable(text, "mcp_servers", name, written)
}

// replaceTable is [ReplaceServer] for the tables of name below another parent.
func replaceTable(text, parent, name, written string) string {
	var out strings.Builder
	var behind []string // lines since the last key of the server's table
	inside, done := false, written == ""
	for line := range strings.Lines(text) {
		t := strings.TrimSpace(line)
		if strings.HasPrefix(t, "[") {
			inside = isTableOf(t, parent, name)
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

// separator returns the line breaks between rest and an appended table, in the style of text.
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

// isTableOf reports whether the line is the header of [PARENT.NAME] or a table below it.
func isTableOf(line, parent, name string) bool {
	for _, quoted := range []string{name, `"` + name + `"`, "'" + name + "'"} {
		head := "[" + parent + "." + quoted
		if strings.HasPrefix(line, head+"]") || strings.HasPrefix(line, head+".") && quoted[0] != '[' {
			return true
		}
	}
	return false
}

// Write replaces the config file with [Rewrite] and keeps the old content in FILE.bak.
// Only the user can read the files, because they may contain secrets.
func Write(path string, text []byte) error {
	old, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := os.WriteFile(path+".bak", old, 0o600); err != nil {
			return fmt.Errorf("backing up the config: %w", err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	return Rewrite(path, text)
}

// Rewrite replaces a file that only the user can read, atomically. If path is a symlink,
// for example into dotfiles, its target is written in place: a sandbox that hides the
// target would not hide a new file, nor a temporary one next to it.
func Rewrite(path string, text []byte) error {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return os.WriteFile(path, text, 0o600)
	}
	return atomicfile.Write(path, text, 0o600)
}
