package shell

import (
	"slices"
	"strings"
)

// What a parser finds in a script is evidence, not proof: shells differ, and bash
// evaluates text that does not look like code. An allow therefore lifts the
// sandbox only from scripts in the plain subset, which leaves little room for
// misreading:
//
//   - commands joined by &&, ||, ;, | and newlines;
//   - their words are ASCII: letters, digits and _ - . / : , + @ %, and inside
//     a word = and, behind a letter or digit, ~; the first word has no =;
//   - single quotes hold anything printable, tabs and newlines, but no $, ` or
//     \: there they mean nothing, but some programs read them once more;
//   - double quotes hold the same without !, which interactive shells expand;
//   - no command is a keyword, nor a builtin that evaluates its arguments or
//     changes what follows.
//
// Any other script that an allow covers runs inside the sandbox, unasked.

// isPlain reports whether a script is in the plain subset, and the parser finds exactly
// the commands in it.
func isPlain(src string) bool {
	commands, ok := splitPlain(src)
	if !ok {
		return false
	}
	var parsed [][]string
	for _, c := range Find([]string{"bash", "-c", src}).Commands {
		if c.Path == "bash -c" && !c.Derived {
			parsed = append(parsed, c.Argv)
		}
	}
	return slices.EqualFunc(commands, parsed, slices.Equal)
}

// splitPlain splits a script in the plain subset into its commands.
func splitPlain(src string) (commands [][]string, ok bool) {
	var words []string
	joined := false // a command must follow
	for src != "" {
		op, rest := cutOperator(src)
		switch {
		case op != "":
			if len(words) == 0 && op != "\n" {
				return nil, false
			}
			if len(words) > 0 {
				commands = append(commands, words)
				words, joined = nil, op != "\n" && op != ";"
			}
		case src[0] == ' ' || src[0] == '\t':
			rest = src[1:]
		default:
			var w string
			if w, rest, ok = cutPlainWord(src); !ok || len(words) == 0 && !plainName(w) {
				return nil, false
			}
			words = append(words, w)
		}
		src = rest
	}
	if len(words) > 0 {
		return append(commands, words), true
	}
	return commands, len(commands) > 0 && !joined
}

// cutOperator cuts an operator between commands off src.
func cutOperator(src string) (op, rest string) {
	for _, op := range []string{"&&", "||", "|", ";", "\n"} {
		if rest, ok := strings.CutPrefix(src, op); ok {
			return op, rest
		}
	}
	return "", src
}

// cutPlainWord cuts a word of the plain subset off src.
func cutPlainWord(src string) (w, rest string, ok bool) {
	var b strings.Builder
	i := 0
	for i < len(src) && !strings.ContainsRune(" \t\n;&|", rune(src[i])) {
		c := src[i]
		switch {
		case c == '\'' || c == '"':
			end := strings.IndexByte(src[i+1:], c)
			if end < 0 || !plainQuoted(src[i+1:i+1+end], c) {
				return "", "", false
			}
			b.WriteString(src[i+1 : i+1+end])
			i += end + 1
		case isAlphanumeric(c), strings.IndexByte("_-./:,+@%", c) >= 0,
			c == '=' && i > 0, c == '~' && i > 0 && isAlphanumeric(src[i-1]):
			b.WriteByte(c)
		default:
			return "", "", false
		}
		i++
	}
	return b.String(), src[i:], i > 0
}

func plainQuoted(text string, quote byte) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r > '~' || r < ' ' && r != '\t' && r != '\n' || strings.ContainsRune("$`\\", r) ||
			r == '!' && quote == '"'
	})
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// plainName reports whether a command of that name is an ordinary program or a
// builtin that acts like one.
func plainName(name string) bool {
	return name != "" && !strings.Contains(name, "=") && !slices.Contains(shellWords, name)
}

// shellWords are the keywords of sh, bash, ksh and zsh, and their builtins that
// evaluate an argument, set a variable or change how what follows is read.
var shellWords = strings.Fields(`
	if then else elif fi for in while until do done case esac select function time coproc repeat foreach end
	always namespace [[ ]] { } ! . source eval exec command builtin trap alias unalias hash enable disable
	set unset setopt unsetopt shopt emulate export readonly declare typeset local integer float nameref enum
	let read readarray mapfile getopts print printf test [ shift return break continue fc bind bindkey
	complete compgen compopt compctl ulimit limit unlimit umask wait - noglob nocorrect autoload functions
	unfunction unhash zmodload zle vared sched zcompile zparseopts zformat zregexparse zstyle zpty zsocket
	ztcp sysopen sysread syswrite private global vpath vmap hist r redirect login newgrp stat getln log
	suspend logout jobs bg fg disown
`)

// isShell reports whether programs of that name run scripts in a language of
// a shell.
func isShell(program string) bool {
	name := ProgramName(program)
	_, ok := shells[shellName(name)]
	return ok || isOtherShell(languageName(name))
}

// isOtherShell reports whether name is a shell whose language is not parsed.
func isOtherShell(name string) bool {
	return slices.Contains([]string{"fish", "csh", "tcsh", "xonsh", "elvish", "rc", "es", "nu", "pwsh", "powershell",
		"cmd", "yash", "osh", "ysh", "oil", "mrsh", "posh", "scsh", "ion", "murex"}, name)
}

// Plain reports whether all scripts of the call that run on this machine are in
// the plain subset, and no shell is started other than with -c and a script.
func (f Found) Plain() bool {
	sends := make(map[int]bool) // commands to elsewhere
	for _, c := range f.Commands {
		sends[c.Parent-1] = sends[c.Parent-1] || c.Elsewhere
	}
	for i, c := range f.Commands {
		if !c.Elsewhere && !sends[i] && startsOtherShell(c.Argv) {
			return false
		}
	}
	return !slices.ContainsFunc(f.scripts, func(script string) bool { return !isPlain(script) })
}

// startsOtherShell reports whether argv is a shell, or ends in one with a script,
// in any form other than -c with a plain script.
func startsOtherShell(argv []string) bool {
	for i, program := range argv {
		if !isShell(program) || i > 0 && (i+1 == len(argv) || !takesScript(argv[i+1])) {
			continue
		}
		if !RunsScript(argv[i:]) || !isPlain(argv[i+2]) {
			return true
		}
	}
	return false
}

// takesScript reports whether an option can be -c, -lc, -Command or /c.
func takesScript(option string) bool {
	return strings.HasPrefix(option, "-") && strings.ContainsAny(option, "cC") || option == "/c"
}
