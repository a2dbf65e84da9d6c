package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"
)

// An Entry is a server as a client starts it.
type Entry struct {
	Command string
	Args    []string
	Env     map[string]string
	Extra   map[string]any // further keys of the client's own, such as Codex's required
}

// Set returns the file's text with the server name being e, whether it was
// there before or not. All else keeps its bytes. An empty text is an empty
// file. A text that is not understood is an error.
func (f File) Set(text []byte, name string, e Entry) ([]byte, error) {
	table := e.table()
	if f.Form == Servers || f.Form == SettingServers {
		table["type"] = "stdio"
	}
	return f.Put(text, name, table)
}

// Put is [File.Set] with the client's own keys and values.
func (f File) Put(text []byte, name string, table map[string]any) ([]byte, error) {
	switch f.Form {
	case CodexServers:
		return setCodex(text, name, table)
	case Extensions:
		return setYAML(text, name, table)
	}
	return setJSON(text, append(f.Form.path(), name), table)
}

// Remove returns the file's text without the server name, which need not be
// there.
func (f File) Remove(text []byte, name string) ([]byte, error) {
	switch f.Form {
	case CodexServers:
		return setCodex(text, name, nil)
	case Extensions:
		return setYAML(text, name, nil)
	}
	return setJSON(text, append(f.Form.path(), name), nil)
}

