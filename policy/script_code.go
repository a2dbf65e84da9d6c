package policy

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// look finds the commands that words[0], a program called name, would start.
// The command itself is entry i of the list, or not in it when i is -1.
func (f *finder) look(sc scope, name string, words []word, i int) {
	for _, w := range words[1:] {
		if w.proc != nil {
			sc.danger = "" // what is in <( ) was looked at with the word
		}
	}
	if lang, ok := shells[shellName(name)]; ok {
		f.shell(sc, name, lang, words, i)
		return
	}
	if in, ok := interpreters[languageName(name)]; ok {
		f.interpreter(sc, name, in, words)
		return
	}
	switch name {
	case "eval":
		f.eval(sc, words, i)
	case ".", "source":
		f.sourceFile(sc, name, words)
	case "trap":
		f.trap(sc, words)
	case "alias":
		f.alias(sc, words)
	case "complete", "compgen", "mapfile", "readarray", "bind", "enable", "hash":
		f.builtin(sc, name, words)
	case "read", "unset", "printf", "test", "[", "let", "declare", "typeset", "local", "export", "readonly":
		f.evaluated(sc, name, words)
	case "env", "genv":
		f.env(sc, words, i)
	case "find", "gfind":
		f.find(sc, name, words)
	case "fd", "fdfind":
		f.fd(sc, name, words)
	case "parallel", "sem":
		f.parallel(sc, words)
	case "git":
		f.git(sc, words)
	case "make", "gmake", "nmake", "bmake":
		f.makeTool(sc, name, words)
	case "awk", "gawk", "mawk", "nawk", "original-awk":
		f.awk(sc, name, words)
	case "sed", "gsed":
		f.sed(sc, name, words)
	case "ed", "ex", "vi", "vim", "nvim", "view", "vimdiff", "emacs":
		f.editor(sc, name, words)
	case "sqlite3", "psql", "mysql", "mariadb", "gdb", "lldb", "ftp", "sftp", "telnet", "dc":
		f.bang(sc, name, words)
		f.startedBy(sc, name, words)
	case "nc", "ncat", "netcat", "socat":
		f.netcat(sc, name, words)
	case "set":
		f.set(words)
	case "su", "runuser":
		if f.su(sc, name, words) {
			return
		}
	case "capsh":
		if end := slices.IndexFunc(words, func(w word) bool { return w.text == "--" }); end > 0 {
			f.shell(sc, "bash", syntax.LangBash, words[end:], -1)
		}
	case "--":
		f.call(sc.reading(name), words[1:]) // time -- command
	case "hyperfine", "concurrently":
		f.each(sc, name, words)
		return
	case "screen", "abduco", "dtach":
		f.screen(sc, name, words)
	case "kubectl", "oc":
		f.afterDashes(sc, name, words)
	case "at", "batch", "crontab":
		f.later(sc, name, words)
	case "firejail", "start-stop-daemon", "valgrind", "kernprof", "entr":
		f.guessedStart(sc, name, words)
	default:
		f.startedBy(sc, name, words)
	}
	f.optionCommands(sc, name, words)
	if subs, ok := subcommands[name]; ok {
		f.subcommand(sc, name, subs, words)
	}
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") || name == "ld.so" {
		f.wrapped(sc, name, loader, words, i)
		return
	}
	if w, ok := wrappers[strings.TrimPrefix(name, "g")]; ok && name[0] == 'g' && gnuNames[name[1:]] {
		f.wrapped(sc, name, w, words, i)
		return
	}
	if w, ok := wrappers[name]; ok && name != "env" {
		f.wrapped(sc, name, w, words, i)
	}
}

// gnuNames are the wrappers that macOS users have with a g before the name.
var gnuNames = map[string]bool{"timeout": true, "nice": true, "nohup": true, "stdbuf": true, "xargs": true, "chroot": true, "time": true}

// loader is the dynamic loader, which runs the program it is given.
var loader = wrapper{long: "library-path= preload= audit= argv0= inhibit-cache inhibit-rpath= list verify glibc-hwcaps-prepend= glibc-hwcaps-mask= list-diagnostics list-tunables", none: "list verify"}

// wrapped follows a wrapper to the command it starts.
func (f *finder) wrapped(sc scope, name string, g wrapper, words []word, i int) {
	o := g.parse(words[1:])
	for names := range strings.FieldsSeq(g.none) {
		if _, ok := o.get(names); ok {
			return
		}
	}
	in := sc.in(name)
	in.away = in.away || g.elsewhere
	if o.unknown != "" {
		f.opaque(sc, texts(words), "option %s of %s is not known here", o.unknown, name)
		if len(o.rest) > 1 {
			f.call(in.reading(o.unknown+" with a value"), o.rest[1:])
		}
	}
	if text, ok := o.get(g.script); ok {
		f.script(in, text, syntax.LangBash, nil)
	}
	rest := o.rest
	set := 0
	for g.assigns && len(rest) > 0 && isAssign(rest[0]) {
		f.envAssign(&in, rest[0])
		rest = rest[1:]
		set++
	}
	if len(rest) < g.operands {
		return
	}
	rest = rest[g.operands:]
	if g.operands > 0 && g.script != "" && len(rest) > 1 && rest[0].text == "-c" { // flock FILE -c 'script'
		f.script(in, rest[1], syntax.LangBash, nil)
		return
	}
	if len(rest) == 0 {
		return
	}
	if i >= 0 && g.through && o.unknown == "" && set == 0 {
		f.found.Commands[i].Through = true
	}
	if g.more {
		rest = f.xargs(sc, o, rest)
	}
	if g.join && !f.runsWords(o) {
		f.script(in, join(rest, " "), syntax.LangBash, nil)
		return
	}
	f.call(in, rest)
}

// runsWords reports whether watch was told to start its words as they are.
func (f *finder) runsWords(o options) bool {
	for _, opt := range o.list {
		if opt.name == "x" || opt.name == "exec" {
			return true
		}
	}
	return false
}

// xargs returns the command that xargs starts, with what it reads left open.
func (f *finder) xargs(sc scope, o options, rest []word) []word {
	var texts []string
	if sc.stdin.kind == inputText && !sc.stdin.word.hole {
		texts = append(texts, sc.stdin.word.text)
	}
	replace, ok := o.get("I i replace J")
	if !ok {
		return append(rest[:len(rest):len(rest)], word{text: "…", hole: true, many: true, script: unknownVar, guesses: texts})
	}
	if replace.text == "" {
		replace.text = "{}"
	}
	return withHoles(rest, replace.text, texts)
}

// withHoles returns words with each mark replaced by something not known.
func withHoles(words []word, mark string, guesses []string) []word {
	out := slices.Clone(words)
	for i, w := range out {
		before, after, ok := strings.Cut(w.text, mark)
		if !ok || w.hole {
			continue
		}
		out[i] = word{text: w.text, pos: w.pos, hole: true, prefix: before, script: before + unknownVar + strings.ReplaceAll(after, mark, unknownVar)}
		for _, g := range guesses {
			out[i].guesses = append(out[i].guesses, strings.ReplaceAll(w.text, mark, strings.TrimSpace(g)))
		}
	}
	return out
}

