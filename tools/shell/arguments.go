package shell

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"toolgate/internal/lazyregexp"
	"toolgate/internal/rawjson"
	"toolgate/policy"
	"toolgate/tools"
)

// A commandArgument is a program with its arguments, or a script if the model sends
// a string.
type commandArgument struct {
	argv   []string
	script string // set instead of argv
	login  bool   // the script's shell reads the user's profile
}

func (commandArgument) EditSchema(s *jsonschema.Schema) {
	*s = jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}, Description: s.Description}
}

func (c *commandArgument) UnmarshalJSON(b []byte) error {
	*c = commandArgument{} // a repeated key replaces the value
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &c.script)
	}
	if err := json.Unmarshal(b, &c.argv); err != nil {
		return errors.New(`argument "command" must be an array of strings, such as ["ls", "-l"]`)
	}
	return nil
}

// describe returns the argv for the policy. A script counts as a bash script, even
// if sh will run it.
func (c commandArgument) describe() ([]string, error) {
	if c.script != "" {
		return script("bash", c.login, c.script)
	}
	if len(c.argv) == 0 || c.argv[0] == "" {
		return nil, errors.New(`"command" is empty; give a program and its arguments, such as ["ls", "-l"]`)
	}
	return c.argv, noNUL(c.argv)
}

func (c commandArgument) text() string {
	if c.script != "" {
		return c.script
	}
	return strings.Join(c.argv, " ")
}

// script returns the argv that runs text in the named shell.
func script(shell string, login bool, text string) ([]string, error) {
	flag := "-c"
	switch {
	case shell == "cmd":
		flag = "/c"
	case shell == "powershell" || shell == "pwsh":
		flag = "-Command"
	case login:
		flag = "-lc"
	}
	argv := []string{shell, flag, text}
	return argv, noNUL(argv)
}

// shells are the shells that a call may ask for.
var shells = []string{"bash", "zsh", "sh", "pwsh", "powershell", "cmd"}

// shellName returns the name of the shell that a call asks for by name or path, by
// default bash.
func shellName(asked string) (string, error) {
	if asked == "" {
		return "bash", nil
	}
	name := strings.ToLower(asked[strings.LastIndexAny(asked, `/\\`)+1:])
	name = strings.TrimSuffix(name, ".exe")
	if !slices.Contains(shells, name) {
		return "", fmt.Errorf("shell %q is none of %s; leave it out for bash", asked, strings.Join(shells, ", "))
	}
	return name, nil
}

func noNUL(argv []string) error {
	if slices.ContainsFunc(argv, func(a string) bool { return strings.Contains(a, "\x00") }) {
		return errors.New("the command holds a NUL character, which no program can be given; " +
			"write it as \\0 to a program that knows escapes")
	}
	return nil
}

// A permissions argument is one of [policy.Permissions].
type permissions policy.Permissions

func (permissions) EditSchema(s *jsonschema.Schema) {
	s.Enum = []any{string(policy.UseDefault), string(policy.WithAdditional), string(policy.RequireEscalated)}
}

// additional is Codex's additional_permissions: what a call needs in addition to
// what the sandbox allows.
type additional struct {
	Network struct {
		Enabled bool `json:"enabled,omitempty"`
	} `json:"network,omitzero"`
	FileSystem struct {
		Read  []string `json:"read,omitempty"`
		Write []string `json:"write,omitempty"`
	} `json:"file_system,omitzero"`
}

// UnmarshalJSON rejects unknown names: a call must not silently get less than it
// asks for.
func (a *additional) UnmarshalJSON(b []byte) error {
	type plain additional
	*a = additional{}
	if err := rawjson.UnmarshalKnown(b, (*plain)(a)); err != nil {
		return fmt.Errorf("additional_permissions: %w; it is "+
			`{"network": {"enabled": true}, "file_system": {"read": [...], "write": [...]}}`, err)
	}
	return nil
}

