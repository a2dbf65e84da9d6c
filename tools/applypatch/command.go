package applypatch

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"toolgate/policy"
)

// FromCommand returns the arguments of apply_patch for a command that only applies a
// patch: apply_patch with a patch as its argument, or a script that is, as a whole, one
// heredoc for apply_patch or git apply. "cd DIR &&" may precede apply_patch, as in Codex.
// Anything else is left to the shell.
func FromCommand(a policy.Action) (args json.RawMessage, ok bool) {
	var h script
	switch argv := a.Command; {
	case len(argv) == 2 && (argv[0] == "apply_patch" || argv[0] == "applypatch"):
		h = script{program: argv[0], body: strings.Split(strings.TrimSuffix(argv[1], "\n"), "\n")}
	case len(argv) == 3 && shells[argv[0]] && (argv[1] == "-c" || argv[1] == "-lc"):
		if h, ok = parseHeredoc(argv[2]); !ok || !h.applies(a.Dir) {
			return nil, false
		}
	default:
		return nil, false
	}
	text := strings.Join(h.body, "\n") + "\n"
	dir := path.Join(a.Dir, h.dir)
	if path.IsAbs(h.dir) {
		dir = h.dir
	}
	if dir != "" {
		const tag = "END_OF_THE_PATCH"
		if strings.Contains(dir, "'") || slices.Contains(h.body, tag) {
			return nil, false
		}
		text = "cd '" + dir + "' && apply_patch <<'" + tag + "'\n" + text + tag + "\n"
	}
	args, err := json.Marshal(input{Input: text})
	return args, err == nil
}

// applies reports whether the program of h does with its body what apply_patch does. A
// shell would expand a body that is not quoted; models mean it as it is for apply_patch
// only. In a folder of a repository, git apply takes the paths from its top.
func (h *script) applies(dir string) bool {
	switch {
	case h.piped || h.open || !h.checked:
		return false
	case strings.HasPrefix(h.program, "git apply"):
		// What apply_patch cannot do, such as links, git may.
		text := strings.Join(h.body, "\n") + "\n"
		_, err := Parse(text)
		return err == nil && dir == "" && h.dir == "" && (h.quoted || !strings.ContainsAny(text, "$`\\"))
	}
	return h.program == "apply_patch" || h.program == "applypatch"
}