func isAssign(w word) bool {
	name, _, ok := strings.Cut(w.text, "=")
	return ok && syntax.ValidName(name)
}

// envAssign takes in NAME=value given to env or sudo.
func (f *finder) envAssign(sc *scope, w word) {
	name, _, _ := strings.Cut(w.text, "=")
	f.variable(*sc, name, cutWord(w, len(name)+1))
	sc.assigns = append(sc.assigns[:len(sc.assigns):len(sc.assigns)], w.text)
}

// env follows env, whose -S takes a line of further arguments.
func (f *finder) env(sc scope, words []word, i int) {
	g := wrappers["env"]
	o := g.parse(words[1:])
	line, ok := o.get("S split-string")
	if !ok {
		if len(o.rest) > 0 && o.rest[0].text == "-" {
			words = append([]word{words[0]}, o.rest[1:]...)
		}
		f.wrapped(sc, "env", g, words, i)
		return
	}
	if line.hole {
		f.opaque(sc, line.text, "the arguments given to env -S are not known before it runs")
	}
	split, err := splitWords(line.code())
	if err != nil {
		f.opaque(sc, line.text, "the arguments given to env -S cannot be read: %v", err)
		return
	}
	again := []word{words[0]}
	for _, s := range split {
		again = append(again, word{text: s, hole: strings.Contains(s, "${"), script: s})
	}
	f.env(sc.in("env -S"), append(again, o.rest...), -1)
}

// shellName returns the name of a shell without its version.
func shellName(name string) string {
	if trimmed := strings.TrimRight(name, "0123456789.-"); trimmed != "" && trimmed != name && name != "ksh93" {
		return trimmed
	}
	return name
}

// shells are the programs that run scripts, with their dialect.
var shells = map[string]syntax.LangVariant{
	"sh": syntax.LangPOSIX, "dash": syntax.LangPOSIX, "ash": syntax.LangPOSIX,
	"bash": syntax.LangBash, "rbash": syntax.LangBash,
	"zsh": syntax.LangZsh, "rzsh": syntax.LangZsh,
	"ksh": syntax.LangMirBSDKorn, "mksh": syntax.LangMirBSDKorn, "ksh93": syntax.LangMirBSDKorn, "oksh": syntax.LangMirBSDKorn, "pdksh": syntax.LangMirBSDKorn,
}

// shell follows a shell to the script it is given.
func (f *finder) shell(sc scope, name string, lang syntax.LangVariant, words []word, i int) {
	inline, stdin, plain := false, false, true
	rest := words[1:]
options:
	for len(rest) > 0 {
		w := rest[0]
		if w.hole && w.proc == nil && !inline && (w.prefix == "" || w.prefix[0] == '-') {
			f.opaque(sc, texts(words), "the options of %s are not known before it runs", name)
			plain = false
			if w.prefix == "" {
				break
			}
		}
		switch {
		case w.text == "--" || w.text == "-":
			rest = rest[1:]
			break options
		case strings.HasPrefix(w.text, "--"):
			rest = rest[1:]
			if w.text == "--version" || w.text == "--help" {
				return
			}
			if w.text == "--rcfile" || w.text == "--init-file" {
				plain = false
				if len(rest) > 0 && rest[0].proc != nil {
					from := sc
					from.stdin = f.outputOf(sc, rest[0].proc.Stmts)
					f.stdinScript(from, name+" "+w.text, lang, words[:1], -1)
				}
				rest = rest[min(1, len(rest)):]
			}
		case len(w.text) > 1 && (w.text[0] == '-' || w.text[0] == '+'):
			rest = rest[1:]
			inline = inline || w.text[0] == '-' && strings.Contains(w.text, "c")
			stdin = stdin || strings.Contains(w.text, "s")
			for range strings.Count(w.text, "o") + strings.Count(w.text, "O") {
				rest = rest[min(1, len(rest)):]
			}
		default:
			break options
		}
	}
	switch {
	case inline:
		if len(rest) == 0 {
			return
		}
		args := rest[1:]
		if len(args) == 0 {
			args = words[:1]
		}
		in := sc.in(name + " -c")
		f.script(in, rest[0], lang, args)
		if i >= 0 && plain && !rest[0].hole && len(sc.assigns) == 0 {
			f.found.Commands[i].Through = true
		}
	case len(rest) == 0 || stdin || isStdin(rest[0]):
		f.stdinScript(sc, name, lang, append(words[:1:1], rest...), i)
	case rest[0].proc != nil:
		sc.stdin = f.outputOf(sc, rest[0].proc.Stmts)
		f.stdinScript(sc, name, lang, rest, -1)
	}
}

func isStdin(w word) bool {
	switch w.text {
	case "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "-":
		return !w.hole
	}
	return false
}

// stdinScript looks into the script that a shell reads from its input.
func (f *finder) stdinScript(sc scope, name string, lang syntax.LangVariant, args []word, i int) {
	in := sc.in(name + " <")
	text := sc.stdin
	if text.kind == inputNone {
		text = f.input
	}
	in.stdin = input{}
	switch text.kind {
	case inputNone:
		f.opaque(sc, texts(args), "%s runs what it is given later", name)
	case inputText:
		f.script(in, text.word, lang, args)
		if i >= 0 && !text.word.hole && len(sc.assigns) == 0 {
			f.found.Commands[i].Through = true
		}
	case inputPipe:
		f.opaque(sc, strings.Join(text.from, " | "), "%s runs what other commands print", name)
		f.endanger(sc, text.from)
	case inputFile:
		f.opaque(sc, texts(args), "%s runs a file as its input", name)
	}
}

// endanger marks the command that sc looks into when it runs what the programs
// in from print.
func (f *finder) endanger(sc scope, from []string) {
	if why := piped(from); why != "" && sc.parent > 0 {
		f.found.Commands[sc.parent-1].danger = why
	}
}

// piped returns why running what the programs in from print is destructive.
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

func (f *finder) eval(sc scope, words []word, i int) {
	rest := words[1:]
	if len(rest) > 0 && rest[0].text == "--" {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return
	}
	text := join(rest, " ")
	in := sc.in("eval")
	f.script(in, text, syntax.LangBash, sc.args)
	if i >= 0 && !text.hole && len(sc.assigns) == 0 {
		f.found.Commands[i].Through = true
	}
}

// sourceFile follows source to the text it reads, when that is no file.
func (f *finder) sourceFile(sc scope, name string, words []word) {
	if len(words) < 2 {
		return
	}
	switch w := words[1]; {
	case w.proc != nil:
		sc.stdin = f.outputOf(sc, w.proc.Stmts)
		f.stdinScript(sc, name, syntax.LangBash, words[1:], -1)
	case isStdin(w):
		f.stdinScript(sc, name, syntax.LangBash, words[1:], -1)
	}
}

func (f *finder) trap(sc scope, words []word) {
	rest := words[1:]
	if len(rest) > 0 && rest[0].text == "--" {
		rest = rest[1:]
	}
	if len(rest) < 2 || strings.HasPrefix(rest[0].text, "-") {
		return
	}
	f.script(sc.in("trap"), rest[0], syntax.LangBash, sc.args)
}

func (f *finder) defineAlias(name, value string) {
	if f.aliases == nil {
		f.aliases = make(map[string]string)
	}
	f.aliases[name] = value
}

