package tools

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"

	"toolgate/internal/rawjson"
)

// aliases are the names by which models know an argument: from Codex, Claude Code, Gemini
// CLI and the tools of editors. In each row they mean the same; the argument that is meant
// is the one of them that the tool has. Names that differ only in case, as filePath and
// file-path do from file_path, need no row.
var aliases = [][]string{
	{"file_path", "dir_path", "path", "file", "filename", "filepath", "target_file", "absolute_path",
		"image_path", "notebook_path", "directory", "dir", "folder"},
	{"workdir", "cwd", "working_directory", "working_dir", "directory", "dir"},
	{"cmd", "command", "script"},
	{"input", "patch", "diff", "patch_text"},
	{"timeout_ms", "timeout"}, // in milliseconds, as in Codex and Claude Code
	{"yield_time_ms", "yield_ms", "wait_ms"},
	{"session_id", "session", "process_id", "shell_id", "bash_id", "id"},
	{"chars", "input", "text", "data"},
	{"include", "glob", "file_pattern", "include_pattern"},
	{"pattern", "query", "regex", "regexp", "search_pattern", "glob", "glob_pattern"},
	{"limit", "head_limit", "max_results", "max_count", "max_entries"},
	{"offset", "start_line", "line_offset"},
	{"depth", "max_depth"},
	{"context", "-C", "context_lines"},
	{"before", "-B", "before_context"},
	{"after", "-A", "after_context"},
	{"only_matching", "-o"},
	{"type", "file_type"},
	{"content", "contents", "file_text", "file_content"},
	{"old_string", "old_str", "old_text"},
	{"new_string", "new_str", "new_text"},
	{"replace_all", "allow_multiple"},
	{"tty", "pty"},
	{"cols", "columns"},
	{"max_output_tokens", "max_tokens"},
	{"gitignore", "respect_gitignore", "respect_git_ignore"},
}

// switches are booleans of other tools that say what an argument here says by a value.
// Without a value for a boolean, it says what holds anyway.
var switches = map[string]struct{ name, yes, no string }{
	"-i":                         {"case", "insensitive", ""},
	"ignore_case":                {"case", "insensitive", ""},
	"case_insensitive":           {"case", "insensitive", ""},
	"case_sensitive":             {"case", "sensitive", "insensitive"},
	"with_escalated_permissions": {"sandbox_permissions", "require_escalated", ""}, // Codex, before
}

// values are values by which models know that of an argument.
var values = map[string]map[string]string{
	"output_mode": {"files_with_matches": "files", "count_matches": "count"}, // Claude Code
}

// harmless are arguments of other tools that a tool that changes something may pass over:
// they tell a person something, or what holds here anyway. Leaving out any other could do
// harm, since it may name a place, a limit or a mode such as dry_run.
var harmless = strings.Fields(`
	description explanation explain reason reasoning rationale purpose justification intent goal title summary
	comment comments note notes thought thoughts thinking instruction instructions tool_summary tool_action
	is_background run_in_background background stream verbose`)

// Canonical returns args with the names and types of the tool's schema, for the policy,
// the approval, the record and the worker: an alias becomes the name of the argument, a
// number or boolean in a string becomes one, as do an array and an object, and 10.0 becomes
// 10. The result is args itself if there is nothing to do.
//
// An argument that the tool does not have is left out, and notes says so to the model. If
// the tool changes something and leaving it out could do harm, that is an error, and so are
// two names for one argument with different values. Canonical does not validate
// anything else: see [Tool.Describe].
func (t Tool) Canonical(args json.RawMessage) (canonical json.RawMessage, notes []string, err error) {
	given, err := rawjson.Parse(args)
	if err != nil {
		return args, nil, nil // Describe says what is wrong
	}
	c := canonicalizer{tool: t, from: map[string]string{}}
	for _, f := range given {
		if err := c.take(f.Key, f.Value); err != nil {
			return nil, nil, err
		}
	}
	if len(c.unknown) > 0 {
		if err := c.refuseUnknown(); err != nil {
			return nil, nil, err
		}
		notes = append(notes, fmt.Sprintf("%s has no argument %s, which was ignored%s",
			t.def.Name, quoted(c.unknown), c.hint(c.unknown)))
	}
	if !c.changed {
		return args, nil, nil
	}
	return c.out.Bytes(), notes, nil
}

