package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// Keys returns what an approval of a for the session covers: a command by argv,
// folder and mode, a change by its kind, path and mode, a downstream tool by server
// and name, as in Codex. [Grants] says the same in words.
func Keys(a Action, f Profile) []string {
	switch {
	case a.Server != "" && a.Unasked:
		return []string{Key("tool", a.Server, a.As)} // covered by an approval of As
	case a.Server != "":
		return []string{Key("tool", a.Server, a.Tool)}
	case a.Session != "":
		return []string{Key("session", a.Session, a.Preview, a.Arguments)}
	case len(a.Command) > 0:
		return []string{Key("command", a.Command, a.Dir, f.Mode, a.Additional)}
	case len(a.Writes) > 0:
		var ks []string
		for _, w := range a.Writes {
			ks = append(ks, Key("write", cmp.Or(a.Changes[w], a.Tool), w, f.Mode))
		}
		return ks
	}
	return []string{Key("call", a.Tool, a.Reads, f.Mode)}
}

// Key identifies one thing of a kind that an approval covers.
func Key(kind string, parts ...any) string {
	b, _ := json.Marshal(parts)
	return kind + string(b)
}

// Grants returns in words what an approval of a for the session covers besides this
// call, as in "until the session ends, …". See [Keys].
func Grants(a Action, f Profile) string {
	where := "in the sandbox"
	if f.Mode == DangerFullAccess {
		where = "outside the sandbox"
	}
	switch {
	case a.Request:
		return fmt.Sprintf("all requests %s to the server %s, with any parameters, and completing these",
			a.Tool, a.Server)
	case a.Server != "":
		return fmt.Sprintf("all calls of the tool %s of the server %s, with any arguments", a.Tool, a.Server)
	case a.Session != "":
		return "the same input to the same session"
	case len(a.Command) > 0:
		return "exactly this command in this folder, " + where + ", while the files that it runs stay as they are"
	case len(a.Writes) > 0:
		return fmt.Sprintf("all calls of %s that do no more than this, with any content, %s: %s", a.Tool, where,
			strings.Join(a.ChangeLines(), "; "))
	case len(a.Reads) > 0:
		return fmt.Sprintf("all calls of %s, with any other arguments, %s, that read %s", a.Tool, where,
			strings.Join(a.Reads, ", "))
	}
	return fmt.Sprintf("all calls of %s, %s", a.Tool, where)
}

// MaxChanges is how many paths of [Action.Writes] a person is shown. An approval of
// a call with more covers that call only.
const MaxChanges = 20

// ChangeLines returns what the call does to each of its Writes, such as "delete /x".
func (a Action) ChangeLines() []string {
	var list []string
	for _, w := range a.Writes {
		list = append(list, strings.TrimSpace(a.Changes[w]+" "+w))
	}
	return list
}