func (f *finder) alias(sc scope, words []word) {
	for _, w := range words[1:] {
		name, value, ok := strings.Cut(w.text, "=")
		if !ok {
			continue
		}
		f.defineAlias(name, value)
		f.script(sc.in("alias "+name), cutWord(w, len(name)+1), syntax.LangBash, nil)
	}
}

// builtin follows the builtins that take a command as the value of an option.
func (f *finder) builtin(sc scope, name string, words []word) {
	g := map[string]wrapper{
		"complete":  {flags: "abcdefgjksuvprDEI", values: "oAGWFCXPS", script: "C"},
		"compgen":   {flags: "abcdefgjksuv", values: "oAGWFCXPSV", script: "C"},
		"mapfile":   {flags: "t", values: "dnOsuCc", script: "C"},
		"readarray": {flags: "t", values: "dnOsuCc", script: "C"},
		"bind":      {flags: "lpsvPSVX", values: "mqurfx", script: "x"},
		"enable":    {flags: "adnps", values: "f"},
		"hash":      {flags: "ldtr", values: "p"},
	}[name]
	o := g.parse(words[1:])
	if text, ok := o.get(g.script); ok {
		if name == "bind" {
			_, command, _ := strings.Cut(text.text, ":")
			text.text = strings.Trim(strings.TrimSpace(command), `"'`)
		}
		f.script(sc.in(name), text, syntax.LangBash, nil)
	}
	if _, ok := o.get("f"); ok && name == "enable" {
		f.opaque(sc, texts(words), "enable loads code into the shell")
	}
	if w, ok := o.get("p"); ok && name == "hash" {
		f.opaque(sc, texts(words), "hash makes a name stand for %s", w.text)
	}
}

// set notes the positional parameters that a script gives itself.
func (f *finder) set(words []word) {
	for i, w := range words[1:] {
		if w.text == "--" || !strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "+") {
			list := words[i+1:]
			if w.text == "--" {
				list = list[1:]
			}
			f.remember("@", join(list, " "), false)
			for n, w := range list {
				f.remember(strconv.Itoa(n+1), w, false)
			}
			return
		}
	}
}

// su follows su, whose user's shell gets the arguments after the user. It
// reports whether that was all: runuser -u starts a command.
func (f *finder) su(sc scope, name string, words []word) bool {
	g := wrappers["su"]
	g.values += "u"
	g.long += " user="
	o := g.parse(words[1:])
	if _, ok := o.get("u user"); ok && name == "runuser" {
		return false
	}
	in := sc.in(name)
	if text, ok := o.get(g.script); ok {
		f.script(in, text, syntax.LangBash, nil)
	}
	rest := o.rest
	if len(rest) > 0 && rest[0].text == "-" {
		rest = rest[1:]
	}
	if len(rest) > 1 {
		f.shell(in, "sh", syntax.LangBash, rest, -1)
	}
	return true
}

// each follows a program each of whose arguments is a script.
func (f *finder) each(sc scope, name string, words []word) {
	g := wrappers[name]
	o := g.parse(words[1:])
	for _, opt := range o.list {
		if strings.Contains(" "+g.script+" ", " "+opt.name+" ") {
			o.rest = append(o.rest, opt.value)
		}
	}
	for _, w := range o.rest {
		f.script(sc.in(name), w, syntax.LangBash, nil)
	}
}

// evaluated looks for substitutions in the array indexes that a builtin
// evaluates though they are quoted.
func (f *finder) evaluated(sc scope, name string, words []word) {
	for _, w := range words[1:] {
		if !w.hole && strings.Contains(w.text, "[") {
			f.subscript(sc.in(name), w.text)
		}
	}
}

// find follows the commands that find starts for what it finds.
func (f *finder) find(sc scope, name string, words []word) {
	for i := 1; i < len(words); i++ {
		switch words[i].text {
		case "-exec", "-execdir", "-ok", "-okdir":
			end := i + 1
			for end < len(words) && words[end].text != ";" && !(words[end].text == "+" && words[end-1].text == "{}") {
				end++
			}
			f.call(sc.in(name+" "+words[i].text), withHoles(words[i+1:end], "{}", nil))
			i = end
		}
	}
}

func (f *finder) fd(sc scope, name string, words []word) {
	for i := 1; i < len(words); i++ {
		t := words[i].text
		first, attached := "", false
		if long, value, ok := strings.Cut(t, "="); ok {
			t, first, attached = long, value, true
		}
		switch t {
		case "-x", "--exec", "-X", "--exec-batch":
			command := withHoles(words[i+1:], "{}", nil)
			if end := slices.IndexFunc(command, func(w word) bool { return w.text == ";" }); end >= 0 {
				command = command[:end]
			}
			if attached {
				command = append([]word{{text: first}}, command...)
			}
			f.call(sc.in(name+" "+t), append(command, word{text: "…", hole: true, many: true, script: unknownVar}))
			return
		}
	}
}

// parallel follows GNU parallel: the words before ::: are a script, or else
// each argument is one.
func (f *finder) parallel(sc scope, words []word) {
	g := wrapper{
		flags:  "0kmqtuvXxz",
		values: "aCDdEIjLNnPSs",
		maybe:  "il",
		long:   "jobs= colsep= delay= timeout= retries= halt= joblog= results= load= memfree= nice= arg-file= max-args= max-procs= max-replace-args= max-lines= max-chars= delimiter= tagstring= tmpdir= sshlogin= sshloginfile= workdir= env= block= recstart= recend= basefile= return= trc= link dry-run keep-order group ungroup line-buffer tag verbose bar eta progress pipe pipepart will-cite no-notice citation quote xargs no-run-if-empty null silent shuf resume resume-failed cleanup plain interactive compress files header= shebang wd= rpl=",
	}
	o := g.parse(words[1:])
	in := sc.in("parallel")
	if o.unknown != "" {
		f.opaque(sc, texts(words), "option %s of parallel is not known here", o.unknown)
	}
	end := slices.IndexFunc(o.rest, func(w word) bool { return strings.HasPrefix(w.text, ":::") })
	if end < 0 {
		end = len(o.rest)
	}
	if end == 0 {
		if len(o.rest) == 0 {
			f.opaque(sc, texts(words), "parallel runs the lines of its input")
			if sc.stdin.kind == inputText {
				f.script(in, sc.stdin.word, syntax.LangBash, nil)
			}
		}
		for _, w := range o.rest {
			if !strings.HasPrefix(w.text, ":::") {
				f.script(in, w, syntax.LangBash, nil)
			}
		}
		return
	}
	command := o.rest[:end]
	var guesses []string
	for _, w := range o.rest[end:] {
		if !strings.HasPrefix(w.text, ":::") && !w.hole && len(guesses) < 4 {
			guesses = append(guesses, w.text)
		}
	}
	text := texts(command)
	marked := false
	for _, mark := range []string{"{}", "{.}", "{/}", "{//}", "{/.}", "{1}", "{2}", "{3}", "{#}", "{%}"} {
		marked = marked || strings.Contains(text, mark)
	}
	if !marked {
		command = append(command[:end:end], word{text: "{}"})
	}
	for _, g := range guesses {
		f.source(in.reading("arguments"), strings.ReplaceAll(texts(command), "{}", g), syntax.LangBash, nil)
	}
	script := join(command, " ")
	for _, mark := range []string{"{}", "{.}", "{/}", "{//}", "{/.}", "{1}", "{2}", "{3}"} {
		script.text = strings.ReplaceAll(script.text, mark, unknownVar)
		script.script = strings.ReplaceAll(script.script, mark, unknownVar)
	}
	f.script(in, script, syntax.LangBash, nil)
}

