package shell

import (
	"slices"
	"strings"

	"toolgate/internal/lazyregexp"
)

// ReadOnly reports whether the command is on the list of commands that only read
// and start nothing else, and nothing is redirected to a file. Arguments must be
// known where they matter.
//
// The list is the one that Codex lets through under the approval policy
// untrusted, without its gaps, and a few similar commands.
func (c Command) ReadOnly() bool {
	if len(c.Argv) == 0 || len(c.Writes) > 0 || !harmlessAssigns(c.Assigns) {
		return false
	}
	if _, unknown := c.Hole(0); unknown {
		return false
	}
	name := c.Argv[0]
	if strings.Contains(name, "/") {
		if !IsSystemProgram(name) {
			return false // ./ls is not ls
		}
		name = ProgramName(name)
	}
	if slices.Contains(onlyRead, name) {
		return true
	}
	check := readOnlyIf[name]
	return check != nil && len(c.Holes) == 0 && check(c.Argv[1:])
}

// onlyRead are the commands that only read, whatever their arguments.
var onlyRead = strings.Fields(`
	: [ basename cat cd cmp comm cut df dirname du echo egrep expr false fgrep fold grep head id join ls md5sum nl
	nproc numfmt od paste pwd readlink realpath rev seq sha1sum sha256sum sha512sum stat strings tac tail test tr
	true type uname wc which whoami
`)

// readOnlyIf are the commands that only read with some arguments.
var readOnlyIf = map[string]condition{
	"base64": not(flag("o", "output")),
	"command": func(args []string) bool {
		return len(args) > 1 && (args[0] == "-v" || args[0] == "-V")
	},
	"date": func(args []string) bool {
		return !flag("s", "set")(args) &&
			!slices.ContainsFunc(args, func(a string) bool { return a != "" && strings.Trim(a, "0123456789.") == "" })
	},
	"diff":   not(anyPrefix("--output")),
	"find":   not(anyOf("-exec -execdir -ok -okdir -delete -fls -fprint -fprint0 -fprintf")),
	"printf": func(args []string) bool { return len(args) > 0 && !strings.HasPrefix(args[0], "-v") },
	"rg":     rgReads,
	"sed": func(args []string) bool { // sed -n N,Mp with at most one file
		return len(args) >= 2 && len(args) <= 3 && args[0] == "-n" && sedLines.MatchString(args[1]) &&
			(len(args) < 3 || !strings.HasPrefix(args[2], "-"))
	},
	"sort": all(not(flag("oT", "output temporary-directory")), not(anyPrefix("--c"))),
	"uniq": func(args []string) bool {
		// A second operand is the file that uniq writes.
		operands := slices.DeleteFunc(slices.Clone(args),
			func(a string) bool { return strings.HasPrefix(a, "-") && a != "-" })
		return len(operands) < 2
	},
}

// rgReads rejects the options by which rg starts other programs.
func rgReads(args []string) bool {
	for _, a := range args {
		switch {
		case a == "--":
			return true
		case strings.HasPrefix(a, "--pre"), strings.HasPrefix(a, "--hostname-bin"),
			strings.HasPrefix(a, "--search-zip"):
			return strings.HasPrefix(a, "--pretty")
		case len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.Contains(a, "z"):
			return false
		}
	}
	return true
}

var sedLines = lazyregexp.New(`^([0-9]+,)?[0-9]+p$`)
