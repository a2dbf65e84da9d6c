package shell

import (
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"toolgate/internal/lazyregexp"
)

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
			f.blockAllow(sc, t, "make runs its recipes with another shell")
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

var makeShell = lazyregexp.New(`\$[({]shell\s+([^()]*(?:\([^()]*\)[^()]*)*)[)}]`)

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
		sc.Word = p.pos
		bare := awkBare(p.text)
		if awkStarts.MatchString(bare) {
			f.opaque(sc, p.text, "the %s program can start commands", name)
			f.code(sc.in(name), p.text)
		}
		if awkWrites.MatchString(bare) {
			f.blockAllow(sc, p.text, "the %s program can write files", name)
		}
	}
}

var (
	awkStarts = lazyregexp.New(`\bsystem\s*\(|\|&|(^|[^|])\|([^|]|$)|@\w+\s*\(|@load`)
	awkWrites = lazyregexp.New(`\bprintf?\b[^;}\n]*>`)
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
	g := wrapper{flags: "nErsuzb", values: "efl", attached: "i", long: "expression= file= quiet silent regexp-extended separate unbuffered null-data in-place line-length= sandbox posix debug follow-symlinks binary"}
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
			sc.Word = p.pos
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
				_, s, _ = strings.Cut(s, "\n") // a file name
			}
		case 'a', 'i', 'c', 'r', 'R', 'w', 'W', 'b', 't', 'T', ':', '#':
			line := ""
			line, s, _ = strings.Cut(s, "\n")
			for strings.HasSuffix(line, `\`) { // the text goes on
				line, s, _ = strings.Cut(s, "\n")
			}
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
		f.afterExclamation(sc.in(name), text)
		f.code(sc.in(name), text)
	}
	if sc.stdin.kind == inputText {
		f.afterExclamation(sc.in(name), sc.stdin.word.code())
	}
}

// shellEscapes looks for the shell escapes of interactive programs.
func (f *finder) shellEscapes(sc scope, name string, words []word) {
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

// afterExclamation looks into what an editor hands to the shell with !.
func (f *finder) afterExclamation(sc scope, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if _, script, ok := strings.Cut(line, "!"); ok && script != "" {
			f.source(sc, script, syntax.LangBash, nil)
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

var interpreters = sync.OnceValue(func() map[string]interpreter {
	return map[string]interpreter{
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
})

var version = lazyregexp.New(`^(python|pypy|perl|ruby|lua|luajit|php|node|tclsh|ipython|pwsh)[0-9.]+(-[a-z]+)?w?$`)

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

// interpreter marks code in another language as opaque, and lists the commands
// that stand in it as plain text.
func (f *finder) interpreter(sc scope, name string, in interpreter, words []word) {
	inner := sc.in(name)
	rest := words[1:]
	for len(rest) > 0 && isInterpreterOption(rest[0]) {
		w := rest[0]
		rest = rest[1:]
		switch w.text {
		case "--version", "--help", "-V", "-v", "-h":
			return
		}
		if code, ok := in.codeOf(w, rest); ok {
			sc.Word, inner.Word = code.pos, code.pos
			f.opaqueCode(sc, inner, name, code.text)
			f.shellLike(inner, name, code)
			return
		}
		if len(w.text) == 2 && strings.Contains(in.values, w.text[1:]) && len(rest) > 0 {
			rest = rest[1:]
		}
	}
	if len(rest) > 1 && in.sub != "" && rest[0].text == in.sub {
		f.opaqueCode(sc, inner, name, rest[1].text)
		return
	}
	if len(rest) > 0 {
		if text, ok := f.fileText(rest[0]); ok {
			f.opaqueCode(sc, inner, name, text.text)
			return
		}
	}
	if in.stdin {
		f.codeFromInput(sc, name, words, rest)
	}
}

// isInterpreterOption reports whether a word is an option, or a part that is
// not known behind the beginning of one.
func isInterpreterOption(w word) bool {
	known := !w.hole || w.prefix != ""
	return known && len(w.text) > 1 && w.text[0] == '-' && w.text != "--"
}

// opaqueCode marks text as code that is not looked into.
func (f *finder) opaqueCode(sc, inner scope, name, text string) {
	f.opaque(sc, text, "%s code is not looked into", name)
	f.code(inner, text)
}

// codeFromInput follows an interpreter with these operands that reads its code
// from standard input or a process substitution, if it does.
func (f *finder) codeFromInput(sc scope, name string, words, operands []word) {
	if len(operands) > 0 {
		first := operands[0]
		if !isStdin(first) && first.proc == nil {
			return
		}
		if first.proc != nil {
			sc.stdin = f.outputOf(sc, first.proc.Stmts)
		}
	}
	f.codeInput(sc, name, words)
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
				return concat(rest[:min(1, len(rest))], " "), len(rest) > 0
			}
		}
		return word{}, false
	}
	for l := range strings.FieldsSeq(in.long) { // powershell: -Command, -enc
		if len(t) > 2 && strings.HasPrefix(l, strings.ToLower(t[1:])) {
			return concat(rest, " "), len(rest) > 0
		}
	}
	for i := 1; i < len(t); i++ {
		switch {
		case strings.IndexByte(in.code, t[i]) >= 0:
			if i+1 < len(t) && t[i+1] != 'x' {
				return cutWord(w, i+1), true
			}
			return concat(rest[:min(1, len(rest))], " "), len(rest) > 0
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
		f.opaqueCode(sc, sc.in(name), name, sc.stdin.word.text)
		f.shellLike(sc.in(name), name, sc.stdin.word)
	case inputPipe:
		f.opaque(sc, strings.Join(sc.stdin.from, " | "), "%s runs what other commands print", name)
		f.endanger(sc, sc.stdin.from)
	case inputFile:
		f.blockAllow(sc, texts(words), "%s runs a file as its input", name)
	}
}

// shellLike reads code for a shell whose language is not parsed as if it were
// bash, for what can be seen that way.
func (f *finder) shellLike(sc scope, name string, code word) {
	if isOtherShell(languageName(name)) {
		if stmts, err := f.parse(code.code(), syntax.LangBash); err == nil {
			sc = sc.reinterpreted(name)
			sc.src = code.code()
			f.stmts(sc, stmts)
		}
	}
}

var (
	codeCalls = lazyregexp.New("(?:system|popen|exec\\w*|spawn\\w*|call|check_call|check_output|run|Popen|getoutput|getstatusoutput|shell_exec|passthru|proc_open|sh|cmd|shell|do shell script)\\s*[({]?\\s*[fr]?(?:\"((?:[^\"\\\\]|\\\\.)*)\"|'((?:[^'\\\\]|\\\\.)*)')")
	codeTicks = lazyregexp.New("`([^`$]+)`|qx[{(/]([^})/]*)[})/]|%x[{(]([^})]*)[})]")
	codeLists = lazyregexp.New(`[\[(]\s*((?:"[^"]*"|'[^']*')(?:\s*,\s*(?:"[^"]*"|'[^']*'))+)\s*[\])]`)
	codeItems = lazyregexp.New(`"([^"]*)"|'([^']*)'`)
	codePipes = lazyregexp.New(`\|\s*"([^"]*)"|"([^"]*)"\s*\|\s*getline`)
)

// code lists the commands that stand as literal text in code of another
// language: system("…"), ["git", "push"] and the like. It cannot see all of
// them; the code is opaque whatever is found.
func (f *finder) code(sc scope, text string) {
	if len(text) > maxScriptBytes {
		return
	}
	sc = sc.reinterpreted("code")
	for _, re := range []*lazyregexp.Regexp{codeCalls, codeTicks, codePipes} {
		for _, m := range re.FindAllStringSubmatch(text, 32) {
			for _, script := range m[1:] {
				if script != "" {
					f.maybeScript(sc, unescape(script, `"'\`))
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

// maybeScript looks into a text that may be a script and may be anything else, so
// that a fault in it says nothing.
func (f *finder) maybeScript(sc scope, src string) {
	if stmts, err := f.parse(src, syntax.LangBash); err == nil && f.firstTime("quiet", src, sc) {
		f.noteScript(sc, src)
		sc.src = src
		f.stmts(sc, stmts)
	}
}
