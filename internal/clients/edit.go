package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"
	"go.yaml.in/yaml/v3"

	"toolgate/internal/config"
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// Put returns text with the server name added or replaced by table, which is in the
// client's own schema. Everything else is preserved byte for byte. Empty text is an empty
// file; invalid text is an error. A nil table removes the server.
func (f File) Put(text []byte, name string, table map[string]any) ([]byte, error) {
	switch f.Form {
	case CodexServers:
		return setCodex(text, name, table)
	case Extensions:
		return setYAML(text, name, table)
	}
	return setJSON(text, append(f.Form.path(), name), table)
}

// Remove returns text without the server name. It is no error if there is none.
func (f File) Remove(text []byte, name string) ([]byte, error) { return f.Put(text, name, nil) }

// Tables returns the servers in text by name, in the client's own schema.
func (f File) Tables(text []byte) (map[string]map[string]any, error) {
	var top map[string]any
	var err error
	switch f.Form {
	case CodexServers:
		err = toml.Unmarshal(text, &top)
	case Extensions:
		err = yaml.Unmarshal(text, &top)
	default:
		if len(bytes.TrimSpace(bytes.TrimPrefix(text, byteOrderMark))) > 0 {
			err = decodeJSON(text, &top)
		}
	}
	if err != nil {
		return nil, err
	}
	for _, key := range f.Form.path() {
		top, _ = top[key].(map[string]any)
	}
	tables := map[string]map[string]any{}
	for name, v := range top {
		if t, ok := v.(map[string]any); ok {
			tables[name] = t
		}
	}
	return tables, nil
}

// decodeJSON decodes JSON with comments and trailing commas. Numbers become [json.Number].
func decodeJSON(text []byte, v any) error {
	root, err := parseJSON(bytes.TrimPrefix(text, byteOrderMark))
	if err != nil {
		return err
	}
	root.Standardize() // replaces comments and trailing commas by spaces
	dec := json.NewDecoder(bytes.NewReader(root.Pack()))
	dec.UseNumber()
	return dec.Decode(v)
}

// path returns the keys that lead to the servers in a file of this form.
func (f Form) path() []string {
	return [][]string{
		MCPServers:     {"mcpServers"},
		Servers:        {"servers"},
		SettingServers: {"mcp", "servers"},
		CodexServers:   {"mcp_servers"},
		ContextServers: {"context_servers"},
		Extensions:     {"extensions"},
	}[f]
}

// setJSON returns text with table at path, or without the member there if table
// is nil. Missing parent objects are created.
func setJSON(text []byte, path []string, table map[string]any) ([]byte, error) {
	rest := bytes.TrimPrefix(text, byteOrderMark)
	bom := text[:len(text)-len(rest)]
	if len(bytes.TrimSpace(rest)) == 0 {
		if table == nil {
			return text, nil
		}
		rest = []byte("{}\n")
	}
	root, err := parseJSON(rest)
	if err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	if err := place(rest, &root, path, table); err != nil {
		return nil, err
	}
	out := bytes.TrimSuffix(root.Pack(), []byte("\n")) // which parseJSON has added
	var before, after map[string]any
	if decodeJSON(rest, &before) != nil || decodeJSON(out, &after) != nil || !sameBut(before, after, path) {
		return nil, fmt.Errorf("%s cannot be changed in place; change it by hand", strings.Join(path, "."))
	}
	return append(slices.Clip(bom), out...), nil
}

// sameBut reports whether a and b are equal apart from the member at path and
// parent objects that contain nothing else. It changes both.
func sameBut(a, b map[string]any, path []string) bool {
	return reflect.DeepEqual(without(a, path), without(b, path))
}

