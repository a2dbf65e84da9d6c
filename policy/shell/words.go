package shell

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A word is one argument, as far as it is known.
type word struct {
	text   string // its value, or its source text if the value is not known
	hole   bool   // the value is not known
	many   bool   // for a hole: it can become any number of arguments
	glob   bool   // for a hole: it is only a pattern for file names, or braces
	prefix string // for a hole: what it begins with
	bare   string // for a hole: its text without unknown parts
	pos    int    // its index among the words of the command it was found in

	guesses []string          // for a hole: possible values
	proc    *syntax.ProcSubst // the process substitution in it
	from    []string          // the programs whose output is part of it
	script  string            // for a hole: its text as code, with unknown parts as variables
}

// unknownVar replaces an unknown part in code.
const unknownVar = "${_}"

// code returns the word as shell code.
func (w word) code() string {
	if w.hole {
		return w.script
	}
	return w.text
}

// words resolves the words of a command: quotes, escapes and known positional
// parameters.
func (f *finder) words(sc scope, in []*syntax.Word) []word {
	out := make([]word, 0, len(in))
	for _, w := range in {
		out = f.fields(sc, w, out)
	}
	return out
}

// word resolves a word that is not split, such as the target of a redirection.
func (f *finder) word(sc scope, in *syntax.Word) word {
	if in == nil {
		return word{}
	}
	b := builder{f: f, sc: sc, single: true}
	b.word(in)
	if len(b.out) == 0 {
		return word{}
	}
	return b.out[0]
}

// fields appends the fields of w to out.
func (f *finder) fields(sc scope, w *syntax.Word, out []word) []word {
	if len(w.Parts) == 1 {
		lit, ok := w.Parts[0].(*syntax.Lit)
		if ok && (!strings.ContainsAny(lit.Value, "\\*?[{") || strings.Trim(lit.Value, "[") == "") {
			return append(out, word{text: lit.Value})
		}
	}
	if sc.mayExpandBraces(w) {
		text := sc.source(w)
		return append(out, word{text: text, hole: true, many: true, glob: !strings.ContainsAny(text, "$`<>"),
			script: unknownVar})
	}
	b := builder{f: f, sc: sc, out: out}
	b.word(w)
	return b.out
}

// source returns the source text of node.
func (sc scope) source(node syntax.Node) string {
	from, to := int(node.Pos().Offset()), int(node.End().Offset())
	if from < 0 || to > len(sc.src) || from >= to {
		return ""
	}
	return sc.src[from:to]
}

// A builder builds the fields of one shell word.
type builder struct {
	f      *finder
	sc     scope
	single bool // no field splitting, no globbing
	out    []word

	text, code, bare strings.Builder
	cur              word
	started          bool     // the field exists even if it is empty
	guesses          []string // of the whole field
}

func (b *builder) word(w *syntax.Word) {
	for i, p := range w.Parts {
		if p, ok := p.(*syntax.ProcSubst); ok {
			b.cur.proc = p
		}
		if i > 0 && joinsName(w.Parts[i-1], p) {
			b.addHole("", true)
		}
		b.part(p)
	}
	if len(b.out) == 0 && b.single {
		b.started = true
	}
	b.end()
}

// joinsName reports whether brace expansion makes p part of the name of the variable
// before it: $x{a,b} is $xa $xb.
func joinsName(before, p syntax.WordPart) bool {
	v, ok := before.(*syntax.ParamExp)
	lit, ok2 := p.(*syntax.Lit)
	return ok && ok2 && v.Short && syntax.ValidName(v.Param.Value) && lit.Value != "" &&
		syntax.ValidName("_"+lit.Value[:1])
}

// end ends the current field.
func (b *builder) end() {
	if !b.started {
		b.cur = word{}
		return
	}
	w := b.cur
	w.text = b.text.String()
	if w.hole {
		w.script = b.code.String()
		w.guesses = b.guesses
		w.bare = b.bare.String()
	}
	b.out = append(b.out, w)
	b.text.Reset()
	b.code.Reset()
	b.bare.Reset()
	b.cur, b.started, b.guesses = word{}, false, nil
}

// add appends known text.
func (b *builder) add(s string) {
	b.started = true
	b.text.WriteString(s)
	b.code.WriteString(s)
	b.bare.WriteString(s)
	for i := range b.guesses {
		b.guesses[i] += s
	}
}

