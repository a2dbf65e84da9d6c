package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// dispatch finds the commands that words[0], a program called name, starts.
// The command itself is entry i of the list; i is -1 if it is not listed.
func (f *finder) dispatch(sc scope, name string, words []word, i int) {
	for _, w := range words[1:] {
		if w.proc != nil {
			sc.danger = "" // the contents of <( ) were checked with the word
		}
	}
	f.namedFiles(sc, name, words)
	if f.runsScripts(sc, name, words, i) {
		return
	}
	g, wraps := wrapperOf(name)
	if !f.evaluator(sc, name, words, i) && !f.starter(sc, name, words, i) && !wraps && !takesData(name) {
		f.suspectAll(sc, name, words, i)
	}
	f.optionCommands(sc, name, words)
	f.runWrittenFile(sc, words)
	if subs, ok := subcommands()[name]; ok {
		f.subcommand(sc, name, subs, words, i)
	}
	if wraps {
		f.wrapped(sc, name, g, words, i)
	}
}

// runsScripts follows programs that only run scripts or code. It reports whether
// name is one of them.
func (f *finder) runsScripts(sc scope, name string, words []word, i int) bool {
	if lang, ok := shells[shellName(name)]; ok {
		f.shell(sc, name, lang, words, i)
		return true
	}
	if in, ok := interpreters()[languageName(name)]; ok {
		f.interpreter(sc, name, in, words)
		return subcommands()[name] == nil
	}
	switch name {
	case "hyperfine", "concurrently":
		f.scriptPerArgument(sc, name, words)
		return true
	case "su", "runuser":
		return f.su(sc, name, words)
	}
	return false
}

// evaluator follows shell builtins, and programs whose own language can start
// commands. It reports whether name is one of them.
func (f *finder) evaluator(sc scope, name string, words []word, i int) bool {
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
		f.builtinOption(sc, name, words)
		f.subscripts(sc.in(name), words)
	case "read", "unset", "printf", "test", "[", "let", "declare", "typeset", "local", "export", "readonly", "wait",
		"return", "getopts", "shift", ":":
		f.subscripts(sc.in(name), words)
		f.assigner(sc, name, words, i)
	case "set":
		f.set(sc, words)
		f.subscripts(sc.in(name), words)
	case "make", "gmake", "nmake", "bmake":
		f.makeTool(sc, name, words)
		f.suspect(i, slices.DeleteFunc(slices.Clone(words[1:]), // recipes run the values of variables
			func(w word) bool { return !strings.Contains(w.text, "=") }))
	case "awk", "gawk", "mawk", "nawk", "original-awk":
		f.awk(sc, name, words)
	case "sed", "gsed":
		f.sed(sc, name, words)
	case "ed", "ex", "vi", "vim", "nvim", "view", "vimdiff", "emacs":
		f.editor(sc, name, words)
	case "sqlite3", "psql", "mysql", "mariadb", "gdb", "lldb", "ftp", "sftp", "telnet", "dc":
		f.shellEscapes(sc, name, words)
		f.suspectAll(sc, name, words, i)
	default:
		return false
	}
	return true
}

// starter follows programs that start others and have a syntax of their own. It
// reports whether name is one of them.
func (f *finder) starter(sc scope, name string, words []word, i int) bool {
	switch name {
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
	case "nc", "ncat", "netcat", "socat":
		f.netcat(sc, name, words)
	case "tee":
		for _, w := range words[1:] {
			f.writtenFile(w, sc.stdin, false)
		}
	case "su", "runuser": // see runsScripts
	case "capsh":
		if end := slices.IndexFunc(words, isDashes); end > 0 {
			f.shell(sc, "bash", syntax.LangBash, words[end:], -1)
		}
	case "--":
		f.call(sc.reinterpreted(name), words[1:]) // time -- command
	case "screen", "abduco", "dtach":
		f.screen(sc, name, words)
	case "at", "batch", "crontab":
		f.deferred(sc, name, words)
	default:
		return f.partlyKnown(sc, name, words, i)
	}
	return true
}

// partlyKnown follows programs some of whose arguments may be a command. It reports
// whether name is one of them.
func (f *finder) partlyKnown(sc scope, name string, words []word, i int) bool {
	switch name {
	case "kubectl", "oc":
		if end := slices.IndexFunc(words, isDashes); end >= 0 {
			in := sc.in(name)
			in.elsewhere = true
			f.call(in, words[end+1:])
		} else if slices.ContainsFunc(words, func(w word) bool { return w.text == "exec" }) {
			f.suspect(i, words[1:]) // kubectl exec POD COMMAND
		}
	case "gh":
		if len(words) > 1 && slices.Contains([]string{"alias", "codespace", "cs"}, words[1].text) {
			f.suspect(i, words[1:])
		}
	case "cargo":
		if end := slices.IndexFunc(words, isDashes); end > 0 {
			words = words[:end] // what follows is for the program that it builds
		}
		f.suspectAll(sc, name, words, i)
	case "firejail", "start-stop-daemon", "valgrind", "kernprof", "entr":
		f.guessCommandStart(sc, name, words)
		f.suspectAll(sc, name, words, i)
	default:
		return false
	}
	return true
}

