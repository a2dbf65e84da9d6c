package shell

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Limits of the analysis. What exceeds them is opaque.
const (
	maxScriptDepth = 40        // nested scripts and wrappers
	maxNesting     = 1000      // nested brackets in one script
	maxScriptBytes = 256 << 10 // script text parsed per call
	maxCommands    = 5000      // commands listed per call
	maxWords       = 512       // words from one brace expansion
	maxSource      = 200       // bytes of text quoted in an Opaque
	maxGuess       = 4 << 10   // bytes of a variable's possible value
	maxOpaque      = 100       // opaque parts listed per call
	maxSteps       = 200_000   // statements, words and parts of words analyzed per call
)

// A finder analyzes one call.
type finder struct {
	found   Found
	bytes   int             // of script text parsed so far
	full    bool            // maxCommands was reached
	steps   int             // taken so far
	seen    map[string]bool // script texts analyzed already
	parsers map[syntax.LangVariant]*syntax.Parser

	vars      map[string][]string // literal values assigned to each variable, in any script of the call
	unsure    map[string]bool     // variables that were also assigned unknown values
	funcs     map[string]*function
	funcNames []string // in the order of definition
	aliases   map[string][]string
	files     map[string]word // text of files that the call writes
	input     input           // standard input set by exec < file
}

func newFinder() *finder {
	return &finder{
		seen:    make(map[string]bool),
		parsers: make(map[syntax.LangVariant]*syntax.Parser),
		vars:    make(map[string][]string),
		unsure:  make(map[string]bool),
		funcs:   make(map[string]*function),
		aliases: make(map[string][]string),
		files:   make(map[string]word),
	}
}

// A function is a shell function and the scope that defines it.
type function struct {
	bodies []*syntax.Stmt
	scope  scope
	called bool // all bodies were analyzed in a call
	left   int  // bodies analyzed without a call
}

// A scope is the finder's position in the call. It is copied, not shared.
type scope struct {
	path      string // as in [Command.Path]
	depth     int
	src       string // text of the script, to quote parts of it
	args      []word // positional parameters from $0 on; nil if not known
	stdin     input
	assigns   []string
	writes    []string
	derived   bool
	danger    string
	argsMoved bool // shift or set may have changed the positional parameters
	elsewhere bool // the command runs elsewhere
	Origin
}

// in returns the scope one step further in.
func (sc scope) in(label string) scope {
	if sc.path != "" {
		label = sc.path + " > " + label
	}
	sc.path = label
	sc.depth++
	return sc
}

func (sc scope) tooDeep() bool { return sc.depth > maxScriptDepth }

// opaque adds an [Opaque].
func (f *finder) opaque(sc scope, source, reason string, args ...any) {
	f.addOpaque(Opaque{Reason: fmt.Sprintf(reason, args...), Source: oneLine(source), Path: sc.path,
		Origin: sc.Origin})
}

// blockAllow adds an [Opaque] that hides no command but keeps an allow from covering
// the call.
func (f *finder) blockAllow(sc scope, source, reason string, args ...any) {
	f.addOpaque(Opaque{Reason: fmt.Sprintf(reason, args...), Source: oneLine(source), Path: sc.path,
		NoAllow: true, Origin: sc.Origin})
}

func (f *finder) addOpaque(o Opaque) {
	switch n := len(f.found.Opaque); {
	case n < maxOpaque:
		if !slices.Contains(f.found.Opaque, o) {
			f.found.Opaque = append(f.found.Opaque, o)
		}
	case n == maxOpaque: // those left out may be worse
		f.found.Opaque = append(f.found.Opaque, Opaque{Reason: "more in it is not known than is listed"})
	}
}

func oneLine(s string) string {
	return cut(strings.Join(strings.Fields(s[:min(len(s), 4*maxSource)]), " "))
}

// cut returns s, or its beginning when it is long.
func cut(s string) string {
	if len(s) > maxSource {
		return strings.ToValidUTF8(s[:maxSource], "") + "…"
	}
	return s
}