func (a *additional) policy() *policy.Additional {
	if a == nil || !a.Network.Enabled && len(a.FileSystem.Read) == 0 && len(a.FileSystem.Write) == 0 {
		return nil
	}
	return &policy.Additional{Network: a.Network.Enabled, Read: a.FileSystem.Read, Write: a.FileSystem.Write}
}

// escalation is how a call asks for more than the profile in force.
type escalation struct {
	SandboxPermissions permissions `json:"sandbox_permissions,omitempty" jsonschema:"require_escalated: outside the sandbox, after asking the user"`
	Additional         *additional `json:"additional_permissions,omitempty"`
	Justification      string      `json:"justification,omitempty" jsonschema:"tells the user why"`
	PrefixRule         []string    `json:"prefix_rule,omitempty" jsonschema:"start of the command to allow for good: [\"git\", \"pull\"]"`
}

// action returns the action of running argv in dir.
func (e escalation) action(argv []string, dir string) (policy.Action, error) {
	p := policy.Permissions(e.SandboxPermissions)
	switch {
	case p != "" && p != policy.UseDefault && p != policy.RequireEscalated && p != policy.WithAdditional:
		return policy.Action{}, fmt.Errorf("unknown sandbox_permissions %q; "+
			"it is use_default, with_additional_permissions or require_escalated", p)
	case p == policy.WithAdditional && e.Additional.policy() == nil:
		return policy.Action{}, errors.New("missing additional_permissions; name network or file_system paths")
	case p != policy.WithAdditional && e.Additional != nil:
		return policy.Action{}, errors.New(
			`additional_permissions needs sandbox_permissions "with_additional_permissions"`)
	case p == "" && e.Justification != "":
		return policy.Action{}, errors.New("justification needs sandbox_permissions; leave it out, " +
			"or give the permissions that it justifies")
	}
	a := policy.Action{Command: argv, Dir: dir, Permissions: p, Justification: e.Justification}
	a.Additional = e.Additional.policy()
	if p == policy.RequireEscalated {
		a.PrefixRule = e.PrefixRule
	}
	return a, nil
}

// publishes returns def without the arguments by which a call requests permissions
// that are withheld, and those that few calls need: all are accepted. As in Codex by
// default, additional permissions are among the latter, unless a call cannot escalate.
func (o Options) publishes(def tools.Def) tools.Def {
	escalates := !o.withholds(policy.RequireEscalated)
	adds := !escalates && !o.withholds(policy.WithAdditional)
	def.EditSchema = func(s *jsonschema.Schema) {
		unpublish(s, "rows", "cols")
		permissions := s.Properties["sandbox_permissions"]
		permissions.Enum = slices.DeleteFunc(permissions.Enum, func(p any) bool {
			return p == string(policy.RequireEscalated) && !escalates || p == string(policy.WithAdditional) && !adds
		})
		var without []string
		if !adds {
			without = append(without, "additional_permissions")
		}
		if !escalates {
			without = append(without, "prefix_rule")
			permissions.Description = "with_additional_permissions: in the sandbox with more, after asking the user"
		}
		if !adds && !escalates {
			without = append(without, "sandbox_permissions", "justification")
		}
		unpublish(s, without...)
	}
	return def
}

// unpublish removes arguments from a schema.
func unpublish(s *jsonschema.Schema, names ...string) {
	for _, name := range names {
		delete(s.Properties, name)
	}
	gone := func(name string) bool { return slices.Contains(names, name) }
	s.PropertyOrder = slices.DeleteFunc(s.PropertyOrder, gone)
}

var errPatch = errors.New("apply_patch is a tool of its own, not a program; call it with the patch as input")

// patchMissing matches the error of a shell that did not find apply_patch.
var patchMissing = lazyregexp.New(`(?m)\bapply_?patch: (command )?not found`)

// patchLine returns a hint for a model whose script runs a program that is a tool
// here, or "".
func patchLine(p *process, text string) string {
	if p.code == 0 || !patchMissing.MatchString(text) {
		return ""
	}
	return errPatch.Error() + "\n"
}
