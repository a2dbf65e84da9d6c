package shell

import (
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"toolgate/internal/lazyregexp"
)

// An interpreter is a program that runs code in another language.
type interpreter struct {
	code   string // short options whose value is code
	long   string // long options whose value is code
	values string // short options with another value
	sub    string // subcommands whose first argument is code
	stdin  bool   // without a file, it reads code from standard input
}

var interpreters = sync.OnceValue(func() map[string]interpreter {
	return byName(map[string]interpreter{
		"python":                          {code: "c", values: "mWXQ", stdin: true},
		"pypy":                            {code: "c", values: "mWX", stdin: true},
		"ipython":                         {code: "c", values: "m", stdin: true},
		"perl":                            {code: "eE", values: "mMIx", stdin: true},
		"ruby":                            {code: "e", values: "rIECFTx", stdin: true},
		"irb tclsh wish runghc jshell m4": {stdin: true},
		"node nodejs":                     {code: "ep", long: "eval print", values: "rC", stdin: true},
		"tsx ts-node":                     {code: "ep", long: "eval print", stdin: true},
		"deno":                            {sub: "eval", stdin: true},
		"bun":                             {code: "ep", long: "eval print"},
		"php": {code: "rBREF", long: "run process-begin process-code process-end", values: "cdfzSt",
			stdin: true},
		"lua":                                {code: "e", values: "l", stdin: true},
		"luajit":                             {code: "e", values: "lj", stdin: true},
		"expect":                             {code: "c", values: "df", stdin: true},
		"osascript":                          {code: "e", values: "ls", stdin: true},
		"pwsh powershell":                    {code: "c", long: "command encodedcommand", stdin: true},
		"fish":                               {code: "cC", long: "command init-command", stdin: true},
		"csh tcsh xonsh elvish rc":           {code: "c", stdin: true},
		"nu":                                 {code: "ce", long: "commands execute", stdin: true},
		"Rscript ghc":                        {code: "e"},
		"R groovy scala swift ocaml gnuplot": {code: "e", stdin: true},
		"julia":                              {code: "eE", long: "eval print", values: "pLJHt", stdin: true},
		"elixir":                             {code: "e", long: "eval", values: "rS", stdin: true},
		"iex clojure":                        {code: "e", long: "eval", stdin: true},
		"erl":                                {long: "eval"},
		"guile":                              {code: "c", values: "lLeC", stdin: true},
		"racket":                             {code: "e", values: "fltpr", stdin: true},
		"sbcl octave":                        {long: "eval", stdin: true},
	})
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

// interpreter marks code in another language as opaque, and lists commands that are
// literals in it.
func (f *finder) interpreter(sc scope, name string, in interpreter, words []word) {
	rest := words[1:]
	module := false
	for len(rest) > 0 && isInterpreterOption(rest[0]) {
		w := rest[0]
		rest = rest[1:]
		switch w.text {
		case "--version", "--help", "-V", "-v", "-h":
			return
		}
		if code, ok := in.codeOf(w, rest); ok {
			sc.Word = code.pos
			f.opaqueCode(sc, name, code.text)
			f.shellLike(sc, name, code)
			return
		}
		module = module || w.text == "-m"
		if in.takesValue(w) {
			rest = rest[min(1, len(rest)):]
		}
	}
	if len(rest) > 1 && in.sub != "" && rest[0].text == in.sub {
		f.opaqueCode(sc, name, rest[1].text)
		return
	}
	if !module {
		f.operandFiles(sc, rest)
	}
	if len(rest) > 0 {
		if text, ok := f.fileText(rest[0]); ok {
			f.opaqueCode(sc, name, text.text)
			return
		}
	}
	if !in.stdin || len(rest) > 0 && !isStdin(rest[0]) && rest[0].proc == nil {
		return
	}
	if len(rest) > 0 && rest[0].proc != nil {
		sc.stdin = f.outputOf(sc, rest[0].proc.Stmts)
	}
	f.runInput(sc, name, words, func(sc scope) {
		f.opaqueCode(sc, name, sc.stdin.word.text)
		f.shellLike(sc, name, sc.stdin.word)
	})
}

// takesValue reports whether the next word is the value of an option, but no code.
func (in interpreter) takesValue(w word) bool {
	long := strings.HasPrefix(w.text, "--") && slices.Contains(strings.Fields(fileOptions), w.text)
	return long || len(w.text) == 2 && strings.Contains(in.values, w.text[1:])
}

// isInterpreterOption reports whether a word is an option, or a hole that begins like
// one.
func isInterpreterOption(w word) bool {
	known := !w.hole || w.prefix != ""
	return known && len(w.text) > 1 && w.text[0] == '-' && w.text != "--"
}

// opaqueCode marks text as code that is not analyzed.
func (f *finder) opaqueCode(sc scope, name, text string) {
	f.opaque(sc, text, "%s code is not looked into", name)
	f.code(sc.in(name), text)
}

// codeOf returns the code that is the value of an option.
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

// shellLike parses code for a shell of another language as bash, to find at least
// some of its commands.
func (f *finder) shellLike(sc scope, name string, code word) {
	if isOtherShell(languageName(name)) {
		if stmts, err := f.parse(code.code(), syntax.LangBash); err == nil {
			sc = sc.in(name).reinterpreted(name)
			sc.src = code.code()
			f.stmts(sc, stmts)
		}
	}
}

var (
	codeCalls = lazyregexp.New(`(?:system|popen|exec\w*|spawn\w*|call|check_call|check_output|run|Popen|getoutput|` +
		`getstatusoutput|shell_exec|passthru|proc_open|sh|cmd|shell|do shell script)\s*[({]?\s*[fr]?` +
		`(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')`)
	codeTicks = lazyregexp.New("`([^`$]+)`|qx[{(/]([^})/]*)[})/]|%x[{(]([^})]*)[})]")
	codeLists = lazyregexp.New(`[\[(]\s*((?:"[^"]*"|'[^']*')(?:\s*,\s*(?:"[^"]*"|'[^']*'))+)\s*[\])]`)
	codeItems = lazyregexp.New(`"([^"]*)"|'([^']*)'`)
	codePipes = lazyregexp.New(`\|\s*"([^"]*)"|"([^"]*)"\s*\|\s*getline`)
)

// code lists the commands that are literals in code of another language:
// system("…"), ["git", "push"] and the like. It cannot find all of them, so the
// code is opaque in any case.
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

// maybeScript analyzes a text that may or may not be a script; syntax errors are
// ignored.
func (f *finder) maybeScript(sc scope, src string) {
	if stmts, err := f.parse(src, syntax.LangBash); err == nil && f.firstTime("quiet", src, sc) {
		f.noteScript(sc, src)
		sc.src = src
		f.stmts(sc, stmts)
	}
}