// outOfSteps counts a step and reports whether the limit is reached.
func (f *finder) outOfSteps(sc scope) bool {
	f.steps++
	if f.steps == maxSteps {
		f.opaque(sc, "", "there is too much in it to look at")
	}
	return f.steps >= maxSteps
}

// call analyzes one simple command: it lists the command and what it starts.
func (f *finder) call(sc scope, words []word) {
	if len(words) == 0 || f.outOfSteps(sc) {
		return
	}
	if sc.tooDeep() {
		f.opaque(sc, texts(words), "commands are nested too deep to follow")
		return
	}
	if words[0].pos > 0 {
		sc.Word = words[0].pos
	}
	f.callWithGuesses(sc, words)
	name, ok := f.programName(sc, words)
	if !ok {
		return
	}
	if lower := strings.ToLower(name); lower != name { // macOS and Windows ignore case
		f.call(sc.reinterpreted(name), append([]word{{text: lower, pos: words[0].pos}}, words[1:]...))
	}
	i := f.emit(sc, words)
	if i < 0 {
		return
	}
	body := sc
	sc.Parent = i + 1
	words = placed(words)
	f.callAlias(sc, words)
	if f.callFunction(body, words) {
		f.found.Commands[i].Through = true // its body is listed
		return
	}
	f.dispatch(sc, name, words, i)
}

// placed returns words with their positions set.
func placed(words []word) []word {
	fresh := false
	for n := range words {
		if words[n].pos == n {
			continue
		}
		if !fresh {
			words, fresh = slices.Clone(words), true // the slice is shared
		}
		words[n].pos = n
	}
	return words
}

// markThrough sets [Command.Through] of command i, unless its program may not be the
// one that its name suggests.
func (f *finder) markThrough(i int) {
	if i < 0 {
		return
	}
	c := &f.found.Commands[i]
	c.Through = len(c.Holes) == 0 || c.Holes[0].Index > 0
	if strings.ContainsAny(c.Argv[0], `/\\`) && !IsSystemProgram(c.Argv[0]) {
		c.Through = false
	}
}

// emit lists one command and returns its index, or -1 if the list is full.
func (f *finder) emit(sc scope, words []word) int {
	if len(f.found.Commands) >= maxCommands {
		if !f.full {
			f.full = true
			f.opaque(sc, texts(words), "there are more than %d commands", maxCommands)
		}
		return -1
	}
	c := Command{
		Argv:    make([]string, len(words)),
		Path:    sc.path,
		Assigns: sc.assigns,
		Writes:  sc.writes,
		Derived: sc.derived,
		danger:  sc.danger,
		Origin:  sc.Origin,

		Elsewhere: sc.elsewhere,
	}
	for i, w := range words {
		c.Argv[i] = w.text
		if w.hole {
			c.Holes = append(c.Holes, Hole{Index: i, Prefix: w.prefix, Many: w.many, Glob: w.glob})
		}
	}
	f.found.Commands = append(f.found.Commands, c)
	return len(f.found.Commands) - 1
}

// programName returns the name of the program that words run. If it is not known,
// it adds an [Opaque] and analyzes other possible readings.
func (f *finder) programName(sc scope, words []word) (string, bool) {
	w := words[0]
	if !w.hole {
		if len(w.text) > 1 && w.text[0] == '=' { // zsh expands =name to the program's path
			f.call(sc.reinterpreted(w.text), append([]word{{text: w.text[1:], pos: w.pos}}, words[1:]...))
		}
		name := ProgramName(w.text)
		if sub, ok := strings.CutPrefix(name, "git-"); ok {
			f.call(sc.reinterpreted(name),
				append([]word{{text: "git", pos: w.pos}, {text: sub, pos: w.pos}}, words[1:]...))
		}
		return name, true
	}
	switch strings.Trim(w.text, `${}"`) {
	case "SHELL", "BASH", "0": // these commonly name a shell
		f.dispatch(sc, "sh", words, -1)
	}
	if !w.many {
		// "$dir/bin/git" runs a program called git.
		if i := strings.LastIndexByte(w.text, '/'); i >= 0 && !strings.ContainsAny(w.text[i:], "$`*?[") {
			return ProgramName(w.text), true
		}
	}
	f.opaque(sc, texts(words), "the command's name is not known before it runs")
	if len(w.guesses) == 0 {
		// If the variable is empty, the rest of the word or the next word is the name.
		rest := words[1:]
		if w.bare != "" {
			rest = append([]word{{text: w.bare, pos: w.pos}}, rest...)
		}
		if len(rest) > 0 && !strings.HasPrefix(rest[0].text, "-") {
			f.call(sc.reinterpreted(w.text+" empty"), rest)
		}
	}
	return "", false
}