// subcommand follows programs that start others with one of their subcommands.
func (f *finder) subcommand(sc scope, name string, subs map[string]wrapper, words []word) {
	for i := 1; i < min(len(words), 6); i++ {
		sub := words[i].text
		g, ok := subs[sub]
		if !ok {
			continue
		}
		rest := words[i:]
		if end := slices.IndexFunc(rest, func(w word) bool { return w.text == "--" }); end > 0 && g.operands == 0 && !g.elsewhere {
			f.call(sc.in(name+" "+sub), rest[end+1:])
			return
		}
		if name == "nix" {
			if end := slices.IndexFunc(rest, func(w word) bool { return w.text == "-c" || w.text == "--command" }); end > 0 {
				f.call(sc.in(name+" "+sub), rest[end+1:])
			}
			return
		}
		f.wrapped(sc, name+" "+sub, g, rest, -1)
		return
	}
}

// afterDashes follows programs that start what stands after --.
func (f *finder) afterDashes(sc scope, name string, words []word) {
	end := slices.IndexFunc(words, func(w word) bool { return w.text == "--" })
	if end < 0 {
		return
	}
	in := sc.in(name)
	in.away = true
	f.call(in, words[end+1:])
}

// startedBy follows a program that is not known here but whose arguments look
// like those of a wrapper: `NAME run … -- command`.
func (f *finder) startedBy(sc scope, name string, words []word) {
	switch name {
	case "cargo", "dotnet", "bazel", "go", "gradle", "swift", "stack", "cabal", "mix", "git":
		return // what they run gets the arguments
	}
	if subcommands[name] != nil || wrappers[name] != (wrapper{}) {
		return
	}
	for i := 1; i < min(len(words), 8); i++ {
		switch words[i].text {
		case "run", "exec", "shell", "-E", "--args", "exec-env":
		default:
			continue
		}
		rest := words[i+1:]
		if end := slices.IndexFunc(rest, func(w word) bool { return w.text == "--" }); end >= 0 {
			rest = rest[end+1:]
		} else if words[i].text == "run" || words[i].text == "exec" || words[i].text == "shell" {
			return
		}
		if len(rest) > 0 && !strings.HasPrefix(rest[0].text, "-") {
			f.call(sc.reading(name), rest)
		}
		return
	}
}

// guessedStart follows wrappers whose options are too many to know: each
// argument that is no option may be the command.
func (f *finder) guessedStart(sc scope, name string, words []word) {
	if len(words) < 2 {
		return
	}
	tried := 0
	for i := 1; i < len(words) && tried < 3; i++ {
		if strings.HasPrefix(words[i].text, "-") {
			continue
		}
		tried++
		f.call(sc.reading(name), words[i:])
	}
}

// later names the commands whose work is done by another process, later.
func (f *finder) later(sc scope, name string, words []word) {
	if name == "crontab" && slices.ContainsFunc(words, func(w word) bool { return w.text == "-l" }) {
		return
	}
	f.opaque(sc, texts(words), "%s runs commands later, outside this call", name)
	if sc.stdin.kind == inputText && name != "crontab" {
		in := sc.in(name)
		in.stdin = input{}
		f.script(in, sc.stdin.word, syntax.LangPOSIX, nil)
	}
}

func (f *finder) screen(sc scope, name string, words []word) {
	g := wrapper{flags: "dDmrRxXUAailnoOqvOwN", values: "acehLpsStT", maybe: ""}
	if name != "screen" {
		g = wrapper{flags: "nNczA", values: "eErRp", operands: 1}
	}
	o := g.parse(words[1:])
	if len(o.rest) > g.operands {
		f.call(sc.in(name), o.rest[g.operands:])
	}
}

// optionCommands looks into the options by which common programs are told to
// start another.
func (f *finder) optionCommands(sc scope, name string, words []word) {
	long := commandOptions[name]
	if long == "" && name != "ssh" {
		return
	}
	in := sc.in(name)
	for i := 1; i < len(words); i++ {
		t := words[i].text
		for opt := range strings.FieldsSeq(long) {
			switch {
			case t == opt && i+1 < len(words):
				f.script(in, words[i+1], syntax.LangBash, nil)
			case len(opt) > 2 && strings.HasPrefix(t, opt+"="):
				f.script(in, cutWord(words[i], len(opt)+1), syntax.LangBash, nil)
			case len(opt) == 2 && len(t) > 2 && t[:2] == opt && name != "tar":
				f.script(in, cutWord(words[i], 2), syntax.LangBash, nil)
			}
		}
		if name == "ssh" || name == "scp" || name == "sftp" {
			f.sshOption(in, words, i)
		}
		if name == "tar" || name == "gtar" || name == "bsdtar" {
			if _, _, ok := strings.Cut(t, "=exec="); ok && strings.HasPrefix(t, "--checkpoint-action") || strings.HasPrefix(t, "exec=") {
				f.script(in, cutWord(words[i], strings.Index(t, "exec=")+5), syntax.LangBash, nil)
			}
		}
	}
}

// commandOptions are the options whose value is a command.
var commandOptions = map[string]string{
	"tar":       "-I -F --to-command --use-compress-program --info-script --new-volume-script --rsh-command --rmt-command",
	"gtar":      "-I -F --to-command --use-compress-program --info-script --new-volume-script --rsh-command --rmt-command",
	"bsdtar":    "--use-compress-program",
	"rsync":     "-e --rsh",
	"sort":      "--compress-program",
	"split":     "--filter",
	"rg":        "--pre --hostname-bin",
	"man":       "-P --pager -H --html",
	"zip":       "-TT --unzip-command",
	"scp":       "-S",
	"sftp":      "-S",
	"fzf":       "--preview --bind",
	"nodemon":   "-x --exec",
	"watchexec": "-x",
	"gcc":       "-wrapper",
	"go":        "-exec -toolexec -vettool",
	"vagrant":   "-c --command",
	"gcloud":    "--command",
	"pip":       "--editor",
	"wget":      "--use-askpass",
	"restic":    "--password-command",
	"cpio":      "--rsh-command",
}

// sshOption looks into -o Name=command.
func (f *finder) sshOption(sc scope, words []word, i int) {
	w := words[i]
	switch {
	case w.text == "-o" && i+1 < len(words):
		w = words[i+1]
	case strings.HasPrefix(w.text, "-o"):
		w = cutWord(w, 2)
	default:
		return
	}
	name, _, ok := strings.Cut(w.text, "=")
	if !ok {
		if name, _, ok = strings.Cut(w.text, " "); !ok {
			return
		}
	}
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "proxycommand", "localcommand", "knownhostscommand", "remotecommand":
		f.script(sc.in("-o "+name), cutWord(w, len(name)+1), syntax.LangBash, nil)
	}
}

