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
	if onlyRead[name] {
		return true
	}
	check := readOnlyIf[name]
	return check != nil && len(c.Holes) == 0 && check(c.Argv[1:])
}

// onlyRead are the commands that only read, whatever their arguments.
var onlyRead = map[string]bool{
	":": true, "[": true, "basename": true, "cat": true, "cd": true, "cmp": true, "comm": true, "cut": true,
	"df": true, "dirname": true, "du": true, "echo": true, "egrep": true, "expr": true, "false": true,
	"fgrep": true, "fold": true, "grep": true, "head": true, "id": true, "join": true, "ls": true, "md5sum": true,
	"nl": true, "nproc": true, "numfmt": true, "od": true, "paste": true, "pwd": true, "readlink": true,
	"realpath": true, "rev": true, "seq": true, "sha1sum": true, "sha256sum": true, "sha512sum": true, "stat": true,
	"strings": true, "tac": true, "tail": true, "test": true, "tr": true, "true": true, "type": true, "uname": true,
	"wc": true, "which": true, "whoami": true,
}

// readOnlyIf are the commands that only read with some arguments.
var readOnlyIf = map[string]func(args []string) bool{
	"base64": func(args []string) bool {
		return !hasFlag(args, "o", "output")
	},
	"command": func(args []string) bool {
		return len(args) > 1 && (args[0] == "-v" || args[0] == "-V")
	},
	"date": func(args []string) bool {
		return !hasFlag(args, "s", "set") &&
			!slices.ContainsFunc(args, func(a string) bool { return a != "" && strings.Trim(a, "0123456789.") == "" })
	},
	"diff": func(args []string) bool {
		return !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--output") })
	},
	"find":   findReads,
	"printf": func(args []string) bool { return len(args) > 0 && !strings.HasPrefix(args[0], "-v") },
	"rg":     rgReads,
	"sed":    sedReads,
	"sort": func(args []string) bool {
		return !hasFlag(args, "o", "output") && !hasFlag(args, "T", "temporary-directory") &&
			!slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--c") })
	},
	"uniq": func(args []string) bool {
		// A second operand is the file that uniq writes.
		operands := 0
		for _, a := range args {
			if !strings.HasPrefix(a, "-") || a == "-" {
				operands++
			}
		}
		return operands < 2
	},
}

func findReads(args []string) bool {
	return !slices.ContainsFunc(args, func(a string) bool {
		switch a {
		case "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf":
			return true
		}
		return false
	})
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

// sedReads accepts sed -n N,Mp with at most one file.
func sedReads(args []string) bool {
	return len(args) >= 2 && len(args) <= 3 && args[0] == "-n" && sedLines.MatchString(args[1]) &&
		(len(args) < 3 || !strings.HasPrefix(args[2], "-"))
}