func isDashes(w word) bool { return w.text == "--" }

// scriptPerArgument follows a program whose arguments are scripts.
func (f *finder) scriptPerArgument(sc scope, name string, words []word) {
	g := wrappers()[name]
	o := g.parse(words[1:])
	for _, w := range append(o.rest, o.all(g.script)...) {
		f.script(sc.in(name), w, syntax.LangBash, nil)
	}
}

// find follows find to the commands that it starts.
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

// fd follows fd to the command that it starts.
func (f *finder) fd(sc scope, name string, words []word) {
	for i := 1; i < len(words); i++ {
		t, first, attached := strings.Cut(words[i].text, "=")
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

// parallel follows GNU parallel: the words before ::: are a script, or if there are
// none, each argument is one.
func (f *finder) parallel(sc scope, words []word) {
	g := wrapper{options: "-0kmqtuvXxza:C:D:d:E:I:j:L:N:n:P:S:s:i::l:: jobs= colsep= delay= timeout= retries= halt= " +
		"joblog= results= load= memfree= nice= arg-file= max-args= max-procs= max-replace-args= max-lines= " +
		"max-chars= delimiter= tagstring= tmpdir= sshlogin= sshloginfile= workdir= env= block= recstart= " +
		"recend= basefile= return= trc= link dry-run keep-order group ungroup line-buffer tag verbose bar eta " +
		"progress pipe pipepart will-cite no-notice citation quote xargs no-run-if-empty null silent shuf " +
		"resume resume-failed cleanup plain interactive compress files header= shebang wd= rpl="}
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
	if fillMarks(text) == text && !strings.Contains(text, "{#}") && !strings.Contains(text, "{%}") {
		command = append(command[:end:end], word{text: "{}"})
	}
	for _, g := range guesses {
		f.source(in.reinterpreted("arguments"), strings.ReplaceAll(texts(command), "{}", g), syntax.LangBash, nil)
	}
	script := concat(command, " ")
	script.text, script.script = fillMarks(script.text), fillMarks(script.script)
	f.script(in, script, syntax.LangBash, nil)
}

// fillMarks puts unknown text in place of the marks of parallel.
func fillMarks(text string) string {
	for _, mark := range []string{"{}", "{.}", "{/}", "{//}", "{/.}", "{1}", "{2}", "{3}"} {
		text = strings.ReplaceAll(text, mark, unknownVar)
	}
	return text
}

// guessCommandStart follows wrappers with too many options to know: any argument
// that is not an option may be the command.
func (f *finder) guessCommandStart(sc scope, name string, words []word) {
	tried := 0
	for i := 1; i < len(words) && tried < 3; i++ {
		if strings.HasPrefix(words[i].text, "-") {
			continue
		}
		tried++
		f.call(sc.reinterpreted(name), words[i:])
	}
}

// deferred follows programs that have another process run commands later.
func (f *finder) deferred(sc scope, name string, words []word) {
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

// screen follows terminal multiplexers to the command that they start.
func (f *finder) screen(sc scope, name string, words []word) {
	g := wrapper{options: "-dDmrRxXUAilnoOqvwNa:c:e:h:L:p:s:S:t:T:"}
	if name != "screen" {
		g = wrapper{options: "-nNczAe:E:r:R:p:", operands: 1}
	}
	o := g.parse(words[1:])
	if len(o.rest) > g.operands {
		f.call(sc.in(name), o.rest[g.operands:])
	}
}

// netcat follows netcat and socat to the program that serves the connection.
func (f *finder) netcat(sc scope, name string, words []word) {
	in := sc.in(name)
	for i, w := range words[1:] {
		switch t := w.text; {
		case name != "socat" &&
			(t == "-e" || t == "-c" || t == "--exec" || t == "--sh-exec" || t == "--lua-exec") && i+2 < len(words):
			f.script(in, words[i+2], syntax.LangBash, nil)
		case name == "socat":
			kind, rest, ok := strings.Cut(t, ":")
			if k := strings.ToUpper(kind); ok && (k == "EXEC" || k == "SYSTEM" || k == "SHELL") {
				f.script(in, cutWord(w, len(t)-len(rest)), syntax.LangBash, nil)
			}
		}
	}
}
