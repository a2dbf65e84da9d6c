package shell

import (
	"slices"
	"strings"
)

// RunsScript reports whether argv is SHELL -c SCRIPT or SHELL -lc SCRIPT, as a
// shell tool starts it.
func RunsScript(argv []string) bool {
	if len(argv) != 3 {
		return false
	}
	_, ok := shells[ProgramName(argv[0])]
	return ok && (argv[1] == "-c" || argv[1] == "-lc")
}

// Allowable reports whether an allow rule may cover the command: all of its
// arguments are known, except for file name patterns, and the variables set for
// it are harmless.
func (c Command) Allowable() bool {
	return harmlessAssigns(c.Assigns) && !slices.ContainsFunc(c.Holes, func(h Hole) bool { return !h.Glob })
}

// harmlessAssigns reports whether the variables set for a command change nothing
// but its output.
func harmlessAssigns(assigns []string) bool {
	return !slices.ContainsFunc(assigns, func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		return !slices.Contains(harmlessVars, name) && !strings.HasPrefix(name, "LC_")
	})
}

var harmlessVars = []string{"LANG", "LANGUAGE", "TZ", "TERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR",
	"CLICOLOR_FORCE", "CI", "DEBIAN_FRONTEND", "RUST_BACKTRACE", "RUST_LOG", "NODE_ENV", "PYTHONUNBUFFERED",
	"PYTHONDONTWRITEBYTECODE"}

// TooBroad reports whether a rule for the prefix would permit arbitrary commands.
func TooBroad(prefix []string) bool {
	name := ProgramName(prefix[0])
	if len(prefix) == 1 {
		if name == "git" || subcommands()[name] != nil {
			return true
		}
	}
	_, isShell := shells[name]
	in := interpreters()[languageName(name)]
	if isShell || in.code != "" || in.long != "" || in.stdin {
		return len(prefix) < 2 || strings.HasPrefix(prefix[len(prefix)-1], "-")
	}
	if g, ok := wrappers()[name]; ok {
		o := g.parse(wordsOf(prefix[1:]))
		for g.assigns && len(o.rest) > 0 && isAssign(o.rest[0]) {
			o.rest = o.rest[1:]
		}
		if len(o.rest) <= g.operands {
			return true
		}
		return TooBroad(textsOf(o.rest[g.operands:]))
	}
	switch name {
	case "find", "fd", "fdfind", "parallel", "eval", "source", ".", "awk", "gawk", "xargs":
		return len(prefix) < 2
	}
	return false
}

func wordsOf(argv []string) []word {
	out := make([]word, len(argv))
	for i, a := range argv {
		out[i] = word{text: a}
	}
	return out
}

func textsOf(words []word) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w.text
	}
	return out
}

// IsSystemProgram reports whether path is a program in a folder that only an
// administrator can change, such as /usr/bin.
func IsSystemProgram(path string) bool {
	return slices.ContainsFunc(systemFolders, func(dir string) bool {
		rest, ok := strings.CutPrefix(path, dir)
		return ok && rest != "" && !strings.Contains(rest, "/")
	})
}

// systemFolders are the folders of programs that only an administrator installs.
var systemFolders = []string{"/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/usr/local/sbin/",
	"/opt/homebrew/bin/", "/opt/local/bin/", "/snap/bin/", "/run/current-system/sw/bin/"}