// Tables returns the servers in the file's text, in the client's own keys and
// values, by the client's name for them.
func (f File) Tables(text []byte) (map[string]map[string]any, error) {
	var top map[string]any
	var err error
	switch f.Form {
	case CodexServers:
		err = toml.Unmarshal(text, &top)
	case Extensions:
		err = yaml.Unmarshal(text, &top)
	default:
		text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		if len(bytes.TrimSpace(text)) > 0 {
			dec := json.NewDecoder(bytes.NewReader(plainJSON(text)))
			dec.UseNumber()
			err = dec.Decode(&top)
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

// path returns where in a file of this form the servers are.
func (f Form) path() []string {
	switch f {
	case Servers:
		return []string{"servers"}
	case SettingServers:
		return []string{"mcp", "servers"}
	case CodexServers:
		return []string{"mcp_servers"}
	case ContextServers:
		return []string{"context_servers"}
	case Extensions:
		return []string{"extensions"}
	}
	return []string{"mcpServers"}
}

func (e Entry) table() map[string]any {
	t := map[string]any{"command": e.Command}
	if len(e.Args) > 0 {
		t["args"] = e.Args
	}
	if len(e.Env) > 0 {
		t["env"] = e.Env
	}
	maps.Copy(t, e.Extra)
	return t
}

// setJSON returns text with value at path, or without what is there when
// value is nil. Objects on the way are made.
func setJSON(text []byte, path []string, value any) ([]byte, error) {
	bom, rest := []byte(nil), text
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		bom, rest = text[:3], text[3:]
	}
	if len(bytes.TrimSpace(rest)) == 0 {
		if value == nil {
			return text, nil
		}
		rest = []byte("{}\n")
	}
	if !json.Valid(plainJSON(rest)) {
		return nil, errors.New("it is neither JSON nor JSON with comments")
	}
	out, err := place(rest, path, value)
	if err != nil {
		return nil, err
	}
	if !sameBut(rest, out, path) {
		return nil, fmt.Errorf("%s cannot be changed in place; change it by hand", strings.Join(path, "."))
	}
	return append(bom[:len(bom):len(bom)], out...), nil
}

// sameBut reports whether two texts say the same but for what is at path, and
// objects on the way there that hold nothing else.
func sameBut(a, b []byte, path []string) bool {
	var tops [2]any
	for i, text := range [][]byte{a, b} {
		dec := json.NewDecoder(bytes.NewReader(plainJSON(text)))
		dec.UseNumber()
		if err := dec.Decode(&tops[i]); err != nil || dec.More() {
			return false
		}
		tops[i] = without(tops[i], path)
	}
	return reflect.DeepEqual(tops[0], tops[1])
}

// without returns v without what is at path, nil when nothing is left.
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

// place does the work of setJSON on text that is known to be valid.
func place(text []byte, path []string, value any) ([]byte, error) {
	at := skip(text, 0)
	var found []member
	for depth := range path {
		if text[at] != '{' {
			return nil, fmt.Errorf("%s is not an object", strings.Join(path[:depth], "."))
		}
		list, end := members(text, at)
		i := len(list) - 1
		for i >= 0 && list[i].name != path[depth] { // of a key that stands twice the last one counts
			i--
		}
		switch {
		case i >= 0:
			found = append(found, list[i])
			at = list[i].value
			continue
		case value == nil:
			return text, nil
		}
		inner := value
		for n := len(path) - 1; n > depth; n-- {
			inner = map[string]any{path[n]: inner}
		}
		return insert(text, at, end, list, depth, path[depth], inner)
	}
	last := found[len(found)-1]
	if value == nil {
		return cut(text, last), nil
	}
	b, err := written(text, value, len(path))
	if err != nil {
		return nil, err
	}
	return concat(text[:last.value], b, text[last.end:]), nil
}

// A member is one of an object in a text: where its key and value begin, and
// where the value ends.
type member struct {
	name            string
	key, value, end int
	comma           int // behind it, -1 when there is none
	before          int // where the comma or brace before it ends
}

// members returns the members of the object that begins at at, and where its
// closing brace is.
func members(text []byte, at int) (list []member, brace int) {
	i := at + 1
	before := i
	for {
		i = skip(text, i)
		if i >= len(text) || text[i] == '}' {
			return list, i
		}
		m := member{key: i, comma: -1, before: before}
		end := stringEnd(text, i)
		if json.Unmarshal(text[i:end], &m.name) != nil {
			return list, len(text)
		}
		i = skip(text, end) + 1 // behind the colon
		m.value = skip(text, i)
		m.end = valueEnd(text, m.value)
		i = skip(text, m.end)
		if i < len(text) && text[i] == ',' {
			m.comma = i
			i++
			before = i
		}
		list = append(list, m)
	}
}

// skip returns the first place from i on that is neither space nor comment.
func skip(text []byte, i int) int {
	for i < len(text) {
		switch {
		case strings.IndexByte(" \t\r\n", text[i]) >= 0:
			i++
		case bytes.HasPrefix(text[i:], []byte("//")):
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case bytes.HasPrefix(text[i:], []byte("/*")):
			end := bytes.Index(text[i+2:], []byte("*/"))
			if end < 0 {
				return len(text)
			}
			i += end + 4
		default:
			return i
		}
	}
	return i
}

// valueEnd returns where the value that begins at i ends.
func valueEnd(text []byte, i int) int {
	depth := 0
	for i < len(text) {
		switch c := text[i]; {
		case c == '"':
			i = stringEnd(text, i)
		case c == '{' || c == '[':
			depth++
			i++
		case c == '}' || c == ']':
			depth--
			i++
		case c == '/':
			i = max(skip(text, i), i+1)
			continue
		default:
			for i < len(text) && strings.IndexByte(",]}{[\"/ \t\r\n:", text[i]) < 0 {
				i++
			}
			if depth == 0 {
				return i
			}
			for i < len(text) && strings.IndexByte(",: \t\r\n", text[i]) >= 0 {
				i++
			}
			continue
		}
		if depth == 0 {
			return i
		}
		for i < len(text) && strings.IndexByte(",: \t\r\n", text[i]) >= 0 {
			i++
		}
	}
	return i
}

// insert adds a member at the end of the object from brace to brace.
func insert(text []byte, open, brace int, list []member, depth int, name string, value any) ([]byte, error) {
	b, err := written(text, value, depth+1)
	if err != nil {
		return nil, err
	}
	key, err := json.Marshal(name)
	if err != nil {
		return nil, err
	}
	line := concat([]byte(newline(text)+indents(text, depth+1)), key, []byte(": "), b)
	if len(list) == 0 {
		inside := open + 1 + len(bytes.TrimRight(text[open+1:brace], " \t\r\n")) // behind a comment, maybe
		if bytes.IndexByte(text[inside:brace], '\n') < 0 {
			line = concat(line, []byte(newline(text)+indents(text, depth)))
		}
		return concat(text[:inside], line, text[inside:]), nil
	}
	last := list[len(list)-1]
	if last.comma >= 0 {
		return concat(text[:last.comma+1], line, text[last.comma+1:]), nil
	}
	return concat(text[:last.end], []byte(","), line, text[last.end:]), nil
}

// cut takes a member out, with the comma that it no longer needs.
func cut(text []byte, m member) []byte {
	from, to := m.key, m.end
	for from > 0 && strings.IndexByte(" \t", text[from-1]) >= 0 {
		from--
	}
	if from > 0 && text[from-1] == '\n' {
		from--
	}
	if from > 0 && text[from-1] == '\r' {
		from--
	}
	if m.comma >= 0 {
		return concat(text[:from], text[m.comma+1:])
	}
	if m.before > 0 && text[m.before-1] == ',' {
		return concat(text[:m.before-1], text[m.before:from], text[to:])
	}
	return concat(text[:from], text[to:])
}

// written returns value as it stands at this depth of the text.
func written(text []byte, value any, depth int) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(indents(text, depth), indents(text, 1))
	err := enc.Encode(value)
	return bytes.ReplaceAll(bytes.TrimSpace(b.Bytes()), []byte("\n"), []byte(newline(text))), err
}

// newline returns how lines end in the text.
func newline(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// indents returns the indentation at a depth, in the text's own way.
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

func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