// gitGlobals are the options before the subcommand of git.
var gitGlobals = wrapper{
	flags:  "pPvh",
	values: "Cc",
	long:   "paginate no-pager no-replace-objects bare literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs no-optional-locks no-lazy-fetch no-advice version help html-path man-path info-path exec-path git-dir= work-tree= namespace= super-prefix= config-env= list-cmds= attr-source=",
}

// git follows the commands that git's configuration and options start.
func (f *finder) git(sc scope, words []word) {
	o := gitGlobals.parse(words[1:])
	aliases := map[string]word{}
	for _, opt := range o.list {
		switch opt.name {
		case "c":
			f.gitConfig(sc, opt.value, aliases)
		case "config-env":
			f.opaque(sc, opt.value.text, "git takes a setting from the environment")
		case "exec-path":
			if opt.value.text != "" {
				f.opaque(sc, texts(words), "git runs its programs from %s", opt.value.text)
			}
		}
	}
	if len(o.rest) == 0 {
		return
	}
	if len(o.rest) < len(words)-1 {
		again := append([]word{words[0]}, o.rest...)
		f.emit(sc.reading("git"), again)
	}
	if a, ok := aliases[o.rest[0].text]; ok {
		f.gitAlias(sc, a, o.rest[1:])
	}
	f.gitSub(sc, o.rest)
}

// gitConfig looks at one -c name=value.
func (f *finder) gitConfig(sc scope, w word, aliases map[string]word) {
	key, _, ok := strings.Cut(w.text, "=")
	if !ok {
		return
	}
	value := cutWord(w, len(key)+1)
	key = strings.ToLower(key)
	if name, ok := strings.CutPrefix(key, "alias."); ok {
		aliases[name] = value
		f.gitAlias(sc, value, nil)
		return
	}
	switch {
	case gitCommandKey(key):
		value.text, value.script = strings.TrimPrefix(value.text, "!"), strings.TrimPrefix(value.script, "!")
		if value.hole || value.text != "" && value.text != "true" && value.text != "false" {
			f.script(sc.in("git "+key), value, syntax.LangBash, nil)
		}
	case key == "core.hookspath", key == "include.path", strings.HasPrefix(key, "includeif."), key == "init.templatedir", key == "core.worktree", key == "core.attributesfile":
		f.opaque(sc, w.text, "git takes code from %s", value.text)
	}
}

// gitAlias looks into an alias: !script, or words for git.
func (f *finder) gitAlias(sc scope, value word, rest []word) {
	if script, ok := strings.CutPrefix(value.text, "!"); ok {
		value.text, value.script = script, strings.TrimPrefix(value.script, "!")
		f.script(sc.in("git alias"), value, syntax.LangBash, append([]word{{text: "git"}}, rest...))
		return
	}
	split, err := splitWords(value.text)
	if err != nil {
		return
	}
	again := []word{{text: "git"}}
	for _, s := range split {
		again = append(again, word{text: s})
	}
	f.call(sc.reading("git alias"), append(again, rest...))
}

// gitCommandKey reports whether the value of a git setting is a command.
func gitCommandKey(key string) bool {
	switch key {
	case "core.pager", "core.editor", "core.sshcommand", "core.fsmonitor", "core.askpass", "core.gitproxy", "core.alternaterefscommand",
		"diff.external", "sequence.editor", "interactive.difffilter", "gpg.program", "gpg.ssh.program", "gpg.x509.program", "gpg.ssh.defaultkeycommand",
		"uploadpack.packobjectshook", "credential.helper", "sendemail.smtpserver", "sendemail.tocmd", "sendemail.cccmd", "web.browser", "help.browser", "man.viewer", "instaweb.httpd", "browser.path":
		return true
	}
	section, rest, _ := strings.Cut(key, ".")
	name := rest[strings.LastIndexByte(rest, '.')+1:]
	switch section {
	case "pager":
		return true
	case "diff", "merge", "filter", "difftool", "mergetool", "credential", "browser", "man", "remote", "trailer", "guitool", "hook":
		switch name {
		case "command", "textconv", "driver", "clean", "smudge", "process", "cmd", "helper", "receivepack", "uploadpack", "path", "vcs":
			return true
		}
	}
	return false
}

// gitSub looks into the subcommands of git that start commands.
func (f *finder) gitSub(sc scope, words []word) {
	sub := words[0].text
	in := sc.in("git " + sub)
	for i := 1; i < len(words); i++ {
		t := words[i].text
		if strings.HasPrefix(t, "ext::") {
			f.script(in, cutWord(words[i], len("ext::")), syntax.LangBash, nil)
		}
		for opt := range strings.FieldsSeq(gitOptions[sub]) {
			switch {
			case t == opt && i+1 < len(words):
				f.script(in, words[i+1], syntax.LangBash, nil)
			case strings.HasPrefix(opt, "--") && strings.HasPrefix(t, opt+"="):
				f.script(in, cutWord(words[i], len(opt)+1), syntax.LangBash, nil)
			case len(opt) == 2 && len(t) > 2 && strings.HasPrefix(t, opt):
				f.script(in, cutWord(words[i], 2), syntax.LangBash, nil)
			}
		}
		if sub == "clone" && (t == "-c" || t == "--config") && i+1 < len(words) {
			f.gitConfig(sc, words[i+1], map[string]word{})
		}
	}
	switch {
	case sub == "bisect" && len(words) > 2 && words[1].text == "run":
		f.call(in, words[2:])
	case sub == "submodule" && len(words) > 1:
		f.foreach(in, words[1:])
	case sub == "config" && len(words) > 2:
		f.gitSet(sc, words[1:])
	}
}

// foreach follows git submodule foreach.
func (f *finder) foreach(sc scope, words []word) {
	i := slices.IndexFunc(words, func(w word) bool { return w.text == "foreach" })
	if i < 0 {
		return
	}
	rest := words[i+1:]
	for len(rest) > 0 && strings.HasPrefix(rest[0].text, "-") {
		rest = rest[1:]
	}
	if len(rest) > 0 {
		f.script(sc, join(rest, " "), syntax.LangBash, nil)
	}
}

// gitSet looks at the setting that git config writes.
func (f *finder) gitSet(sc scope, words []word) {
	var plain []word
	for _, w := range words {
		if !strings.HasPrefix(w.text, "-") && w.text != "set" && w.text != "add" {
			plain = append(plain, w)
		}
	}
	if len(plain) < 2 {
		return
	}
	key, value := plain[len(plain)-2], plain[len(plain)-1]
	f.gitConfig(sc, join([]word{key, {text: "="}, value}, ""), map[string]word{})
}

// gitOptions are the options of git's subcommands whose value is a command.
var gitOptions = map[string]string{
	"rebase":        "-x --exec",
	"grep":          "-O --open-files-in-pager",
	"difftool":      "-x --extcmd",
	"clone":         "-u --upload-pack",
	"fetch":         "--upload-pack",
	"pull":          "--upload-pack",
	"fetch-pack":    "--upload-pack --exec",
	"ls-remote":     "--upload-pack --exec",
	"push":          "--receive-pack --exec",
	"send-pack":     "--receive-pack --exec",
	"archive":       "--exec",
	"filter-branch": "--setup --subdirectory-filter --env-filter --tree-filter --index-filter --parent-filter --msg-filter --commit-filter --tag-name-filter",
	"send-email":    "--to-cmd --cc-cmd --sendmail-cmd --header-cmd",
	"daemon":        "--access-hook",
}