// A canonicalizer builds the arguments of [Tool.Canonical].
type canonicalizer struct {
	tool    Tool
	out     rawjson.Object
	from    map[string]string // the names that were given, by those in out
	unknown []string
	changed bool
}

// take adds one argument as it was given.
func (c *canonicalizer) take(given string, value json.RawMessage) error {
	name := given
	if !c.has(name) {
		c.changed = true
		name, value = c.resolve(given, value)
	}
	switch {
	case rawjson.Kind(value) == 'n' || len(value) == 0:
		c.changed = true // null is the same as nothing
		return nil
	case name == "":
		c.unknown = append(c.unknown, given)
		return nil
	}
	if meant, ok := values[name][rawjson.Text(value)]; ok {
		c.changed, value = true, rawjson.Quote(meant)
	}
	if schema := c.tool.accepted()[name]; schema != nil {
		fitted := fit(schema, value)
		c.changed = c.changed || len(fitted) != len(value) || string(fitted) != string(value)
		value = fitted
	}
	if other, ok := c.from[name]; ok && !sameValue(c.out.Get(name), value) {
		return fmt.Errorf("%q and %q are the same argument, with different values; give one", other, given)
	}
	c.from[name] = given
	c.out.Set(name, value)
	return nil
}

func (c *canonicalizer) has(name string) bool {
	return slices.ContainsFunc(c.tool.fields, func(f field) bool { return f.name == name })
}

// resolve returns the argument that is meant by an alias, "" if there is none. A nil
// value means that it says nothing.
func (c *canonicalizer) resolve(alias string, value json.RawMessage) (string, json.RawMessage) {
	plain := alias
	if !strings.HasPrefix(alias, "-") { // as in "-C"
		plain = strings.Join(Words(alias), "_")
	}
	if c.has(plain) {
		return plain, value
	}
	for _, row := range aliases {
		if !slices.Contains(row, plain) {
			continue
		}
		if i := slices.IndexFunc(row, c.has); i >= 0 {
			return row[i], value
		}
	}
	s, ok := switches[plain]
	value = fit(&jsonschema.Schema{Type: "boolean"}, value)
	switch {
	case !ok || !c.has(s.name):
		return "", value
	case string(value) == "true":
		return s.name, rawjson.Quote(s.yes)
	case string(value) == "false" && s.no != "":
		return s.name, rawjson.Quote(s.no)
	case string(value) == "false":
		return s.name, nil
	}
	return "", value
}

// refuseUnknown returns an error if the call is to have no effect because of its unknown
// arguments.
func (c *canonicalizer) refuseUnknown() error {
	for _, f := range c.tool.fields {
		if f.required && c.out.Get(f.name) == nil {
			return c.refuse(c.unknown...) // it may be the one that is missing
		}
	}
	if c.tool.def.ReadOnly {
		return nil
	}
	for _, name := range c.unknown {
		if !slices.Contains(harmless, strings.Join(Words(name), "_")) {
			return c.refuse(name)
		}
	}
	return nil
}

func (c *canonicalizer) refuse(names ...string) error {
	return fmt.Errorf("unknown argument %s; the arguments are %s%s",
		quoted(names), strings.Join(c.tool.published().PropertyOrder, ", "), c.hint(names))
}

// hint returns a question about the first of names that may be misspelled, "" if none is.
func (c *canonicalizer) hint(names []string) string {
	for _, name := range names {
		if near := NearestNames(strings.Join(Words(name), "_"), c.tool.published().PropertyOrder); len(near) > 0 {
			return fmt.Sprintf("; did you mean %q?", near[0])
		}
	}
	return ""
}

