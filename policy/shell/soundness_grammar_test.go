package shell_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

// A scriptMaker makes random scripts from a grammar that reaches all of bash.
// Most of what they start is harmless; what is not stands where it is easily
// overlooked.
type scriptMaker struct {
	*rand.Rand
	budget int      // nodes that may still be made
	after  []string // here-documents that the next newline begins
}

// randomBashScript returns the script of one seed.
func randomBashScript(seed, index uint64) string {
	m := &scriptMaker{Rand: rand.New(rand.NewPCG(seed, index))}
	m.budget = 2 + m.IntN(24)
	var s string
	if m.IntN(3) == 0 {
		s = m.almostPlain()
	} else {
		s = m.script()
	}
	for m.IntN(4) == 0 && s != "" {
		s = m.mutate(s)
	}
	return strings.ReplaceAll(s, "\x00", "")
}

func (m *scriptMaker) pick(from ...string) string { return from[m.IntN(len(from))] }

// oneOf makes one of some constructs, or a word if the budget is spent.
func (m *scriptMaker) oneOf(from ...func() string) string {
	m.budget--
	if m.budget < 0 {
		return m.pick("x", "1", "a", "ls")
	}
	return from[m.IntN(len(from))]()
}

func lit(s string) func() string { return func() string { return s } }

// script makes commands and what joins them.
func (m *scriptMaker) script() string {
	outer := m.after
	m.after = nil
	var b strings.Builder
	for {
		b.WriteString(m.command())
		if m.budget <= 0 || m.IntN(3) == 0 {
			break
		}
		b.WriteString(m.separator())
	}
	if len(m.after) > 0 {
		b.WriteString(m.newline())
	}
	m.after = outer
	return b.String()
}

func (m *scriptMaker) newline() string {
	s := "\n" + strings.Join(m.after, "")
	m.after = nil
	return s
}

func (m *scriptMaker) separator() string {
	switch m.IntN(12) {
	case 0, 1:
		return m.pick(" && ", " || ", "&&", "||")
	case 2:
		return m.pick(" | ", "|", " |& ")
	case 3:
		return m.pick(" & ", "&")
	case 4, 5:
		return " " + m.comment() + m.newline()
	case 6:
		return m.pick(";", " ; ", ";;")
	case 7:
		return m.pick("\r", "\v", "\f", "\u00a0", "\x01", "\x7f", "\xff", "\t") + m.newline()
	case 8:
		return "; " + m.pick("\\", "\r") + m.newline()
	case 9:
		return "; "
	}
	return m.newline()
}