// without returns v without the member at path, or nil if nothing is left.
func without(v any, path []string) any {
	m, ok := v.(map[string]any)
	if !ok || len(path) == 0 {
		return v
	}
	if len(path) == 1 {
		delete(m, path[0])
	} else if inner, there := m[path[0]]; there {
		if m[path[0]] = without(inner, path[1:]); m[path[0]] == nil {
			delete(m, path[0])
		}
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

// place is [setJSON] for text that was parsed as root. Values that it does not change keep their bytes.
func place(text []byte, root *hujson.Value, path []string, table map[string]any) error {
	at := root
	for depth, key := range path {
		obj, ok := at.Value.(*hujson.Object)
		if !ok {
			return fmt.Errorf("%s is not an object", strings.Join(path[:depth], "."))
		}
		i := len(obj.Members) - 1
		for i >= 0 && obj.Members[i].Name.Value.(hujson.Literal).String() != key { // the last duplicate wins
			i--
		}
		switch {
		case i < 0 && table == nil:
			return nil
		case i < 0:
			for n := len(path) - 1; n > depth; n-- {
				table = map[string]any{path[n]: table}
			}
			return insertMember(text, obj, depth, key, table)
		case depth == len(path)-1 && table == nil:
			removeMember(obj, i)
			return nil
		}
		at = &obj.Members[i].Value
	}
	v, err := written(text, table, len(path))
	at.Value = v.Value
	return err
}

// parseJSON parses JSON with comments and trailing commas. The last line may be a comment without a newline.
func parseJSON(text []byte) (hujson.Value, error) {
	return hujson.Parse(append(slices.Clip(text), '\n'))
}

// insertMember adds a member at the end of the object, which is at this depth of text.
func insertMember(text []byte, obj *hujson.Object, depth int, name string, value any) error {
	v, err := written(text, value, depth+1)
	if err != nil {
		return err
	}
	before := newline(text) + indents(text, depth+1)
	if len(obj.Members) == 0 {
		comment := bytes.TrimRight(obj.AfterExtra, " \t\r\n")
		rest := obj.AfterExtra[len(comment):]
		if !bytes.Contains(rest, []byte("\n")) {
			rest = append([]byte(newline(text)+indents(text, depth)), rest...)
		}
		before, obj.AfterExtra = string(comment)+before, rest
	}
	v.BeforeExtra = hujson.Extra(" ")
	key := hujson.Value{BeforeExtra: hujson.Extra(before), Value: hujson.String(name)}
	obj.Members = append(obj.Members, hujson.ObjectMember{Name: key, Value: v})
	return nil
}

// removeMember removes member i with its line break and the comma that is no longer needed.
func removeMember(obj *hujson.Object, i int) {
	m := obj.Members[i]
	before := bytes.TrimRight(m.Name.BeforeExtra, " \t")
	before = bytes.TrimSuffix(bytes.TrimSuffix(before, []byte("\n")), []byte("\r"))
	next := &obj.AfterExtra
	last := i == len(obj.Members)-1
	if !last {
		next = &obj.Members[i+1].Name.BeforeExtra
	}
	*next = slices.Concat(before, *next)
	obj.Members = slices.Delete(obj.Members, i, i+1)
	if !last || i == 0 {
		return
	}
	// A last value has an AfterExtra if and only if a comma follows.
	switch previous := &obj.Members[i-1].Value; {
	case m.Value.AfterExtra == nil:
		obj.AfterExtra = slices.Concat(previous.AfterExtra, obj.AfterExtra)
		previous.AfterExtra = nil
	case previous.AfterExtra == nil:
		previous.AfterExtra = hujson.Extra{}
	}
}

// written encodes value with the text's indentation and line endings.
func written(text []byte, value any, depth int) (hujson.Value, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(indents(text, depth), indents(text, 1))
	if err := enc.Encode(value); err != nil {
		return hujson.Value{}, err
	}
	return hujson.Parse(bytes.ReplaceAll(bytes.TrimSpace(b.Bytes()), []byte("\n"), []byte(newline(text))))
}

// newline returns the line ending used in text.
func newline(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// indents returns the indentation for depth in the style of text, two spaces by default.
func indents(text []byte, depth int) string {
	unit := "  "
	for line := range bytes.Lines(text) {
		if rest := bytes.TrimLeft(line, " \t"); len(rest) > 0 && len(rest) < len(line) && rest[0] == '"' {
			unit = string(line[:len(line)-len(rest)])
			break
		}
	}
	return strings.Repeat(unit, depth)
}

// setCodex adds or replaces a server in Codex's TOML, or removes it if table is
// nil. It works on lines and verifies that nothing but this server has changed.
func setCodex(text []byte, name string, table map[string]any) ([]byte, error) {
	var before, after map[string]any
	if err := toml.Unmarshal(text, &before); err != nil {
		return nil, err
	}
	written := ""
	if table != nil {
		b, err := toml.Marshal(map[string]any{"mcp_servers": map[string]any{name: table}})
		if err != nil {
			return nil, err
		}
		written = strings.ReplaceAll(strings.TrimPrefix(string(b), "[mcp_servers]\n"), "\n", newline(text))
	}
	out := config.ReplaceServer(string(text), name, written)
	if err := toml.Unmarshal([]byte(out), &after); err != nil {
		return nil, fmt.Errorf("the server %s cannot be written as a table of its own: %w", name, err)
	}
	servers, _ := after["mcp_servers"].(map[string]any)
	_, there := servers[name]
	if there != (table != nil) || !sameBut(before, after, []string{"mcp_servers", name}) {
		return nil, fmt.Errorf("the server %s is not written as a table of its own; change it by hand", name)
	}
	return []byte(out), nil
}
