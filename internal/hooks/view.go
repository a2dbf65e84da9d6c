package hooks

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"toolgate/internal/gate"
	"toolgate/internal/lazyregexp"
)

// A view is a call as hooks see it: under Codex's names, with a command or a
// patch as one string, "command".
type view struct {
	id       string
	caller   string
	name     string
	aliases  []string // matchers may name it so too
	field    string   // our argument that is shown as "command", "" for none
	input    map[string]any
	sent     map[string]json.RawMessage // our arguments
	response any
}

// commandFields are the tools that run a command, with the argument that
// holds it.
var commandFields = map[string]string{
	"shell":          "command",
	"shell_command":  "command",
	"local_shell":    "command",
	"container.exec": "command",
	"exec_command":   "cmd",
}

func viewOf(c gate.Call) view {
	v := view{id: c.ID, caller: c.Caller, name: c.Action.Tool, input: map[string]any{}}
	switch field, isCommand := commandFields[c.Action.Tool]; {
	case c.Action.Server != "":
		v.name = "mcp__" + flatName(c.Action.Server) + "__" + flatName(c.Action.Tool)
	case isCommand:
		v.name, v.aliases, v.field = "Bash", []string{c.Action.Tool}, field
	case c.Action.Tool == "apply_patch":
		v.aliases, v.field = []string{"Edit", "Write"}, "input"
	}
	if json.Unmarshal(c.Arguments, &v.sent) != nil {
		v.sent = nil // no arguments at all; others were refused before
	}
	for k, raw := range v.sent {
		v.input[k] = raw
	}
	if v.field != "" {
		delete(v.input, v.field)
		v.input["command"] = commandText(v.sent[v.field])
	}
	return v
}

func (v view) names() []string { return append([]string{v.name}, v.aliases...) }

// withDescription returns v with what a person would be told.
func (v view) withDescription(q gate.Question) view {
	v.input["description"] = cmp.Or(q.Action.Justification, q.Reason)
	return v
}

// withResponse returns v with what the run gave.
func (v view) withResponse(c gate.Call, out gate.Outcome) view {
	v.response = response(c, out)
	return v
}

// flatName is s as part of a flat name.
func flatName(s string) string { return notInWord.ReplaceAllString(s, "_") }

var notInWord = lazyregexp.New(`[^A-Za-z0-9_]`)

// rewrite returns our arguments for what a hook wants in their place. A
// command keeps the arguments beside it that the hook does not name; any
// other call is replaced whole.
func (v view) rewrite(updated json.RawMessage) (json.RawMessage, error) {
	var want map[string]json.RawMessage
	if err := json.Unmarshal(updated, &want); err != nil || want == nil {
		return nil, errors.New("updatedInput is not an object")
	}
	if v.field == "" {
		return updated, nil
	}
	text, given := want["command"]
	var command string
	if given && json.Unmarshal(text, &command) != nil {
		return nil, errors.New("updatedInput.command is not a string")
	}
	args := map[string]json.RawMessage{}
	for k, raw := range v.sent {
		args[k] = raw
	}
	for k, raw := range want {
		args[k] = raw
	}
	if v.field != "command" {
		delete(args, "command")
	}
	// A command that stays as it is stays in its own form, which may be a list.
	args[v.field] = v.sent[v.field]
	if given && command != v.input["command"] {
		args[v.field] = text
	}
	return json.Marshal(args)
}

// commandText is the command as a person would type it: a script as it is, a
// list as words, and a list that hands a script to a shell as that script.
func commandText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var argv []string
	if json.Unmarshal(raw, &argv) != nil {
		return string(raw)
	}
	if len(argv) == 3 && shellName.MatchString(argv[0]) && (argv[1] == "-c" || argv[1] == "-lc") {
		return argv[2]
	}
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = a
		if !unquoted.MatchString(a) {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

var (
	shellName = lazyregexp.New(`^(.*/)?(ba|z|da|k)?sh$`)
	unquoted     = lazyregexp.New(`^[A-Za-z0-9_@%+=:,./-]+$`)
)

// response is a result as hooks see it: the text of a built-in tool, and the
// whole result of another server's.
func response(c gate.Call, out gate.Outcome) any {
	if c.Action.Server != "" && json.Valid(out.Result) {
		return out.Result
	}
	var res struct {
		Content []struct{ Type, Text string }
	}
	if json.Unmarshal(out.Result, &res) != nil {
		return ""
	}
	var texts []string
	for _, c := range res.Content {
		if c.Type == "text" {
			texts = append(texts, c.Text)
		} else {
			texts = append(texts, fmt.Sprintf("[%s]", c.Type))
		}
	}
	return strings.Join(texts, "\n")
}
