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
			sc.danger = "" // the word's own <( ) was checked with the word
		}
	}
	if f.runsScripts(sc, name, words, i) {
		return
	}
	if !f.builtin(sc, name, words, i) && !f.starter(sc, name, words, i) && !f.language(sc, name, words) {
		f.unknownWrapper(sc, name, words)
	}
	f.optionCommands(sc, name, words)
	f.runWrittenFile(sc, words)
	if subs, ok := subcommands()[name]; ok {
		f.subcommand(sc, name, subs, words)
	}
	if g, ok := wrapperOf(name); ok {
		f.wrapped(sc, name, g, words, i)
	}
}

// runsScripts follows the programs that do nothing but run scripts or code, and
// reports whether words are a call of one.
func (f *finder) runsScripts(sc scope, name string, words []word, i int) bool {
	if lang, ok := shells[shellName(name)]; ok {
		f.shell(sc, name, lang, words, i)
		return true
	}
	if in, ok := interpreters()[languageName(name)]; ok {
		f.interpreter(sc, name, in, words)
		return true
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

// builtin follows the builtins of shells. It reports whether name is one that
// it knows.
func (f *finder) builtin(sc scope, name string, words []word, i int) bool {
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
	case "read", "unset", "printf", "test", "[", "let", "declare", "typeset", "local", "export", "readonly":
		f.evaluatedIndexes(sc, name, words)
	case "set":
		f.set(words)
	default:
		return false
	}
	return true
}

// starter follows the programs that start others in a way of their own. It
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
	case "kubectl", "oc":
		f.afterDashes(sc, name, words)
	case "at", "batch", "crontab":
		f.deferred(sc, name, words)
	case "firejail", "start-stop-daemon", "valgrind", "kernprof", "entr":
		f.guessCommandStart(sc, name, words)
	default:
		return false
	}
	return true
}

// language follows the programs that can start commands from a language of
// their own. It reports whether name is one of them.
func (f *finder) language(sc scope, name string, words []word) bool {
	switch name {
	case "make", "gmake", "nmake", "bmake":
		f.makeTool(sc, name, words)
	case "awk", "gawk", "mawk", "nawk", "original-awk":
		f.awk(sc, name, words)
	case "sed", "gsed":
		f.sed(sc, name, words)
	case "ed", "ex", "vi", "vim", "nvim", "view", "vimdiff", "emacs":
		f.editor(sc, name, words)
	case "sqlite3", "psql", "mysql", "mariadb", "gdb", "lldb", "ftp", "sftp", "telnet", "dc":
		f.shellEscapes(sc, name, words)
		f.unknownWrapper(sc, name, words)
	default:
		return false
	}
	return true
}

func isDashes(w word) bool { return w.text == "--" }

// wrapperOf returns the grammar of the wrapper called name. The one of env is
// used by [finder.env].
func wrapperOf(name string) (wrapper, bool) {
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") || name == "ld.so" {
		return loader, true
	}
	if gnu, ok := strings.CutPrefix(name, "g"); ok && gnuNames[gnu] {
		g, ok := wrappers()[gnu]
		return g, ok
	}
	g, ok := wrappers()[name]
	return g, ok && name != "env"
}

// gnuNames are the wrappers that macOS users have with a g before the name.
var gnuNames = map[string]bool{"timeout": true, "nice": true, "nohup": true, "stdbuf": true, "xargs": true, "chroot": true, "time": true}

// loader is the dynamic loader, which runs the program it is given.
var loader = wrapper{long: "library-path= preload= audit= argv0= inhibit-cache inhibit-rpath= list verify glibc-hwcaps-prepend= glibc-hwcaps-mask= list-diagnostics list-tunables", noCommand: "list verify"}

// wrapped follows a wrapper to the command it starts.
func (f *finder) wrapped(sc scope, name string, g wrapper, words []word, i int) {
	o := g.parse(words[1:])
	for names := range strings.FieldsSeq(g.noCommand) {
		if _, ok := o.get(names); ok {
			return
		}
	}
	in := sc.in(name)
	in.assigns = slices.Clip(in.assigns)
	in.elsewhere = in.elsewhere || g.elsewhere
	if o.unknown != "" {
		f.opaque(sc, texts(words), "option %s of %s is not known here", o.unknown, name)
		if len(o.rest) > 1 {
			f.call(in.reinterpreted(o.unknown+" with a value"), o.rest[1:])
		}
	}
	if text, ok := o.get(g.script); ok {
		f.script(in, text, syntax.LangBash, nil)
	}
	rest := o.rest
	for g.assigns && len(rest) > 0 && isAssign(rest[0]) {
		f.envAssign(&in, rest[0])
		rest = rest[1:]
	}
	changesVars := len(rest) < len(o.rest)
	if len(rest) <= g.operands {
		return
	}
	rest = rest[g.operands:]
	if g.operands > 0 && g.script != "" && len(rest) > 1 && rest[0].text == "-c" { // flock FILE -c 'script'
		f.script(in, rest[1], syntax.LangBash, nil)
		return
	}
	if g.through && o.unknown == "" && !changesVars {
		f.markThrough(i)
	}
	f.wrappedCommand(sc, in, g, o, rest)
}

// wrappedCommand takes in the words after a wrapper's options and operands.
func (f *finder) wrappedCommand(sc, in scope, g wrapper, o options, words []word) {
	if g.extraArgs {
		words = f.xargs(sc, o, words)
	}
	if g.joined && !runsWords(o) {
		f.script(in, concat(words, " "), syntax.LangBash, nil)
		return
	}
	f.call(in, words)
}

