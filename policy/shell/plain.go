package shell

import (
	"slices"
	"strconv"
	"strings"
)

// What a parser finds in a script is evidence, not proof: shells differ, and bash
// evaluates text that does not look like code. An allow therefore lifts the
// sandbox only from scripts in the plain subset, which leaves little room for
// misreading:
//
//	script    = { newline } command { separator command } [ ";" ] { newline } .
//	separator = ( "&&" | "||" | "|" | ";" ) { newline } | newline { newline } .
//	command   = name { word } .
//	name      = word, with no "=", that is not in shellWords .
//	word      = piece { piece } .
//	piece     = char | "=" | "~" | "'" { quoted | '"' | "!" } "'" | '"' { quoted | "'" } '"' .
//	char      = letter | digit | "_" | "-" | "." | "/" | ":" | "," | "+" | "@" | "%" .
//	quoted    = tab | newline | any printable ASCII but "$" "`" "\" "!" and quotes .
//
// Spaces and tabs separate words. No word begins with "=", and "~" follows only a
// letter or digit. Words are literal: "$", "`" and "\" mean nothing in single quotes,
// but some programs read them once more; shells may expand "!" in double quotes.
// The keywords and builtins in shellWords evaluate their arguments or change what follows.
//
// Any other script that an allow covers runs inside the sandbox, unasked.

// whyNotPlain returns "" if a script is in the plain subset, and the parser finds exactly
// the commands in it. Otherwise it returns what is not plain.
func whyNotPlain(src string) string {
	commands, why := splitPlain(src)
	if why != "" {
		return why
	}
	var parsed [][]string
	for _, c := range Find([]string{"bash", "-c", src}).Commands {
		if c.Path == "bash -c" && !c.Derived {
			parsed = append(parsed, c.Argv)
		}
	}
	if !slices.EqualFunc(commands, parsed, slices.Equal) {
		return "two parsers split the script differently"
	}
	return ""
}

// splitPlain splits a script in the plain subset into its commands.
func splitPlain(src string) (commands [][]string, why string) {
	var words []string
	open := "" // the operator after which a command must follow
	for src != "" {
		op, rest := cutOperator(src)
		switch {
		case op != "":
			if len(words) == 0 && op != "\n" {
				return nil, "no command precedes " + op
			}
			if len(words) > 0 {
				commands = append(commands, words)
				words, open = nil, strings.Trim(op, ";\n")
			}
		case src[0] == ' ' || src[0] == '\t':
			rest = src[1:]
		default:
			var w string
			if w, rest, why = cutPlainWord(src); why == "" && len(words) == 0 {
				why = whyNoName(w)
			}
			if why != "" {
				return nil, why
			}
			words = append(words, w)
		}
		src = rest
	}
	switch {
	case len(words) > 0:
		return append(commands, words), ""
	case open != "":
		return nil, "no command follows " + open
	case len(commands) == 0:
		return nil, "the script has no command"
	}
	return commands, ""
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
func cutPlainWord(src string) (w, rest, why string) {
	var b strings.Builder
	i := 0
	for i < len(src) && !strings.ContainsRune(" \t\n;|", rune(src[i])) && !strings.HasPrefix(src[i:], "&&") {
		c := src[i]
		switch {
		case c == '\'' || c == '"':
			end := strings.IndexByte(src[i+1:], c)
			if end < 0 {
				return "", "", "a quote is not closed"
			}
			text := src[i+1 : i+1+end]
			if bad := strings.IndexFunc(text, func(r rune) bool { return !plainQuoted(r, c) }); bad >= 0 {
				return "", "", firstRune(text[bad:]) + " is in quotes"
			}
			b.WriteString(text)
			i += end + 1
		case isAlphanumeric(c), strings.IndexByte("_-./:,+@%", c) >= 0,
			c == '=' && i > 0, c == '~' && i > 0 && isAlphanumeric(src[i-1]):
			b.WriteByte(c)
		default:
			return "", "", firstRune(src[i:]) + " is not in quotes"
		}
		i++
	}
	return b.String(), src[i:], ""
}

// plainQuoted reports whether a rune is plain between two quotes.
func plainQuoted(r rune, quote byte) bool {
	printable := ' ' <= r && r <= '~' || r == '\t' || r == '\n'
	return printable && !strings.ContainsRune("$`\\", r) && (r != '!' || quote != '"')
}

// firstRune returns the first rune of a text, quoted.
func firstRune(text string) string {
	for _, r := range text {
		return strconv.QuoteRuneToASCII(r)
	}
	return ""
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// whyNoName returns "" if a command of that name is an ordinary program or a
// builtin that acts like one.
func whyNoName(name string) string {
	switch {
	case name == "":
		return "a command has no name"
	case strings.Contains(name, "="):
		return name + " is an assignment"
	case slices.Contains(shellWords, name):
		return name + " is a keyword, or a builtin with effects of its own"
	}
	return ""
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

// NotPlain returns "" if all scripts of the call that run on this machine are in
// the plain subset, and no shell is started other than with -c and a script.
// Otherwise it returns what is not plain.
func (f Found) NotPlain() string {
	sends := make(map[int]bool) // commands to elsewhere
	for _, c := range f.Commands {
		sends[c.Parent-1] = sends[c.Parent-1] || c.Elsewhere
	}
	for i, c := range f.Commands {
		if c.Elsewhere || sends[i] {
			continue
		}
		if why := otherShell(c.Argv); why != "" {
			return why
		}
	}
	for _, script := range f.scripts {
		if why := whyNotPlain(script); why != "" {
			return "the script is not plain: " + why
		}
	}
	return ""
}

// otherShell returns why argv is a shell, or ends in one with a script,
// in any form other than -c with a plain script; "" if it is not.
func otherShell(argv []string) string {
	for i, program := range argv {
		if !isShell(program) || i > 0 && (i+1 == len(argv) || !takesScript(argv[i+1])) {
			continue
		}
		if !RunsScript(argv[i:]) {
			return program + " has other arguments than -c or -lc and a script"
		}
		if why := whyNotPlain(argv[i+2]); why != "" {
			return "the script is not plain: " + why
		}
	}
	return ""
}

// takesScript reports whether an option can be -c, -lc, -Command or /c.
func takesScript(option string) bool {
	return strings.HasPrefix(option, "-") && strings.ContainsAny(option, "cC") || option == "/c"
}