// makeTool looks at variables and text given to make on its command line.
func (f *finder) makeTool(sc scope, name string, words []word) {
	in := sc.in(name)
	for i, w := range words[1:] {
		t := w.text
		key, value, ok := strings.Cut(t, "=")
		key = strings.TrimRight(key, ":?+!")
		switch {
		case strings.HasPrefix(t, "--eval") || t == "-E":
			f.opaque(sc, texts(words), "make evaluates a text as a Makefile")
			f.makeText(in, t)
			if i+2 < len(words) {
				f.makeText(in, words[i+2].text)
			}
		case ok && (key == "SHELL" || key == ".SHELLFLAGS" || key == "MAKE"):
			f.script(in.in(key+"="), cutWord(w, len(t)-len(value)), syntax.LangBash, nil)
			f.opaque(sc, t, "make runs its recipes with another shell")
		case ok:
			f.makeText(in, t)
		case (t == "-f" || t == "--file" || t == "--makefile") && i+2 < len(words) && isStdin(words[i+2]), t == "-f-", t == "--file=-":
			f.opaque(sc, texts(words), "make reads its Makefile from standard input")
			if sc.stdin.kind == inputText {
				f.makeText(in, sc.stdin.word.code())
				f.recipes(in, sc.stdin.word.code())
			}
		}
	}
}

var makeShell = regexp.MustCompile(`\$[({]shell\s+([^()]*(?:\([^()]*\)[^()]*)*)[)}]`)

// makeText looks into $(shell …) and NAME!=… of a Makefile's text.
func (f *finder) makeText(sc scope, text string) {
	for _, m := range makeShell.FindAllStringSubmatch(text, -1) {
		f.source(sc.in("$(shell )"), strings.ReplaceAll(m[1], "$$", "$"), syntax.LangPOSIX, nil)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if _, command, ok := strings.Cut(line, "!="); ok {
			f.source(sc.in("!="), strings.ReplaceAll(command, "$$", "$"), syntax.LangPOSIX, nil)
		}
	}
}

// recipes looks into the recipe lines of a Makefile.
func (f *finder) recipes(sc scope, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		recipe, ok := strings.CutPrefix(line, "\t")
		if !ok {
			_, recipe, ok = strings.Cut(line, ";")
		}
		if ok {
			f.source(sc, strings.TrimLeft(recipe, "@-+ "), syntax.LangPOSIX, nil)
		}
	}
}

// awk looks for the ways in which an awk program starts commands.
func (f *finder) awk(sc scope, name string, words []word) {
	g := wrapper{flags: "hVcCtSOPrbnNIks", values: "fFvEielLDWpo", long: "file= field-separator= assign= source= exec= include= load="}
	o := g.parse(words[1:])
	var programs []word
	file, isFile := o.get("f file E exec")
	switch {
	case file.proc != nil:
		programs = append(programs, f.outputOf(sc, file.proc.Stmts).word)
	case isFile && isStdin(file):
		programs = append(programs, sc.stdin.word)
	}
	if !isFile && len(o.rest) > 0 {
		programs = append(programs, o.rest[0])
	}
	for _, opt := range o.list {
		if opt.name == "e" || opt.name == "source" {
			programs = append(programs, opt.value)
		}
	}
	for _, p := range programs {
		if p.hole {
			f.opaque(sc, p.text, "the %s program is not known before it runs", name)
		}
		sc.word = p.pos
		bare := awkBare(p.text)
		if awkStarts.MatchString(bare) {
			f.opaque(sc, p.text, "the %s program can start commands", name)
			f.code(sc.in(name), p.text)
		}
		if awkWrites.MatchString(bare) {
			f.opaque(sc, p.text, "the %s program can write files", name)
		}
	}
}

var (
	awkStarts = regexp.MustCompile(`\bsystem\s*\(|\|&|(^|[^|])\|([^|]|$)|@\w+\s*\(|@load`)
	awkWrites = regexp.MustCompile(`\bprintf?\b[^;}\n]*>`)
)

// awkBare returns an awk program without the content of its strings, regular
// expressions and comments.
func awkBare(s string) string {
	var b strings.Builder
	last := byte('(') // the last character that counts
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"', c == '/' && strings.IndexByte("(,{};!~&|=\n", last) >= 0:
			rest := afterDelimiter(s[i+1:], c)
			i = len(s) - len(rest) - 1
			b.WriteString("\"\"")
		case c == '#':
			end := strings.IndexByte(s[i:], '\n')
			if end < 0 {
				return b.String()
			}
			i += end - 1
		default:
			b.WriteByte(c)
		}
		if c != ' ' && c != '\t' {
			last = c
		}
	}
	return b.String()
}

// sed looks for the e command and flag, which run commands.
func (f *finder) sed(sc scope, name string, words []word) {
	g := wrapper{flags: "nErsuzb", values: "efl", maybe: "i", long: "expression= file= quiet silent regexp-extended separate unbuffered null-data in-place line-length= sandbox posix debug follow-symlinks binary"}
	o := g.parse(words[1:])
	if _, ok := o.get("sandbox"); ok {
		return
	}
	var programs []word
	for _, opt := range o.list {
		if opt.name == "e" || opt.name == "expression" {
			programs = append(programs, opt.value)
		}
	}
	if _, ok := o.get("e expression f file"); !ok && len(o.rest) > 0 {
		programs = append(programs, o.rest[0])
	}
	for _, p := range programs {
		if p.hole {
			continue
		}
		if script, runs := sedRuns(p.text); runs {
			sc.word = p.pos
			f.opaque(sc, p.text, "the sed program runs commands")
			f.source(sc.in("sed"), script, syntax.LangPOSIX, nil)
		}
	}
}

// sedRuns reports whether a sed program has an e command or an s with the e
// flag, and returns the text that it would run, as far as it stands there.
func sedRuns(program string) (string, bool) {
	s := program
	for s != "" {
		s = strings.TrimLeft(s, " \t\n;{}")
		s = sedAddress(s)
		s = strings.TrimLeft(s, " \t!")
		if s == "" {
			break
		}
		switch s[0] {
		case 'e':
			line, _, _ := strings.Cut(s[1:], "\n")
			return line, true
		case 's', 'y':
			var parts []string
			kind := s[0]
			parts, s = sedParts(s[1:])
			flags := len(s) - len(strings.TrimLeft(s, "gpiImMe0123456789"))
			if kind == 's' && strings.Contains(s[:flags], "e") {
				return parts[1], true
			}
			s = s[flags:]
			if strings.HasPrefix(s, "w") {
				_, s, _ = strings.Cut(s, "\n")
			}
		case 'a', 'i', 'c', 'r', 'R', 'w', 'W', 'b', 't', 'T', ':', '#':
			_, s, _ = strings.Cut(s, "\n")
		default:
			s = s[1:]
		}
	}
	return "", false
}