// runsWords reports whether watch was told to start its words as they are.
func runsWords(o options) bool {
	_, ok := o.get("x exec")
	return ok
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
	sc.assigns = append(sc.assigns, w.text)
}

// env follows env, whose -S takes a line of further arguments.
func (f *finder) env(sc scope, words []word, i int) {
	g := wrappers()["env"]
	o := g.parse(words[1:])
	if dir, ok := o.get("P"); ok { // BSD: where the command is looked for
		f.blockAllow(sc, dir.text, "env looks for programs in another place")
	}
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
	f.noteScript(sc, line.code()) // it has escapes of its own
	split, err := Split(line.code())
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

// scriptPerArgument follows a program each of whose arguments is a script.
func (f *finder) scriptPerArgument(sc scope, name string, words []word) {
	g := wrappers()[name]
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
// scriptPerArgument argument is one.
func (f *finder) parallel(sc scope, words []word) {
	g := wrapper{
		flags:    "0kmqtuvXxz",
		values:   "aCDdEIjLNnPSs",
		attached: "il",
		long:     "jobs= colsep= delay= timeout= retries= halt= joblog= results= load= memfree= nice= arg-file= max-args= max-procs= max-replace-args= max-lines= max-chars= delimiter= tagstring= tmpdir= sshlogin= sshloginfile= workdir= env= block= recstart= recend= basefile= return= trc= link dry-run keep-order group ungroup line-buffer tag verbose bar eta progress pipe pipepart will-cite no-notice citation quote xargs no-run-if-empty null silent shuf resume resume-failed cleanup plain interactive compress files header= shebang wd= rpl=",
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
		f.source(in.reinterpreted("arguments"), strings.ReplaceAll(texts(command), "{}", g), syntax.LangBash, nil)
	}
	script := concat(command, " ")
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
		if end := slices.IndexFunc(rest, isDashes); end > 0 && g.operands == 0 && !g.elsewhere {
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
	end := slices.IndexFunc(words, isDashes)
	if end < 0 {
		return
	}
	in := sc.in(name)
	in.elsewhere = true
	f.call(in, words[end+1:])
}

// unknownWrapper follows a program that is not known here but whose arguments look
// like those of a wrapper: `NAME run … -- command`.
func (f *finder) unknownWrapper(sc scope, name string, words []word) {
	switch name {
	case "cargo", "dotnet", "bazel", "go", "gradle", "swift", "stack", "cabal", "mix", "git":
		return // what they run gets the arguments
	}
	if subcommands()[name] != nil || wrappers()[name] != (wrapper{}) {
		return
	}
	for i := 1; i < min(len(words), 8); i++ {
		switch words[i].text {
		case "run", "exec", "shell", "exec-env":
		case "-E":
			if name != "cmake" {
				continue
			}
		case "--args":
			if name != "gdb" {
				continue
			}
		default:
			continue
		}
		rest := words[i+1:]
		if end := slices.IndexFunc(rest, isDashes); end >= 0 {
			rest = rest[end+1:]
		} else if words[i].text == "run" || words[i].text == "exec" || words[i].text == "shell" {
			return
		}
		if len(rest) > 0 && !strings.HasPrefix(rest[0].text, "-") {
			f.call(sc.reinterpreted(name), rest)
		}
		return
	}
}

// guessCommandStart follows wrappers whose options are too many to know: each
// argument that is no option may be the command.
func (f *finder) guessCommandStart(sc scope, name string, words []word) {
	if len(words) < 2 {
		return
	}
	tried := 0
	for i := 1; i < len(words) && tried < 3; i++ {
		if strings.HasPrefix(words[i].text, "-") {
			continue
		}
		tried++
		f.call(sc.reinterpreted(name), words[i:])
	}
}

// deferred names the commands whose work is done by another process, later.
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

func (f *finder) screen(sc scope, name string, words []word) {
	g := wrapper{flags: "dDmrRxXUAailnoOqvOwN", values: "acehLpsStT", attached: ""}
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
	names := commandOptions[name]
	if names == "" && name != "ssh" {
		return
	}
	in := sc.in(name)
	for i := 1; i < len(words); i++ {
		for opt := range strings.FieldsSeq(names) {
			if value, ok := optionValue(words, i, opt, name != "tar"); ok {
				f.script(in, value, syntax.LangBash, nil)
			}
		}
		switch {
		case name == "ssh", name == "scp", name == "sftp":
			f.sshOption(in, words, i)
		case name == "tar", name == "gtar", name == "bsdtar":
			f.tarCheckpoint(in, words[i])
		}
	}
}

// optionValue returns the value of the option opt if words[i] is that option:
// the next word, what follows --name=, or with attached what follows -x.
func optionValue(words []word, i int, opt string, attached bool) (word, bool) {
	w := words[i]
	switch {
	case w.text == opt && i+1 < len(words):
		return words[i+1], true
	case len(opt) > 2 && strings.HasPrefix(w.text, opt+"="):
		return cutWord(w, len(opt)+1), true
	case attached && len(opt) == 2 && len(w.text) > 2 && strings.HasPrefix(w.text, opt):
		return cutWord(w, 2), true
	}
	return word{}, false
}

// tarCheckpoint looks into --checkpoint-action=exec=command.
func (f *finder) tarCheckpoint(sc scope, w word) {
	option := strings.HasPrefix(w.text, "--checkpoint-action") && strings.Contains(w.text, "=exec=")
	if option || strings.HasPrefix(w.text, "exec=") {
		f.script(sc, cutWord(w, strings.Index(w.text, "exec=")+len("exec=")), syntax.LangBash, nil)
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