func quoted(names []string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("%q", OneLine(name)))
	}
	return strings.Join(list, ", ")
}

// Words returns the words of a name such as filePath, file-path or FILE_PATH, in lower
// case.
func Words(name string) []string {
	var b strings.Builder
	lower := false // the rune before was a lower-case letter or a digit
	for _, r := range name {
		if lower && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		lower = unicode.IsLower(r) || unicode.IsDigit(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(b.String(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func sameValue(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// fit returns value as schema wants it, if it plainly says that: a whole number is an
// integer, and a string may hold any other value as JSON, or True or False.
func fit(schema *jsonschema.Schema, value json.RawMessage) json.RawMessage {
	kind := rawjson.Kind(value)
	if kind == '"' && schema.Type != "string" {
		return fitText(schema, value)
	}
	switch {
	case schema.Type == "integer" && (kind == '-' || kind >= '0' && kind <= '9'):
		return whole(value)
	case schema.Type == "array" && kind == '[' && schema.Items != nil:
		list := rawjson.List(value)
		changed := false
		for i, item := range list {
			list[i] = fit(schema.Items, item)
			changed = changed || string(list[i]) != string(item)
		}
		if changed {
			return rawjson.Array(list)
		}
	case schema.Type == "object" && kind == '{':
		o, err := rawjson.Parse(value)
		changed := false
		for i, f := range o {
			if p := schema.Properties[f.Key]; p != nil {
				o[i].Value = fit(p, f.Value)
				changed = changed || string(o[i].Value) != string(f.Value)
			}
		}
		if changed && err == nil {
			return o.Bytes()
		}
	}
	return value
}

// fitText returns the value that the string value holds.
func fitText(schema *jsonschema.Schema, value json.RawMessage) json.RawMessage {
	text := strings.TrimSpace(rawjson.Text(value))
	held := json.RawMessage(text)
	if schema.Type == "boolean" {
		held = json.RawMessage(strings.ToLower(text)) // Python's are True and False
	}
	if rawjson.Unique(held) != nil {
		return value
	}
	kind := rawjson.Kind(held)
	isNumber := kind == '-' || kind >= '0' && kind <= '9'
	switch {
	case schema.Type == "integer" && isNumber, schema.Type == "object" && kind == '{':
		return fit(schema, held)
	case schema.Type == "number" && isNumber, schema.Type == "boolean" && (kind == 't' || kind == 'f'):
		return held
	case schema.Type == "array" && kind == '[' && areStrings(schema, held):
		return fit(schema, held)
	}
	return value
}

// areStrings reports whether list may be an array of schema: a script in bash can begin
// with a bracket too, but is no JSON array of strings then.
func areStrings(schema *jsonschema.Schema, list json.RawMessage) bool {
	if schema.Items == nil || schema.Items.Type != "string" {
		return true
	}
	items := rawjson.List(list)
	return len(items) > 0 && len(rawjson.Strings(list)) == len(items)
}

// whole returns the number v without an exponent and a fraction, if that is the same
// number.
func whole(v json.RawMessage) json.RawMessage {
	const exact = 1 << 53 // of larger ones, not each has a float64
	if !strings.ContainsAny(string(v), ".eE") {
		return v
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > exact {
		return v
	}
	return strconv.AppendInt(nil, int64(f), 10)
}

// NearestNames returns the names that name is most probably a misspelling of, in lexical order:
// those with the least difference, which is at most a third of the letters.
func NearestNames(name string, names []string) (near []string) {
	least := math.MaxInt
	for _, n := range names {
		d := distance(name, n)
		if d > max(len(name), len(n))/3 || d > least {
			continue
		}
		if d < least {
			near, least = nil, d
		}
		near = append(near, n)
	}
	slices.Sort(near)
	return near
}

// distance returns the number of bytes to insert, delete or replace to make b of a.
func distance(a, b string) int {
	const longest = 100 // such a name is like no other
	if max(len(a), len(b)) > longest {
		return math.MaxInt
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