// sedAddress cuts the addresses off a sed command.
func sedAddress(s string) string {
	for s != "" {
		switch c := s[0]; {
		case c >= '0' && c <= '9', c == '$', c == ',', c == '~', c == '+':
			s = s[1:]
		case c == '/':
			s = afterDelimiter(s[1:], '/')
			s = strings.TrimLeft(s, "IM")
		case c == '\\' && len(s) > 1:
			s = afterDelimiter(s[2:], s[1])
			s = strings.TrimLeft(s, "IM")
		default:
			return s
		}
	}
	return s
}

// afterDelimiter returns what follows the next delimiter.
func afterDelimiter(s string, d byte) string {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case d:
			return s[i+1:]
		}
	}
	return ""
}

// sedParts cuts the pattern and replacement off s/pattern/replacement/flags.
func sedParts(s string) (parts []string, rest string) {
	parts = []string{"", ""}
	if s == "" {
		return parts, ""
	}
	d := s[0]
	rest = s[1:]
	for i := range parts {
		after := afterDelimiter(rest, d)
		parts[i] = strings.TrimSuffix(rest[:len(rest)-len(after)], string(d))
		rest = after
	}
	return parts, rest
}

// editor looks at the commands given to an editor on its command line.
func (f *finder) editor(sc scope, name string, words []word) {
	for i, w := range words[1:] {
		text := ""
		switch t := w.text; {
		case (t == "-c" || t == "--cmd" || t == "--eval" || t == "-eval" || t == "-S" || t == "--execute") && i+2 < len(words):
			text = words[i+2].text
		case strings.HasPrefix(t, "+") && strings.Trim(t[1:], "0123456789") != "" && !strings.HasPrefix(t, "+/"):
			text = t[1:]
		case strings.HasPrefix(t, "--eval="):
			text = t[len("--eval="):]
		default:
			continue
		}
		f.opaque(sc, text, "%s runs commands of its own language", name)
		f.afterBang(sc.in(name), text)
		f.code(sc.in(name), text)
	}
	if sc.stdin.kind == inputText {
		f.afterBang(sc.in(name), sc.stdin.word.code())
	}
}

// bang looks for the shell escapes of interactive programs.
func (f *finder) bang(sc scope, name string, words []word) {
	in := sc.in(name)
	list := make([]string, 0, len(words))
	for _, w := range words[1:] {
		list = append(list, w.text)
	}
	if sc.stdin.kind == inputText {
		list = append(list, strings.Split(sc.stdin.word.code(), "\n")...)
	}
	for _, t := range list {
		trimmed := strings.TrimSpace(t)
		for _, lead := range []string{".shell ", ".system ", `\! `, `\!`, "shell ", "!", "system ", "platform shell "} {
			if rest, ok := strings.CutPrefix(trimmed, lead); ok && rest != "" {
				f.opaque(sc, t, "%s runs commands of its own language", name)
				f.source(in, rest, syntax.LangBash, nil)
				break
			}
		}
	}
}

// afterBang looks into what an editor hands to the shell with !.
func (f *finder) afterBang(sc scope, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if _, script, ok := strings.Cut(line, "!"); ok && script != "" {
			f.source(sc, script, syntax.LangBash, nil)
		}
	}
}

// netcat looks for the program that a connection is handed to.
func (f *finder) netcat(sc scope, name string, words []word) {
	in := sc.in(name)
	for i, w := range words[1:] {
		switch t := w.text; {
		case name != "socat" && (t == "-e" || t == "-c" || t == "--exec" || t == "--sh-exec" || t == "--lua-exec") && i+2 < len(words):
			f.script(in, words[i+2], syntax.LangBash, nil)
		case name == "socat":
			kind, rest, ok := strings.Cut(t, ":")
			if k := strings.ToUpper(kind); ok && (k == "EXEC" || k == "SYSTEM" || k == "SHELL") {
				f.script(in, cutWord(w, len(t)-len(rest)), syntax.LangBash, nil)
			}
		}
	}
}

// An interpreter is a program that takes code in another language.
type interpreter struct {
	code   string // short options whose value is code
	long   string // long ones
	values string // short options with another value
	sub    string // subcommands whose first argument is code
	stdin  bool   // without a file it reads code from its input
}

var interpreters = map[string]interpreter{
	"python":     {code: "c", values: "mWXQ", stdin: true},
	"pypy":       {code: "c", values: "mWX", stdin: true},
	"ipython":    {code: "c", values: "m", stdin: true},
	"perl":       {code: "eE", values: "mMIx", stdin: true},
	"ruby":       {code: "e", values: "rIECFTx", stdin: true},
	"irb":        {stdin: true},
	"node":       {code: "ep", long: "eval print", values: "rC", stdin: true},
	"nodejs":     {code: "ep", long: "eval print", values: "rC", stdin: true},
	"tsx":        {code: "ep", long: "eval print", stdin: true},
	"ts-node":    {code: "ep", long: "eval print", stdin: true},
	"deno":       {sub: "eval", stdin: true},
	"bun":        {code: "ep", long: "eval print"},
	"php":        {code: "rBREF", long: "run process-begin process-code process-end", values: "cdfzSt", stdin: true},
	"lua":        {code: "e", values: "l", stdin: true},
	"luajit":     {code: "e", values: "lj", stdin: true},
	"tclsh":      {stdin: true},
	"wish":       {stdin: true},
	"expect":     {code: "c", values: "df", stdin: true},
	"osascript":  {code: "e", values: "ls", stdin: true},
	"pwsh":       {code: "c", long: "command encodedcommand", stdin: true},
	"powershell": {code: "c", long: "command encodedcommand", stdin: true},
	"fish":       {code: "cC", long: "command init-command", stdin: true},
	"csh":        {code: "c", stdin: true},
	"tcsh":       {code: "c", stdin: true},
	"nu":         {code: "ce", long: "commands execute", stdin: true},
	"xonsh":      {code: "c", stdin: true},
	"elvish":     {code: "c", stdin: true},
	"rc":         {code: "c", stdin: true},
	"Rscript":    {code: "e"},
	"R":          {code: "e", stdin: true},
	"julia":      {code: "eE", long: "eval print", values: "pLJHt", stdin: true},
	"elixir":     {code: "e", long: "eval", values: "rS", stdin: true},
	"iex":        {code: "e", long: "eval", stdin: true},
	"erl":        {long: "eval"},
	"groovy":     {code: "e", stdin: true},
	"scala":      {code: "e", stdin: true},
	"swift":      {code: "e", stdin: true},
	"ghc":        {code: "e"},
	"runghc":     {stdin: true},
	"ocaml":      {code: "e", stdin: true},
	"guile":      {code: "c", values: "lLeC", stdin: true},
	"racket":     {code: "e", values: "fltpr", stdin: true},
	"sbcl":       {long: "eval", stdin: true},
	"clojure":    {code: "e", long: "eval", stdin: true},
	"jshell":     {stdin: true},
	"octave":     {long: "eval", stdin: true},
	"m4":         {stdin: true},
	"gnuplot":    {code: "e", stdin: true},
}

var version = regexp.MustCompile(`^(python|pypy|perl|ruby|lua|luajit|php|node|tclsh|ipython|pwsh)[0-9.]+(-[a-z]+)?w?$`)

