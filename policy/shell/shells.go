package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shellName returns the name of a shell without its version.
func shellName(name string) string {
	if trimmed := strings.TrimRight(name, "0123456789.-"); trimmed != "" && trimmed != name && name != "ksh93" {
		return trimmed
	}
	return name
}

// shells are the programs that run shell scripts, with their dialects.
var shells = map[string]syntax.LangVariant{
	"sh": syntax.LangPOSIX, "dash": syntax.LangPOSIX, "ash": syntax.LangPOSIX,
	"bash": syntax.LangBash, "rbash": syntax.LangBash,
	"zsh": syntax.LangZsh, "rzsh": syntax.LangZsh,
	"ksh": syntax.LangMirBSDKorn, "mksh": syntax.LangMirBSDKorn, "ksh93": syntax.LangMirBSDKorn,
	"oksh": syntax.LangMirBSDKorn, "pdksh": syntax.LangMirBSDKorn,
}

// shell follows a shell to the script it is given.
func (f *finder) shell(sc scope, name string, lang syntax.LangVariant, words []word, i int) {
	o := f.shellOptions(sc, name, lang, words)
	rest := o.rest
	switch {
	case o.infoOnly:
	case o.inline && len(rest) == 0:
	case o.inline:
		args := rest[1:]
		if len(args) == 0 {
			args = words[:1]
		}
		f.script(sc.in(name+" -c"), rest[0], lang, args)
		if o.plain && !rest[0].hole && len(sc.assigns) == 0 {
			f.markThrough(i)
		}
	case len(rest) == 0 || o.stdin || isStdin(rest[0]):
		f.stdinScript(sc, name, lang, append(words[:1:1], rest...), i)
	case rest[0].proc != nil:
		f.procScript(sc, rest[0], name, lang, rest)
	default:
		f.scriptFile(sc, rest[0])
		if text, ok := f.fileText(rest[0]); ok {
			f.script(sc.in(name+" "+rest[0].text), text, lang, rest)
		}
	}
}

// shellOptions is the parsed command line of a shell.
type shellOptions struct {
	inline   bool   // -c: the first operand is the script
	stdin    bool   // -s: the script is read from standard input
	plain    bool   // no option can run anything else
	infoOnly bool   // --help or --version: no script runs
	rest     []word // the operands
}

// shellOptions parses the command line of a shell. It analyzes startup files that
// the options name.
func (f *finder) shellOptions(sc scope, name string, lang syntax.LangVariant, words []word) shellOptions {
	o := shellOptions{plain: true, rest: words[1:]}
	for len(o.rest) > 0 {
		w := o.rest[0]
		if !o.inline && w.hole && w.proc == nil && (w.prefix == "" || w.prefix[0] == '-') { // it may be an option
			f.opaque(sc, texts(words), "the options of %s are not known before it runs", name)
			o.plain = false
			if w.prefix == "" {
				return o
			}
		}
		long := strings.TrimLeft(w.text, "-")
		switch {
		case w.text == "--" || w.text == "-":
			o.rest = o.rest[1:]
			return o
		case w.text == "--version" || w.text == "--help":
			o.infoOnly = true
			return o
		case strings.HasPrefix(w.text, "--"), slices.Contains(bashOptions, long):
			o.rest = o.rest[1:]
			if long == "rcfile" || long == "init-file" {
				o.plain = false
				if len(o.rest) > 0 {
					f.procScript(sc, o.rest[0], name+" "+w.text, lang, words[:1])
					o.rest = o.rest[1:]
				}
			}
		case strings.HasPrefix(w.text, "-"), strings.HasPrefix(w.text, "+"):
			o.cluster(w.text)
		default:
			return o
		}
	}
	return o
}

// bashOptions are the long options that bash also takes with one dash.
var bashOptions = strings.Fields("debug debugger dump-po-strings dump-strings init-file login noediting noprofile " +
	"norc posix pretty-print rcfile restricted verbose")

// procScript analyzes a script that is a process substitution, if w is one.
func (f *finder) procScript(sc scope, w word, name string, lang syntax.LangVariant, args []word) {
	if w.proc != nil {
		sc.stdin = f.outputOf(sc, w.proc.Stmts)
		f.stdinScript(sc, name, lang, args, -1)
	}
}

// cluster parses short options such as -xc, with the values of o and O.
func (o *shellOptions) cluster(text string) {
	o.inline = o.inline || strings.Contains(text, "c")
	o.stdin = o.stdin || strings.Contains(text, "s")
	values := strings.Count(text, "o") + strings.Count(text, "O")
	o.rest = o.rest[min(1+values, len(o.rest)):]
}

func isStdin(w word) bool {
	return !w.hole && slices.Contains([]string{"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "-"}, path.Clean(w.text))
}

// stdinScript analyzes the script that a shell reads from standard input.
func (f *finder) stdinScript(sc scope, name string, lang syntax.LangVariant, args []word, i int) {
	f.runInput(sc, name, args, func(sc scope) {
		in := sc.in(name + " <")
		in.stdin = input{}
		f.script(in, sc.stdin.word, lang, args)
		if !sc.stdin.word.hole && len(sc.assigns) == 0 {
			f.markThrough(i)
		}
	})
}

// runInput follows a program that runs its standard input; text analyzes it if it is
// a text.
func (f *finder) runInput(sc scope, name string, words []word, text func(sc scope)) {
	if sc.stdin.kind == inputNone {
		sc.stdin = f.input
	}
	switch sc.stdin.kind {
	case inputNone:
		f.opaque(sc, texts(words), "%s runs what it is given later", name)
	case inputText:
		text(sc)
	case inputPipe:
		f.opaque(sc, strings.Join(sc.stdin.from, " | "), "%s runs what other commands print", name)
		f.endanger(sc, sc.stdin.from)
	case inputFile:
		f.scriptFile(sc, sc.stdin.file)
		f.blockAllow(sc, texts(words), "%s runs a file as its input", name)
	}
}

// endanger marks sc's parent command as dangerous if running the output of the
// programs in from is.
func (f *finder) endanger(sc scope, from []string) {
	if why := piped(from); why != "" && sc.Parent > 0 {
		f.found.Commands[sc.Parent-1].danger = why
	}
}

// piped returns why running the output of the programs in from is dangerous, or "".
func piped(from []string) string {
	for _, p := range from {
		switch p {
		case "curl", "wget", "fetch", "aria2c", "nc", "ncat", "http", "lynx", "ftp", "ssh":
			return "runs code from the network unseen"
		case "base64", "base32", "xxd", "openssl", "uudecode", "gunzip", "zcat", "gpg":
			return "runs encoded code unseen"
		}
	}
	return ""
}

// su follows su to the shell that gets the arguments after the user. It reports
// false for runuser -u, which starts a command instead.
func (f *finder) su(sc scope, name string, words []word) bool {
	g := wrappers()["runuser"]
	o := g.parse(words[1:])
	if _, ok := o.get("u user"); ok && name == "runuser" {
		return false
	}
	in := sc.in(name)
	if text, ok := o.get(g.script); ok {
		f.script(in, text, syntax.LangBash, nil)
	}
	rest := slices.DeleteFunc(slices.Clone(o.rest), isDashes)
	if len(rest) > 0 && rest[0].text == "-" {
		rest = rest[1:]
	}
	if len(rest) > 1 {
		f.shell(in, "sh", syntax.LangBash, rest, -1)
	}
	return true
}
