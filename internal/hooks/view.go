package hooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"toolgate/internal/gate"
	"toolgate/internal/lazyregexp"
	"toolgate/policy"
)

// A view is a call as presented to hooks: with Codex's tool names, and a command or
// patch as one string, "command".
type view struct {
	id       string
	caller   string
	names    []string // of the tool; matchers may use all of them
	field    string   // the argument presented as "command", "" for none
	input    map[string]any
	sent     map[string]json.RawMessage // the original arguments
	response any
}

// commandFields maps tools that run a command to the argument that holds it.
var commandFields = map[string]string{
	"shell":          "command",
	"shell_command":  "command",
	"local_shell":    "command",
	"container.exec": "command",
	"exec_command":   "cmd",
}

func viewOf(c gate.Call) view {
	v := view{id: c.ID, caller: c.Caller, names: []string{c.Action.Tool}, input: map[string]any{}}
	switch field, isCommand := commandFields[c.Action.Tool]; {
	case c.Action.Server != "":
		v.names[0] = policy.ToolPrefix(c.Action.Server) + policy.PlainName(c.Action.Tool)
	case isCommand:
		v.names, v.field = []string{"Bash", c.Action.Tool}, field
	case c.Action.Tool == "apply_patch":
		v.names, v.field = []string{"apply_patch", "Edit", "Write"}, "input"
	case c.Action.Tool == "edit_file":
		// A hook that matches apply_patch is about edits, whatever their form.
		v.names = []string{"edit_file", "Edit", "Write", "apply_patch"}
	}
	if json.Unmarshal(c.Arguments, &v.sent) != nil {
		v.sent = nil // no arguments; invalid ones were rejected before
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

// rewrite converts a hook's updatedInput to arguments of the tool. For a command,
// arguments that the hook does not mention are kept; for other calls all arguments are
// replaced.
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
	maps.Copy(args, v.sent)
	maps.Copy(args, want)
	if v.field != "command" {
		delete(args, "command")
	}
	// An unchanged command keeps its original form, which may be a list.
	args[v.field] = v.sent[v.field]
	if given && command != v.input["command"] {
		args[v.field] = text
	}
	return json.Marshal(args)
}

// commandText returns the command as a person would type it: a script unchanged, a list
// as quoted words, and a list that passes a script to a shell as that script.
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
	unquoted  = lazyregexp.New(`^[A-Za-z0-9_@%+=:,./-]+$`)
)

// response returns a result as presented to hooks: the text of a built-in tool, or the
// whole result of a downstream server.
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