// reinterpreted returns the scope for an alternative reading of a command.
func (sc scope) reinterpreted(label string) scope {
	sc = sc.in(label)
	sc.derived = true
	return sc
}

// callWithGuesses analyzes words with possible values of their variables, to find
// git push in `x=push; git $x`.
func (f *finder) callWithGuesses(sc scope, words []word) {
	most := 0
	for _, w := range words {
		most = max(most, len(w.guesses))
	}
	for n := range min(most, 4) {
		guessed := make([]word, 0, len(words))
		for _, w := range words {
			if len(w.guesses) == 0 {
				guessed = append(guessed, w)
				continue
			}
			g := w.guesses[min(n, len(w.guesses)-1)]
			if !w.many {
				guessed = append(guessed, word{text: g, pos: w.pos})
				continue
			}
			for field := range strings.FieldsSeq(g) {
				guessed = append(guessed, word{text: field, pos: w.pos})
			}
		}
		f.call(sc.reinterpreted("variables"), guessed)
	}
}

// callFunction analyzes the body of a called function that the script defines.
func (f *finder) callFunction(sc scope, words []word) bool {
	fn := f.funcs[words[0].text]
	if fn == nil || words[0].hole {
		return false
	}
	fn.called = true
	if !f.firstTime("function", fmt.Sprint(len(fn.bodies), texts(words)), sc) {
		return true
	}
	body := sc.in(words[0].text + "()")
	body.src = fn.scope.src
	body.args = words
	for _, s := range fn.bodies {
		body.argsMoved = movesArgs(body.source(s))
		f.stmt(body, s)
	}
	return true
}

// alsoCalled adds a text that an alias may stand for.
func (f *finder) alsoCalled(name, text string) {
	if !slices.Contains(f.aliases[name], text) {
		f.aliases[name] = append(f.aliases[name], text)
	}
}

// callAlias analyzes the texts of a called alias that the script defines. The name
// itself is listed too, since not every shell expands aliases.
func (f *finder) callAlias(sc scope, words []word) {
	values := f.aliases[words[0].text]
	if len(values) == 0 || words[0].hole || !f.firstTime("alias", texts(words), sc) {
		return
	}
	args := ""
	for _, w := range words[1:] {
		if w.hole {
			args += " " + w.script
		} else {
			args += " '" + strings.ReplaceAll(w.text, "'", `'\''`) + "'"
		}
	}
	for _, v := range values {
		f.script(sc.reinterpreted("alias "+words[0].text), word{text: v + args}, syntax.LangBash, nil)
	}
}

// firstTime reports whether text is analyzed for the first time in an equal scope.
// That bounds the work on repetitive scripts.
func (f *finder) firstTime(kind, text string, sc scope) bool {
	from := sc.Origin
	if sc.derived {
		from = Origin{} // no allow is needed
	}
	var key strings.Builder
	fmt.Fprintf(&key, "%s\x00%t\x00%v\x00%d\x00%s\x00", kind, sc.derived, from, sc.stdin.kind, sc.stdin.word.text)
	for _, a := range sc.args {
		fmt.Fprintf(&key, "%t%s\x00", a.hole, a.text)
	}
	key.WriteString(text)
	if f.seen[key.String()] {
		return false
	}
	f.seen[key.String()] = true
	return true
}

// texts returns the words as one line.
func texts(words []word) string { return strings.Join(textsOf(words), " ") }