func (m *scriptMaker) comment() string {
	return m.pick("#", "# ", "#!", "x#", "'#", "\\#", "$#", "${#") +
		m.pick("", "note", "'", `"`, "`", "$(", "it's", "<<E", "((", "\r", "a \\", `"'`) + m.pick("", "", `\`, `\\`, `\ `)
}

// hidden makes a command that no allow speaks of.
func (m *scriptMaker) hidden() string {
	return m.pick("rm x", "touch x", "git push", "curl u", "touch /tmp/t", "rm", "/bin/rm x", "r'm' x", "r\\m x", "echo x > f", ": >> f")
}

func (m *scriptMaker) allowed() string {
	return m.pick("ls", "ls", "cat", "git status", "git log", "echo", "ls -l", "cat a", "echo a b", ":", "true", "cd sub", "pwd")
}

func (m *scriptMaker) command() string {
	s := m.oneOf(m.allowed, m.simple, m.simple, m.simple, m.hidden, m.assigned, m.assigned, m.builtin, m.builtin, m.builtin,
		m.wrapped, m.wrapped, m.compound, m.compound, m.special)
	switch m.IntN(16) {
	case 0, 1:
		s += " " + m.redirect()
	case 2:
		s = m.redirect() + " " + s
	case 3:
		s = m.pick("! ", "time ", "time -p ", "command ", "builtin ", "exec ", "coproc ", "- ", "noglob ", "{ ", "\\\n", "exec -a ls ", "coproc C ") + s
	}
	return s
}

func (m *scriptMaker) simple() string {
	s := m.pick("ls", "ls", "cat", "echo", "git", "git status", "rm", "$x", "l\\\ns", "'ls'", "\\ls", `"ls"`, m.word())
	for m.IntN(3) > 0 {
		s += m.pick(" ", " ", " ", "  ", "\t", "\\\n", " \\\n ", "\r") + m.word()
	}
	return s
}

var variables = []string{
	"x", "x", "y", "a", "a", "i", "IFS", "PATH", "RANDOM", "SECONDS", "OPTIND", "LINENO", "SRANDOM", "BASHPID", "HISTCMD", "EPOCHSECONDS",
	"BASH_ENV", "ENV", "PS4", "PS1", "PROMPT_COMMAND", "HOME", "CDPATH", "GLOBIGNORE", "EXECIGNORE", "BASH_ALIASES", "BASH_CMDS", "SHELLOPTS",
	"BASHOPTS", "POSIXLY_CORRECT", "TMOUT", "COMP_WORDBREAKS", "DIRSTACK", "GROUPS", "FUNCNAME", "BASH_ARGV0", "BASH_ARGV", "BASH_COMPAT", "BASH_XTRACEFD", "LC_ALL",
	"LANG", "LANGUAGE", "HISTSIZE", "HISTFILE", "UID", "OPTARG", "REPLY", "COPROC", "MAPFILE", "LD_PRELOAD", "LD_LIBRARY_PATH", "TERM", "TZ", "COLUMNS",
	"GIT_PAGER", "PAGER", "EDITOR", "MAILCHECK", "MAIL", "MAILPATH", "TIMEFORMAT", "PIPESTATUS", "_", "FIGNORE", "CHILD_MAX", "INSIDE_EMACS", "TEXTDOMAIN",
}

func (m *scriptMaker) name() string { return m.pick(variables...) }

func (m *scriptMaker) assigned() string {
	s := m.assign()
	for m.IntN(3) == 0 {
		s += " " + m.assign()
	}
	if m.IntN(2) == 0 {
		s += " " + m.simple()
	}
	return s
}

func (m *scriptMaker) assign() string {
	switch m.IntN(8) {
	case 0:
		return m.name() + m.pick("=", "+=") + m.array()
	case 1:
		return m.name() + "[" + m.arithmetic() + "]" + m.pick("=", "+=") + m.word()
	case 2:
		return m.pick("BASH_ALIASES", "BASH_CMDS") + "[" + m.pick("ls", "cat", "x") + "]=" + m.pick("rm", "/bin/rm", m.quoted(m.hidden()))
	case 3:
		return m.pick("PATH=/w/sub", "PATH=sub:$PATH", "PATH=.", "PATH=", "PATH=:/bin", "BASH_ENV=x.sh", "LD_PRELOAD=x.so", "IFS=x", "x=rm", "x=r y=m", "x='rm x'", "a[1]=rm", "i=a")
	}
	return m.name() + m.pick("=", "=", "+=") + m.pick(m.word(), m.word(), m.value())
}

// value makes text that is dangerous only if it is evaluated.
func (m *scriptMaker) value() string {
	switch m.IntN(4) {
	case 0:
		return m.quoted(m.subscript())
	case 1:
		return m.quoted("$(" + m.hidden() + ")")
	case 2:
		return m.quoted(m.hidden())
	}
	return m.quoted(m.script())
}

func (m *scriptMaker) subscript() string {
	return m.pick("a", "x", "RANDOM", "BASH_CMDS") + "[" + m.pick("$("+m.hidden()+")", "`"+m.hidden()+"`", "0", "x", "@", "*", `\$(`+m.hidden()+")", "$x") + "]"
}

func (m *scriptMaker) array() string {
	s := "("
	for m.IntN(4) > 0 {
		s += m.pick(" ", "", "\n", "#\n") + m.pick("["+m.arithmetic()+"]="+m.word(), m.word(), m.word(), "["+m.value()+"]="+m.word()) + " "
	}
	return s + ")"
}

// quoted makes a word of a text, in one of the ways to quote.
func (m *scriptMaker) quoted(text string) string {
	switch m.IntN(6) {
	case 0, 1:
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	case 2:
		return `"` + strings.NewReplacer(`"`, `\"`, "$", `\$`, "`", "\\`", `\`, `\\`).Replace(text) + `"`
	case 3:
		return "$'" + strings.NewReplacer("'", `\'`, `\`, `\\`, "\n", `\n`, "$", `\x24`, "r", `\162`).Replace(text) + "'"
	case 4:
		var b strings.Builder
		for _, c := range []byte(text) {
			if c == '\n' {
				b.WriteString("'\n'")
				continue
			}
			b.WriteString(`\` + string(c))
		}
		return b.String()
	}
	return `"` + text + `"`
}

func (m *scriptMaker) word() string {
	s := m.oneOf(
		lit("a"), lit("b.txt"), lit("x"), lit("-l"), lit("--"), lit("1"), lit("*"), lit("r*"), lit("?"), lit("[a-z]"), lit("~"), lit("~+"), lit("x=1"), lit("=ls"), lit("!x"), lit("!!"), lit("a#b"),
		lit(`''`), lit(`""`), lit("{a,b}"), lit("{1..3}"), lit("{r,}m"), lit("é"), lit("\xff"), lit("@(a|b)"), lit("+([a-z])"), lit("%"), lit("^x^y"), lit("$"), lit("-"), lit("x[$(rm)]"),
		func() string { return `'` + m.pick("a b", "", "#", "$(rm x)", "\n", `\`, "`", `"`, "a;b", "!") + `'` },
		func() string {
			return `"` + m.pick("a b", "", "#", "$(rm x)", "\n", `\\`, `\"`, "'", "a;b", "$x", "`"+m.hidden()+"`") + `"`
		},
		func() string { return `"` + m.expansion() + m.pick("", "x", " ", m.expansion()) + `"` },
		func() string {
			return m.pick("$'", `$"`) + m.pick("a", `\x72m`, `\n`, `\u0072`, `\cA`, `\0`, `\e`) + m.pick("'", `"`)
		},
		func() string { return m.quoted(m.hidden()) },
		func() string { return m.quoted(m.script()) },
		m.value, m.subscript, m.expansion, m.expansion, m.expansion,
		func() string { return m.pick("<(", ">(") + m.script() + ")" },
		func() string { return m.pick("{", "a{") + m.word() + "," + m.word() + "}" },
	)
	if m.IntN(8) == 0 {
		return s + m.word()
	}
	return s
}

func (m *scriptMaker) expansion() string {
	return m.oneOf(
		lit("$x"), lit("${x}"), lit("$@"), lit("$*"), lit("$#"), lit("$$"), lit("$!"), lit("$?"), lit("$-"), lit("$0"), lit("$1"), lit("$_"), lit("$RANDOM"),
		func() string { return "$(" + m.script() + ")" },
		func() string { return "$( " + m.script() + "\n)" },
		func() string { return "`" + strings.NewReplacer("`", "\\`", `\`, `\\`).Replace(m.script()) + "`" },
		func() string { return "${ " + m.script() + "; }" },
		func() string { return "$((" + m.arithmetic() + "))" },
		func() string { return "$[" + m.arithmetic() + "]" },
		func() string { return "$" + m.name() },
		func() string {
			return "${" + m.pick("x", "a", "1", "@", "!x", "!a", "#x", m.name(), m.subscript()) +
				m.pick(":-", "-", ":=", "=", ":?", ":+", "+", "#", "##", "%", "%%", "/", "//", "/#", "^", "^^", ",", ",,", "@", ":") + m.word() + "}"
		},
		func() string {
			return "${" + m.name() + "@" + m.pick("P", "Q", "E", "A", "a", "K", "U", "L", "k") + "}"
		},
		func() string { return "${!" + m.pick(m.name(), "x*", "x@", "a[@]", "x", m.subscript()) + "}" },
		func() string { return "${" + m.subscript() + "}" },
		func() string { return "${x:" + m.arithmetic() + ":" + m.arithmetic() + "}" },
		func() string { return "${#" + m.subscript() + "}" },
		func() string { return "$(< " + m.word() + ")" },
		func() string { return "$(<<E\n" + m.script() + "\nE\n)" },
	)
}

func (m *scriptMaker) arithmetic() string {
	s := m.oneOf(
		lit("1"), lit("0"), lit("x"), lit("i++"), lit("x=2"), lit("a[1]"), lit("RANDOM"), lit("16#f"), lit("$x"), lit("'1'"), lit(`"x"`), lit("!1"), lit("~0"),
		m.subscript, m.value, m.expansion,
		func() string { return "(" + m.arithmetic() + ")" },
		func() string { return m.arithmetic() + "?" + m.arithmetic() + ":" + m.arithmetic() },
		func() string { return m.name() + m.pick("=", "+=", "<<=") + m.arithmetic() },
	)
	if m.IntN(4) == 0 {
		return s + m.pick("+", "-", "*", "**", "<<", ">", "<", "==", "&&", "||", ",", "^", " # ", "%") + m.arithmetic()
	}
	return s
}

func (m *scriptMaker) redirect() string {
	fd := m.pick("", "", "", "1", "2", "0", "3", "{x}", "{a["+m.arithmetic()+"]}", "&")
	switch m.IntN(10) {
	case 0, 1:
		return m.hereDocument()
	case 2, 3:
		return m.pick("", "0") + "<<<" + m.pick("", " ") + m.pick(m.word(), m.value())
	case 4:
		return fd + m.pick("< a", "<x.sh", "<>f", "<"+m.word(), "< list")
	case 5:
		return m.pick("2>/dev/null", ">/dev/null", "2>&1", "&>/dev/null", ">&2", "</dev/null", "3>&-", "2>&-", ">& 2", "3>&1-", "<&-")
	}
	return fd + m.pick(">", ">", ">>", ">|", "<>", "&>", "&>>", ">&") + m.pick(" f", "f", "/tmp/f", " a", "/dev/null", " "+m.word(), "\\\nf")
}

func (m *scriptMaker) hereDocument() string {
	tag := m.pick("E", "E", "EOF", "x")
	dash := m.pick("", "", "-")
	body := m.pick("ls\n", "$("+m.hidden()+")\n", "`"+m.hidden()+"`\n", m.hidden()+"\n", "\\$("+m.hidden()+")\n", "\t$x\n", "E \n", "\\\n"+tag+"\n", "#\\\n", "a\\\n", "", m.script()+"\n")
	if dash == "-" {
		body = "\t" + body + "\t"
	}
	m.after = append(m.after, body+tag+m.pick("\n", "\n", "\n", "\n", "\r\n", " \n", ""))
	return "<<" + dash + m.pick("", "", " ", "\\\n") + m.pick(tag, tag, "'"+tag+"'", `"`+tag+`"`, `\`+tag, tag+"''", "$'"+tag+"'")
}

func (m *scriptMaker) builtin() string {
	return m.oneOf(
		func() string {
			return m.pick("eval ", "eval -- ", "eval ls ") + m.pick(m.value(), m.word(), m.quoted(m.hidden()))
		},
		func() string {
			return "trap " + m.pick("-- ", "") + m.value() + " " + m.pick("EXIT", "0", "DEBUG", "ERR", "RETURN", "CHLD", "USR1; kill -USR1 $$", "SIGEXIT")
		},
		func() string {
			return "shopt -s expand_aliases\nalias " + m.pick("x", "ls", "cat", "a") + "=" + m.value() + m.pick("\n", "; ") + m.pick("x", "ls", "cat", "a", `\ls`)
		},
		func() string {
			return m.pick("source ", ". ") + m.pick("x.sh", "./x.sh", "/dev/stdin", m.word()) + " " + m.redirect()
		},
		func() string {
			return m.pick("declare ", "typeset ", "local ", "export ", "readonly ") + m.pick("", "-i ", "-a ", "-A ", "-n ", "-x ", "-g ", "-f ", "+i ", "-ia ", "-u ") + m.pick(m.assign(), m.assign(), m.quoted(m.subscript()+"="+m.word()), m.name())
		},
		func() string {
			return m.pick("test ", "[ ") + m.pick("-v ", "-n ", "-R ", "-t ", "! -v ", "-f ", "-o ", "") + m.pick(m.value(), m.word(), m.quoted(m.subscript())) + m.pick("", " -eq 1", " = x", " -a -v x") + m.pick(" ]", "")
		},
		func() string {
			return "printf " + m.pick("-v "+m.quoted(m.subscript())+" ", "-v x ", "-v RANDOM ", "-v BASH_CMDS[ls] ", "") + m.pick("%s", "%d", "'%q'", "%b", `'\x72m x'`, "'%(%s)T'", m.word()) + " " + m.pick(m.value(), m.word())
		},
		func() string {
			return m.pick("read ", "read -r ", "read -a ", "read -N 3 ", "read -e ", "read -i x -e ", "read -t 0 ", "read -p x ", "read -u 0 ") + m.pick("x", m.name(), m.quoted(m.subscript())) + " " + m.redirect()
		},
		func() string {
			return m.pick("mapfile ", "readarray ") + m.pick("", "-t ", "-C "+m.value()+" -c 1 ", "-O "+m.quoted(m.subscript())+" ", "-n 1 ") + m.name() + " <<< " + m.word()
		},
		func() string { return "let " + m.pick(m.value(), m.arithmetic(), m.quoted(m.subscript())) },
		func() string {
			return "unset " + m.pick("", "-f ", "-v ", "-n ") + m.pick(m.quoted(m.subscript()), m.name(), "ls")
		},
		func() string { return "set -- " + m.word() + " " + m.word() },
		func() string {
			return "set " + m.pick("-o ", "+o ") + m.pick("posix", "noexec", "errexit", "xtrace", "noglob", "keyword", "allexport", "braceexpand", "history", "histexpand", "vi", "onecmd", "monitor", "functrace", "physical", "nounset", "verbose")
		},
		func() string {
			return "set " + m.pick("-k", "-a", "-x", "-H", "-f", "-u", "-e", "-B", "+B", "-T", "-n")
		},
		func() string {
			return "shopt " + m.pick("-s ", "-u ") + m.pick("extglob", "expand_aliases", "nullglob", "globstar", "lastpipe", "sourcepath", "xpg_echo", "autocd", "cdable_vars", "dotglob", "failglob", "nocaseglob", "compat31", "compat44", "assoc_expand_once", "array_expand_once", "localvar_inherit", "inherit_errexit", "interactive_comments", "patsub_replacement", "execfail", "checkhash", "cmdhist", "extdebug", "gnu_errfmt", "login_shell", "varredir_close", "progcomp_alias", "promptvars")
		},
		func() string {
			return m.pick("hash -p /bin/rm ls", "hash -p rm cat", "hash -r", "enable -n echo", "enable -n "+m.pick("test", "[", "true", "cd"), "enable -f x rm", "builtin eval "+m.value(), "command eval "+m.value(), "command -p ls", "command -v "+m.word(), "type "+m.word())
		},
		func() string {
			return m.pick("compgen -W ", "compgen -C ", "compgen -F ls -C ", "complete -C ", "bind -x ", "fc -s ", "history -s ", "history -p ", "fc -e ", "jobs -x ", "disown ", "getopts a ", "getopts x ", "wait -n -p ", "wait -p ", "shift ", "exit ", "return ", "ulimit -f ", "umask ", "cd ", "pushd ", "popd ", "dirs ", "kill -0 ", "times ", "caller ", "help ", "logout ", "suspend ", "break ", "exec {x}>", "exec ") + m.pick(m.value(), m.word(), m.quoted(m.subscript()))
		},
	)
}

func (m *scriptMaker) wrapped() string {
	inner := m.pick(m.simple(), m.hidden(), m.hidden(), m.allowed())
	switch m.IntN(8) {
	case 0, 1:
		return m.pick("bash ", "sh ", "bash -e ", "bash +x ", "bash --norc ", "bash -O extglob ", "bash --rcfile x.sh -i ", "bash -x ", "sh -o errexit ", "bash --posix ") + m.pick("-c ", "-c -- ", "-lc ", "-xc ", "-ec ") + m.value() + m.pick("", " x", " ls "+m.value())
	case 2:
		return m.pick("bash", "sh", "bash -s", "sh -s x", "bash /dev/stdin", "bash -") + m.pick(" <<< "+m.value(), " "+m.hereDocument(), " < <(echo "+m.value()+")", " < x.sh", " x.sh", " <(echo "+m.value()+")")
	case 3:
		return m.pick("echo ", "printf ", "printf '%s\\n' ", "cat <<< ") + m.value() + " | " + m.pick("bash", "sh", "xargs", "xargs -I{} {}", "xargs ls", "xargs env", "xargs -0 sh -c", "while read x; do $x; done", "xargs -a list", "{ read x; eval \"$x\"; }", "source /dev/stdin", "mapfile")
	case 4:
		return "find " + m.pick(".", "a", "sub", ". -name a", ". -maxdepth 0", "-H .", "a -o") + " " + m.pick("-exec ", "-execdir ", "-ok ", "-exec env ") + inner + m.pick(` \;`, " {} +", " ';'", ` ";" -exec `+m.hidden()+` \;`, " {} ';' -print", "")
	}
	return m.pick("env ", "env X=1 ", "env a.b=1 ", "env -i ", "env -u X ", "env -S ", "env -vS", "env - ", "env -- ", "env -C sub ", "env BASH_ENV=x.sh ", "env PATH=/w/sub ", "env -i PATH=/bin ", "env é=1 ", "env =1 ", "env 1x=1 ", "env --split-string=",
		"nice ", "nice -n 3 ", "nice -3 ", "nice --adjustment=3 ", "nice -n3 ", "timeout 5 ", "timeout -k 1 5 ", "timeout -s KILL 5s ", "timeout --preserve-status 5 ", "timeout --foreground -- 5 ", "nohup ", "nohup -- ", "setsid ", "setsid -w ", "setsid -f ",
		"xargs ", "xargs -n 1 ", "xargs -I{} ", "xargs -a a ", "xargs -0 ", "xargs -P2 -L 1 ", "xargs -r ", "xargs -i ", "xargs -t -- ", "xargs -d x ", "xargs --arg-file=list ", "env nice timeout 5 ", "command ", "exec ", "exec -c ", "exec -la ls ", "nohup env ") +
		m.pick(inner, inner, m.value())
}

func (m *scriptMaker) compound() string {
	nl := m.pick("\n", "; ")
	return m.oneOf(
		func() string { return m.pick("(", "( ") + m.script() + m.pick(")", "\n)") },
		func() string { return "{ " + m.script() + nl + "}" },
		func() string {
			return "if " + m.script() + nl + "then " + m.script() + nl + m.pick("", "else "+m.script()+nl, "elif "+m.script()+nl+"then "+m.script()+nl) + "fi"
		},
		func() string {
			return m.pick("while ", "until ") + m.script() + nl + "do " + m.script() + nl + "break" + nl + "done"
		},
		func() string {
			return "for " + m.pick("x", "i", m.name()) + m.pick("", " in "+m.word()+" "+m.word(), " in rm ls", " in") + nl + "do " + m.script() + nl + m.pick("", "$x", "$i"+nl, "$i x"+nl) + "done"
		},
		func() string {
			return "for ((" + m.arithmetic() + "; " + m.arithmetic() + "; " + m.arithmetic() + "))" + nl + m.pick("do ", "{ ") + m.script() + nl + "break" + nl + m.pick("done", "}")
		},
		func() string {
			return "case " + m.word() + " in " + m.pick("", "(") + m.word() + m.pick("", "|*", "|"+m.word()) + ") " + m.script() + m.pick(";; ", ";& ", ";;& ", nl) + m.pick("", "*) "+m.script()+";; ") + "esac"
		},
		func() string {
			return "select x in " + m.word() + nl + "do " + m.script() + nl + "break" + nl + "done " + m.pick("", "<<< 1", m.redirect())
		},
		func() string {
			name := m.pick("f", "ls", "cat", "git", "x", "echo", "cd", "a-b", "x.y")
			return m.pick(name+"() ", "function "+name+" ", "function "+name+"() ", name+" ()\n") + m.pick("{ "+m.script()+nl+"}", "("+m.script()+")", "if "+m.script()+nl+"then ls"+nl+"fi", "[[ -v "+m.word()+" ]]") + m.pick("", " "+m.redirect()) + m.pick(nl+name, nl+name+" "+m.word(), "\n")
		},
		func() string { return m.condition() },
		func() string { return m.condition() },
		func() string { return "((" + m.arithmetic() + "))" },
		func() string {
			return "coproc " + m.pick("", "C ", "x ") + m.pick("{ "+m.script()+nl+"}", "("+m.script()+")", m.simple())
		},
	)
}

func (m *scriptMaker) condition() string {
	operand := func() string { return m.pick(m.word(), m.value(), m.quoted(m.subscript()), m.arithmetic()) }
	test := m.pick("-n ", "-z ", "-v ", "-R ", "-e ", "-f ", "-t ", "! ", "-o ", "") + operand()
	if m.IntN(2) == 0 {
		test = operand() + m.pick(" -lt ", " -eq ", " -ge ", " == ", " = ", " != ", " =~ ", " < ", " > ", " -nt ") + operand()
	}
	if m.IntN(4) == 0 {
		test = "( " + test + " )" + m.pick(" && ", " || ", "\n&& ") + operand()
	}
	return "[[ " + test + " ]]"
}

// special makes what has fooled parsers.
func (m *scriptMaker) special() string {
	inner := m.hidden()
	return m.pick(
		"ls #\\\n"+inner, "ls\r\n"+inner, "ls \\\r\n"+inner, "ls # \\\\\n"+inner, "((ls); "+inner+")", "$((ls); "+inner+")", "echo $(("+inner+") )", "ls <<E\n$(("+inner+"))\nE",
		"ls() { "+inner+"; }; ls", "x=$("+inner+")", "ls $(#)\n"+inner+")", "ls `#`;"+inner, "echo ${x:-`"+inner+"`}", "ls ;;\n"+inner, "case x in x) "+inner+" ;; esac", "echo \"${x:-\"$("+inner+")\"}\"",
		"ls <<'E' <<F\n$("+inner+")\nE\n$("+inner+")\nF", "ls <<E\nE\\\n\n"+inner, "for x in ls; do $x; done", "for x in "+inner+"; do $x; done", "time -- "+inner, "! ! "+inner, "alias ls='"+inner+" '\nls", "echo {ls,"+inner+"}", "function ls { "+inner+"\n}\nls",
		"echo a |\n"+inner, "ls &&\n# x\n"+inner, "\u00a0"+inner, "ls\v"+inner, "[[ x =~ $("+inner+") ]]", "[[ a[$("+inner+")] -lt 1 ]]", "(( a[$("+inner+")] ))", "declare -i x='a[$("+inner+")]'", "a=([$("+inner+")]=1)", "a['$("+inner+")']=1",
		"declare -A h; h['$("+inner+")']=1; [[ -v h['$("+inner+")'] ]]", "x='a[$("+inner+")]'; (( x ))", "x='a[$("+inner+")]'; [[ x -eq 1 ]]", "x='$("+inner+")'; echo ${x@P}", "PS4='$("+inner+")'; set -x; ls", "set -- $("+inner+")", "exec 3<> >("+inner+")", "x="+inner+"; $x",
		"export -f ls; ls() { "+inner+"; }; bash -c ls", "ls() { "+inner+"; }; export -f ls; bash -c ls", "env 'BASH_FUNC_ls%%=() { "+inner+"; }' bash -c ls", "BASH_ENV=<(echo '"+inner+"') bash -c ls", "printf '"+inner+"' > f; . ./f", "cat > f <<E\n"+inner+"\nE\nbash f", "echo '"+inner+"' > /tmp/f; sh /tmp/f",
		"set -k; ls PATH=/w/sub", "hash -p /bin/rm ls; ls", "BASH_CMDS[ls]=/bin/rm; ls", "shopt -s expand_aliases\nBASH_ALIASES[ls]='"+inner+"'\nls", "while read x; do $x; done <<< '"+inner+"'", "read x <<< '"+inner+"'; $x", "IFS=_; x=rm_x; $x", "trap '"+inner+"' EXIT", "coproc { "+inner+"; }", "eval \"$(echo "+inner+")\"",
	)
}

// almostPlain makes a script near the plain subset.
func (m *scriptMaker) almostPlain() string {
	tokens := []string{
		"ls", "ls ", "cat ", "echo ", "git status", "git log ", " ", " ", "\t", "\n", "\n", " && ", " || ", " | ", ";", "; ", "&&", "||", "|", "a", "b=c", "'x y'", `"x y"`, "''", `""`, "-l", ".", "/", ":", ",", "+", "@", "%", "_", "a~1",
		"'", `"`, `\`, "\\\n", "#", "#\\\n", "!", "*", "?", "[", "]", "{", "}", "{a,b}", "(", ")", "<", ">", "&", "$", "`", "=", "~", "^", "\r", "\v", "\x7f", "\xff", "é", "x=", "$x", "rm x", "touch x", "then ", "if ", "do ", "time ", "exec ", "cd ", "true", ":", "sub/",
		"$'", "<<E\n", "\nE\n", "'\n'", "'#'", "\"\n\"", "PATH=. ", "RANDOM=x ", "-", "--", "1", "2", "2>", "/bin/ls", "sub/ls", "./", "..", "bash -c ", "sh -c ", "env ", "nice ", "xargs ", "timeout 5 ", "coproc ", "[[ ", " ]]", "read ", "test ", "eval ",
	}
	s := m.pick("ls", "ls ", "cat ", "git log ", "echo ", "")
	for range 1 + m.IntN(8) {
		if m.IntN(2) == 0 {
			s += tokens[m.IntN(37)] // one of the subset
		} else {
			s += m.pick(tokens...)
		}
	}
	return s
}

// mutate inserts, drops or repeats some bytes.
func (m *scriptMaker) mutate(s string) string {
	at := m.IntN(len(s))
	end := min(len(s), at+1+m.IntN(4))
	switch m.IntN(4) {
	case 0:
		return s[:at] + s[end:]
	case 1:
		return s[:end] + s[at:]
	case 2:
		return s[:at] + string([]byte{byte(1 + m.IntN(255))}) + s[at:]
	}
	return s[:at] + m.pick("\\\n", "\n", "\r", "'", `"`, "`", "$", "#", " ", ";", "&", "|", "(", ")", "{", "}", "<", ">", "\\", "$(", "<<E", "!", strconv.Itoa(m.IntN(10))) + s[at:]
}