// languageName returns the name of an interpreter without its version.
func languageName(name string) string {
	switch strings.ToLower(name) {
	case "powershell", "pwsh":
		return strings.ToLower(name)
	}
	if strings.ContainsAny(name, "0123456789") {
		if m := version.FindStringSubmatch(name); m != nil {
			return m[1]
		}
	}
	return name
}

// interpreter names code in another language opaque, and lists the commands
// that stand in it as plain text.
func (f *finder) interpreter(sc scope, name string, in interpreter, words []word) {
	inner := sc.in(name)
	rest := words[1:]
	for len(rest) > 0 {
		w := rest[0]
		t := w.text
		if w.hole && w.prefix == "" || len(t) < 2 || t[0] != '-' || t == "--" {
			break
		}
		rest = rest[1:]
		if t == "--version" || t == "--help" || t == "-V" || t == "-v" || t == "-h" {
			return
		}
		if code, ok := in.codeOf(w, rest); ok {
			sc.word, inner.word = code.pos, code.pos
			f.opaque(sc, code.text, "%s code is not looked into", name)
			f.code(inner, code.text)
			f.shellLike(inner, name, code)
			return
		}
		if len(t) == 2 && strings.Contains(in.values, t[1:]) && len(rest) > 0 {
			rest = rest[1:]
		}
	}
	if len(rest) > 1 && in.sub != "" && rest[0].text == in.sub {
		f.opaque(sc, rest[1].text, "%s code is not looked into", name)
		f.code(inner, rest[1].text)
		return
	}
	if in.stdin && (len(rest) == 0 || isStdin(rest[0]) || rest[0].proc != nil) {
		if len(rest) > 0 && rest[0].proc != nil {
			sc.stdin = f.outputOf(sc, rest[0].proc.Stmts)
		}
		f.codeInput(sc, name, words)
	}
}

// codeOf returns the code that an option carries.
func (in interpreter) codeOf(w word, rest []word) (word, bool) {
	t := w.text
	if long, ok := strings.CutPrefix(t, "--"); ok || in.code == "" {
		long = strings.TrimPrefix(long, "-")
		name, value, attached := strings.Cut(long, "=")
		for l := range strings.FieldsSeq(in.long) {
			if strings.EqualFold(name, l) {
				if attached {
					return cutWord(w, len(t)-len(value)), true
				}
				return join(rest[:min(1, len(rest))], " "), len(rest) > 0
			}
		}
		return word{}, false
	}
	for l := range strings.FieldsSeq(in.long) { // powershell: -Command, -enc
		if len(t) > 2 && strings.HasPrefix(l, strings.ToLower(t[1:])) {
			return join(rest, " "), len(rest) > 0
		}
	}
	for i := 1; i < len(t); i++ {
		switch {
		case strings.IndexByte(in.code, t[i]) >= 0:
			if i+1 < len(t) && t[i+1] != 'x' {
				return cutWord(w, i+1), true
			}
			return join(rest[:min(1, len(rest))], " "), len(rest) > 0
		case strings.IndexByte(in.values, t[i]) >= 0:
			return word{}, false
		}
	}
	return word{}, false
}

// codeInput names code that an interpreter reads from its input.
func (f *finder) codeInput(sc scope, name string, words []word) {
	if sc.stdin.kind == inputNone {
		sc.stdin = f.input
	}
	switch sc.stdin.kind {
	case inputNone:
		f.opaque(sc, texts(words), "%s runs what it is given later", name)
	case inputText:
		f.opaque(sc, sc.stdin.word.text, "%s code is not looked into", name)
		f.code(sc.in(name), sc.stdin.word.text)
		f.shellLike(sc.in(name), name, sc.stdin.word)
	case inputPipe:
		f.opaque(sc, strings.Join(sc.stdin.from, " | "), "%s runs what other commands print", name)
		f.endanger(sc, sc.stdin.from)
	case inputFile:
		f.opaque(sc, texts(words), "%s runs a file as its input", name)
	}
}

// shellLike reads code for a shell whose language is not parsed as if it were
// bash, for what can be seen that way.
func (f *finder) shellLike(sc scope, name string, code word) {
	switch languageName(name) {
	case "fish", "csh", "tcsh", "xonsh", "elvish", "rc", "nu", "pwsh", "powershell":
		if stmts, err := f.parse(code.code(), syntax.LangBash); err == nil {
			sc = sc.reading(name)
			sc.src = code.code()
			f.stmts(sc, stmts)
		}
	}
}

var (
	codeCalls = regexp.MustCompile("(?:system|popen|exec\\w*|spawn\\w*|call|check_call|check_output|run|Popen|getoutput|getstatusoutput|shell_exec|passthru|proc_open|sh|cmd|shell|do shell script)\\s*[({]?\\s*[fr]?(?:\"((?:[^\"\\\\]|\\\\.)*)\"|'((?:[^'\\\\]|\\\\.)*)')")
	codeTicks = regexp.MustCompile("`([^`$]+)`|qx[{(/]([^})/]*)[})/]|%x[{(]([^})]*)[})]")
	codeLists = regexp.MustCompile(`[\[(]\s*((?:"[^"]*"|'[^']*')(?:\s*,\s*(?:"[^"]*"|'[^']*'))+)\s*[\])]`)
	codeItems = regexp.MustCompile(`"([^"]*)"|'([^']*)'`)
	codePipes = regexp.MustCompile(`\|\s*"([^"]*)"|"([^"]*)"\s*\|\s*getline`)
)

// code lists the commands that stand as literal text in code of another
// language: system("…"), ["git", "push"] and the like. It cannot see all of
// them; the code is opaque whatever is found.
func (f *finder) code(sc scope, text string) {
	if len(text) > maxScriptBytes {
		return
	}
	sc = sc.reading("code")
	for _, re := range []*regexp.Regexp{codeCalls, codeTicks, codePipes} {
		for _, m := range re.FindAllStringSubmatch(text, 32) {
			for _, script := range m[1:] {
				if script != "" {
					f.quiet(sc, unescape(script, `"'\`))
				}
			}
		}
	}
	for _, m := range codeLists.FindAllStringSubmatch(text, 32) {
		var words []word
		for _, item := range codeItems.FindAllStringSubmatch(m[1], 64) {
			words = append(words, word{text: item[1] + item[2]})
		}
		f.call(sc, words)
	}
}

// quiet looks into a text that may be a script and may be anything else, so
// that a fault in it says nothing.
func (f *finder) quiet(sc scope, src string) {
	if stmts, err := f.parse(src, syntax.LangBash); err == nil && f.first("quiet", src, sc) {
		sc.src = src
		f.stmts(sc, stmts)
	}
}

// variable looks at a value that is given to a variable which programs act on.
func (f *finder) variable(sc scope, name string, value word) {
	if commandVar(name) {
		if value.hole || value.text != "" {
			f.script(sc.in(name+"="), value, syntax.LangBash, nil)
		}
		return
	}
	if loadsCode(name, value) {
		f.opaque(sc, name+"="+value.text, "%s changes which code runs", name)
	}
	if strings.HasPrefix(name, "PS") && len(name) == 3 && !value.hole {
		f.expanded(sc.in(name+"="), value.text)
	}
}