// addHole appends an unknown part with its possible values.
func (b *builder) addHole(source string, many bool, guesses ...string) {
	b.started = true
	b.cur.glob = false
	if source == unknownVar {
		source = "…"
	}
	if !b.cur.hole {
		b.cur.hole = true
		b.cur.prefix = b.text.String()
		b.guesses = []string{b.cur.prefix}
	}
	var all []string
	for _, before := range b.guesses {
		for _, g := range guesses {
			if len(all) < 4 && len(before)+len(g) <= maxGuess {
				all = append(all, before+g)
			}
		}
	}
	b.guesses = all
	b.cur.many = b.cur.many || many
	b.text.WriteString(cut(source))
	b.code.WriteString(unknownVar)
}

func (b *builder) part(p syntax.WordPart) {
	if b.f.outOfSteps(b.sc) {
		return
	}
	switch p := p.(type) {
	case *syntax.Lit:
		b.literal(p)
	case *syntax.SglQuoted:
		s := p.Value
		if p.Dollar {
			s = ansiC(s)
		}
		b.add(s)
	case *syntax.DblQuoted:
		if len(p.Parts) == 0 {
			b.started = true // but "$@" without arguments is nothing
		}
		for _, q := range p.Parts {
			if lit, ok := q.(*syntax.Lit); ok {
				b.add(unescape(lit.Value, "$`\"\\"))
				continue
			}
			b.expansion(q, true)
		}
	default:
		b.expansion(p, b.single)
	}
}

// literal adds unquoted text: it resolves escapes; patterns become holes.
func (b *builder) literal(lit *syntax.Lit) {
	if lit.Value == "" {
		return // an empty alternative in braces is no field
	}
	glob := -1
	if !b.single {
		glob = globAt(lit.Value)
	}
	if glob < 0 {
		b.add(unescape(lit.Value, ""))
		return
	}
	b.add(unescape(lit.Value[:glob], ""))
	was := b.cur.hole && !b.cur.glob
	b.addHole(unescape(lit.Value[glob:], ""), true)
	b.cur.glob = !was
}

// expansion adds an expansion.
func (b *builder) expansion(p syntax.WordPart, quoted bool) {
	source := b.sc.source(p)
	switch p := p.(type) {
	case *syntax.ParamExp:
		b.param(p, source, quoted)
	case *syntax.CmdSubst:
		b.cur.from = append(b.cur.from, programsOf(p.Stmts, maxPipe)...)
		b.addHole(source, !quoted, b.f.printed(b.sc, p)...)
	case *syntax.ArithmExp:
		b.addHole(source, false)
	case *syntax.ProcSubst:
		b.addHole(source, len(p.Stmts) == 0)
	case *syntax.ExtGlob, *syntax.BraceExp:
		b.addHole(source, true)
	default:
		b.addHole(source, !quoted)
	}
}

// param adds a variable.
func (b *builder) param(p *syntax.ParamExp, source string, quoted bool) {
	name := ""
	if p.Param != nil {
		name = p.Param.Value
	}
	if b.positional(p, name, quoted) {
		return
	}
	if name == "IFS" && plain(p) && !quoted && len(b.f.vars["IFS"]) == 0 && !b.f.unsure["IFS"] {
		// If the script does not set it, it is white space and ends the field.
		b.end()
		return
	}
	many := !quoted || name == "@" || p.Names != 0
	if index, ok := p.Index.(*syntax.Word); ok {
		many = many || index.Lit() == "@" || index.Lit() == "*"
	}
	b.addHole(source, many, b.f.values(b.sc, p, name)...)
}

// positional adds $1, "$@" and the like, and reports whether they are known.
func (b *builder) positional(p *syntax.ParamExp, name string, quoted bool) bool {
	if b.sc.args == nil || !plain(p) {
		return false
	}
	if b.sc.argsMoved {
		return b.movedArg(name, quoted)
	}
	if name == "@" || name == "*" {
		if len(b.sc.args) == 0 {
			return true
		}
		for i, a := range b.sc.args[1:] {
			if i > 0 && !(name == "*" && quoted) {
				b.end()
			} else if i > 0 && (len(b.f.vars["IFS"]) > 0 || b.f.unsure["IFS"]) {
				b.addHole("", false) // IFS is the separator
			} else if i > 0 {
				b.add(" ")
			}
			b.addWord(a)
		}
		return true
	}
	n, err := strconv.Atoi(name)
	if err != nil || n < 0 {
		return false
	}
	if n < len(b.sc.args) {
		b.addWord(b.sc.args[n])
	} else if quoted {
		b.started = true
	}
	return true
}

// movedArg adds a positional parameter after shift or set, when it is not known which
// argument it is.
func (b *builder) movedArg(name string, quoted bool) bool {
	all := name == "@" || name == "*"
	n, err := strconv.Atoi(name)
	if all {
		n = 1
	} else if err != nil || n < 1 {
		return false
	}
	var guesses []string
	for i := n; i < len(b.sc.args) && len(guesses) < 4; i++ {
		guess := b.sc.args[i].text
		if all {
			guess = texts(b.sc.args[i:])
		}
		guesses = append(guesses, guess)
	}
	b.addHole("$"+name, name == "@" || !quoted, append(guesses, b.f.vars["@"]...)...)
	return true
}

// movesArgs reports whether a script may change its positional parameters.
func movesArgs(src string) bool {
	return strings.Contains(src, "shift") || strings.Contains(src, "set ")
}

// addWord adds an argument of the script or function.
func (b *builder) addWord(a word) {
	if a.hole {
		b.addHole(a.text, a.many, a.guesses...)
		return
	}
	b.add(a.text)
}

// plain reports whether p is $name and nothing more.
func plain(p *syntax.ParamExp) bool {
	return p.Param != nil && !p.Excl && !p.Length && !p.Width && p.Index == nil && p.Slice == nil &&
		p.Repl == nil && p.Names == 0 && p.Exp == nil && p.Flags == nil && p.Modifiers == nil
}

// values returns the possible values of a variable: from assignments so far and from
// the default in its expansion.
func (f *finder) values(sc scope, p *syntax.ParamExp, name string) []string {
	list := f.vars[name]
	if p.Exp == nil || p.Exp.Word == nil {
		if plain(p) || p.Index != nil {
			return list
		}
		return nil
	}
	switch p.Exp.Op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull,
		syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		if w := f.word(sc, p.Exp.Word); !w.hole {
			return append(slices.Clip(list), w.text)
		}
	}
	return list
}

// printed returns the output of a substitution if it is an echo of literals.
func (f *finder) printed(sc scope, p *syntax.CmdSubst) []string {
	sc = sc.in("$( )")
	if len(p.Stmts) != 1 || sc.tooDeep() {
		return nil
	}
	in := f.output(sc, p.Stmts[0])
	if in.kind != inputText || in.word.hole {
		return nil
	}
	return []string{strings.TrimRight(in.word.text, "\n")}
}

// globAt returns the index of the first unescaped pattern character of a literal,
// or -1.
func globAt(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return i
		}
	}
	return -1
}

// concat joins words to one, as eval, watch and ssh do.
func concat(list []word, sep string) word {
	var w word
	var text, code strings.Builder
	for i, part := range list {
		if i > 0 {
			text.WriteString(sep)
			code.WriteString(sep)
		}
		text.WriteString(part.text)
		code.WriteString(part.code())
		w.hole = w.hole || part.hole
		w.from = append(w.from, part.from...)
	}
	if len(list) > 0 {
		w.pos = list[0].pos
	}
	w.text, w.script = text.String(), code.String()
	if w.hole {
		w.guesses = joinGuesses(list, sep)
	}
	return w
}

// joinGuesses returns the possible values of joined words, if each hole has some.
func joinGuesses(list []word, sep string) []string {
	most := 0
	for _, w := range list {
		if w.hole && len(w.guesses) == 0 {
			return nil
		}
		most = max(most, len(w.guesses))
	}
	var out []string
	for n := range min(most, 4) {
		parts := make([]string, len(list))
		for i, w := range list {
			parts[i] = w.text
			if w.hole {
				parts[i] = w.guesses[min(n, len(w.guesses)-1)]
			}
		}
		out = append(out, strings.Join(parts, sep))
	}
	return out
}
