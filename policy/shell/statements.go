package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// script analyzes a script that is given to a shell. Args are its positional
// parameters from $0 on.
func (f *finder) script(sc scope, text word, lang syntax.LangVariant, args []word) {
	src := text.text
	if text.pos > 0 {
		sc.Word = text.pos
	}
	if text.hole {
		src = text.script
		f.opaque(sc, text.text, "the text given to a shell is not known before it runs")
		f.endanger(sc, text.from)
		for _, g := range text.guesses {
			f.source(sc.reinterpreted("variables"), g, lang, args)
		}
		if strings.TrimSpace(src) == unknownVar {
			return
		}
	}
	f.source(sc, src, lang, args)
}

// noteScript remembers the text of a script, for [Found.NotPlain].
func (f *finder) noteScript(sc scope, src string) {
	if !sc.elsewhere {
		f.found.scripts = append(f.found.scripts, src)
	}
}

// source analyzes the text of a script.
func (f *finder) source(sc scope, src string, lang syntax.LangVariant, args []word) {
	f.noteScript(sc, src)
	sc.src, sc.args = src, args
	sc.argsMoved = args != nil && movesArgs(src)
	if sc.tooDeep() {
		f.opaque(sc, src, "scripts are nested too deep to follow")
		return
	}
	if !f.firstTime("script", src, sc) {
		return
	}
	if f.bytes += len(src); f.bytes > maxScriptBytes {
		f.opaque(sc, src, "the script is longer than %d bytes", maxScriptBytes)
		return
	}
	if nestsDeep(src) {
		f.opaque(sc, src, "the script is nested too deep to follow")
		return
	}
	if other := asShellsRead(src, lang); other != src {
		f.source(sc.reinterpreted(""), other, lang, args)
	}
	f.misreadText(sc, src)
	stmts, err := f.parse(src, lang)
	if err == nil && lang == syntax.LangPOSIX && readDifferently(src) {
		// sh is a plain POSIX shell on some systems and bash on others: parse
		// it as both.
		f.stmts(sc, stmts)
		stmts, err = f.parse(src, syntax.LangBash)
	}
	if err != nil && lang != syntax.LangBash {
		// sh may be bash, and zsh shares most of its syntax.
		if more, err2 := f.parse(src, syntax.LangBash); err2 == nil || len(more) > len(stmts) {
			stmts, err = more, err2
		}
	}
	if err != nil {
		f.opaque(sc, src, "the script cannot be parsed: %s", parseFault(err))
	}
	f.stmts(sc, stmts)
	f.leftFunctions()
}

// readDifferently reports whether a script contains text that a plain POSIX shell
// and bash both accept but interpret differently: [[ is a command to the former.
func readDifferently(src string) bool {
	return slices.ContainsFunc([]string{"[[", "$'", "$\"", "$[", "&>", "|&"},
		func(s string) bool { return strings.Contains(src, s) })
}

// nestsDeep reports whether brackets are nested so deeply that parsing would take
// too long. It ignores quotes, since real scripts do not come near the limit.
func nestsDeep(src string) bool {
	depth := 0
	for i := range len(src) {
		switch src[i] {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth = max(0, depth-1)
		}
		if depth > maxNesting {
			return true
		}
	}
	return false
}

// parse returns the statements of src up to the first syntax error, and the error:
// a shell runs those statements first.
func (f *finder) parse(src string, lang syntax.LangVariant) ([]*syntax.Stmt, error) {
	p := f.parsers[lang]
	if p == nil {
		p = syntax.NewParser(syntax.Variant(lang))
		f.parsers[lang] = p
	}
	var stmts []*syntax.Stmt
	var fault error
	for s, err := range p.StmtsSeq(strings.NewReader(src)) {
		if err != nil {
			fault = err // do not break: the parser must run to its end
		} else if s != nil {
			stmts = append(stmts, s)
		}
	}
	return stmts, fault
}

func parseFault(err error) string {
	switch err := err.(type) {
	case syntax.ParseError:
		return err.Text
	case syntax.LangError:
		return err.Feature
	}
	return err.Error()
}

// leftFunctions analyzes the functions that nothing has called.
func (f *finder) leftFunctions() {
	for i := 0; i < len(f.funcNames); i++ { // a body may define further ones
		fn := f.funcs[f.funcNames[i]]
		body := fn.scope.in(f.funcNames[i] + "()")
		body.args = nil
		for !fn.called && fn.left < len(fn.bodies) {
			fn.left++
			f.stmt(body, fn.bodies[fn.left-1])
		}
		fn.left = len(fn.bodies)
	}
}

func (f *finder) stmts(sc scope, list []*syntax.Stmt) {
	for _, s := range list {
		f.stmt(sc, s)
	}
}

// stmt analyzes a statement: its redirections and its command.
func (f *finder) stmt(sc scope, s *syntax.Stmt) {
	if f.outOfSteps(sc) {
		return
	}
	if sc.tooDeep() {
		f.opaque(sc, sc.source(s), "commands are nested too deep to follow")
		return
	}
	sc.writes = slices.Clip(sc.writes) // appending must not change the caller's slice
	for _, r := range s.Redirs {
		f.redirect(&sc, r)
	}
	switch c := s.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		f.writesText(sc, s)
		f.callExpr(sc, c)
		if len(c.Args) == 1 && len(s.Redirs) > 0 && c.Args[0].Lit() == "exec" {
			f.input = sc.stdin // for all commands that follow
		}
	case *syntax.DeclClause:
		f.declClause(sc, c)
	case *syntax.TestClause, *syntax.ArithmCmd:
		f.arithmetic(sc, c)
	case *syntax.LetClause:
		f.arithmetic(sc, c)
		f.operators(sc, c)
	default:
		f.compound(sc, c)
	}
}

// compound analyzes a command that is made of others.
func (f *finder) compound(sc scope, cmd syntax.Command) {
	switch c := cmd.(type) {
	case *syntax.Block, *syntax.IfClause, *syntax.WhileClause, *syntax.CaseClause, *syntax.TimeClause:
		f.walk(sc, c)
	case *syntax.BinaryCmd:
		f.stmt(sc, c.X)
		if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
			sc.stdin = f.output(sc, c.X)
		}
		f.stmt(sc, c.Y)
	case *syntax.Subshell:
		f.stmts(sc.in("( )"), c.Stmts)
	case *syntax.ForClause:
		f.forClause(sc, c)
	case *syntax.FuncDecl:
		f.funcDecl(sc, c)
	case *syntax.CoprocClause:
		f.substitutionsIn(sc, c.Name)
		f.misreadCoproc(sc, c)
		f.stmt(sc.in("coproc"), c.Stmt)
	default:
		f.opaque(sc, sc.source(c), "this kind of command is not understood")
	}
}

// callExpr analyzes a simple command with its assignments.
func (f *finder) callExpr(sc scope, c *syntax.CallExpr) {
	sc.assigns = slices.Clip(sc.assigns)
	for _, a := range c.Assigns {
		f.assign(&sc, a, len(c.Args) == 0)
	}
	if len(c.Args) == 0 {
		return
	}
	for _, w := range c.Args {
		f.substitutionsIn(sc, w)
	}
	words := f.words(sc, c.Args)
	for n, w := range words {
		words[n].pos = n
		if strings.HasPrefix(w.text, "{") {
			f.subscript(sc, w.text) // {array[…]}> FILE
		}
	}
	if len(words) == 0 {
		f.opaque(sc, sc.source(c), "the command's name is not known before it runs")
	}
	f.call(sc, words)
	f.expandedCall(sc, c.Args)
}

// assign analyzes NAME=value. With keep, the variable is set for the rest of the
// script, otherwise for one command.
func (f *finder) assign(sc *scope, a *syntax.Assign, keep bool) {
	f.substitutionsIn(*sc, a.Value)
	f.substitutionsIn(*sc, a.Array)
	f.substitutionsIn(*sc, a.Index)
	if a.Index != nil {
		f.evaluated(*sc, a.Index)
	}
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			if e.Index != nil {
				f.evaluated(*sc, e.Index)
			}
		}
	}
	if a.Name == nil || a.Naked {
		return
	}
	name := a.Name.Value
	value := word{hole: true, text: "…", script: unknownVar}
	switch {
	case a.Index != nil && slices.Contains(aliasTables, name):
		value = f.word(*sc, a.Value)
		f.script(sc.in(name), value, syntax.LangBash, nil)
		if w, ok := a.Index.(*syntax.Word); ok {
			f.alsoCalled(f.word(*sc, w).text, value.text)
		}
	case a.Array == nil:
		value = f.word(*sc, a.Value)
	case a.Index == nil:
		list := make([]word, 0, len(a.Array.Elems))
		for _, e := range a.Array.Elems {
			list = append(list, f.word(*sc, e.Value))
			if e.Value != nil && hasExtGlob(e.Value) {
				f.opaque(*sc, sc.source(a), "bash and the parser read a pattern in an array differently")
			}
		}
		f.remember(name, concat(list, " "), false)
		for _, w := range list {
			f.remember(name, w, false)
		}
	}
	f.variable(*sc, name, value)
	text := value.text
	if value.hole {
		text = value.prefix
	}
	f.subscript(sc.reinterpreted(name+"="), text) // (( name )) evaluates it
	f.remember(name, value, a.Append)
	if !keep {
		sc.assigns = append(sc.assigns, name+"="+value.text)
	}
}

// aliasTables are the arrays that hold aliases or functions: their values are commands.
var aliasTables = []string{"BASH_ALIASES", "aliases", "galiases", "saliases", "functions", "BASH_CMDS", "commands"}

// remember adds a possible value of a variable.
func (f *finder) remember(name string, value word, more bool) {
	if value.hole {
		f.unsure[name] = true
		for _, g := range value.guesses {
			f.remember(name, word{text: g}, more)
		}
		return
	}
	known := f.vars[name]
	if more && len(known) > 0 {
		value.text = known[len(known)-1] + value.text
	}
	if len(known) < 8 && len(value.text) <= maxGuess && !slices.Contains(known, value.text) {
		f.vars[name] = append(known, value.text)
	}
}

func (f *finder) forClause(sc scope, c *syntax.ForClause) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		f.walk(sc, l)
		for _, w := range f.words(sc, l.Items) {
			f.remember(l.Name.Value, w, false)
		}
		f.variable(sc, l.Name.Value, word{hole: true})
	case *syntax.CStyleLoop:
		f.arithmetic(sc, l)
	}
	f.stmts(sc, c.Do)
}

// funcDecl adds a function. Its body is analyzed for each call, with the arguments
// of the call.
func (f *finder) funcDecl(sc scope, c *syntax.FuncDecl) {
	names := c.Names
	if c.Name != nil {
		names = []*syntax.Lit{c.Name}
	}
	if len(names) == 0 { // zsh runs a function without a name at once
		f.stmt(sc.in("()"), c.Body)
		return
	}
	for _, n := range names {
		name := unescape(n.Value, "")
		fn := f.funcs[name]
		if fn == nil {
			fn = &function{}
			f.funcs[name] = fn
			f.funcNames = append(f.funcNames, name)
		}
		fn.scope = sc
		if !slices.Contains(fn.bodies, c.Body) {
			fn.bodies = append(fn.bodies, c.Body)
			fn.called = false
		}
		if bomb(c.Body, name) {
			sc.danger = "starts copies of itself without end"
			f.emit(sc, []word{{text: name}})
		}
	}
}

// bomb reports whether a function's body pipes the function into itself.
func bomb(body syntax.Node, name string) bool {
	is := func(s *syntax.Stmt) bool {
		c, ok := s.Cmd.(*syntax.CallExpr)
		return ok && len(c.Args) > 0 && c.Args[0].Lit() == name
	}
	for n := range syntax.Preorder(body) {
		if b, ok := n.(*syntax.BinaryCmd); ok && b.Op == syntax.Pipe && is(b.X) && is(b.Y) {
			return true
		}
	}
	return false
}

// declClause analyzes export, local, declare and similar commands.
func (f *finder) declClause(sc scope, c *syntax.DeclClause) {
	words := []word{{text: c.Variant.Value}}
	for _, a := range c.Args {
		f.assign(&sc, a, true)
		if a.Index != nil {
			f.operators(sc, a.Index)
		}
		switch {
		case a.Naked && a.Name == nil:
			words = f.fields(sc, a.Value, words)
		case a.Naked:
			words = append(words, word{text: a.Name.Value})
		case a.Array != nil:
			words = append(words, word{text: a.Name.Value + "=(…)"})
		default:
			v := f.word(sc, a.Value)
			v.text = a.Name.Value + "=" + v.text
			v.prefix = a.Name.Value + "=" + v.prefix
			v.script = a.Name.Value + "=" + v.script
			v.guesses = nil
			words = append(words, v)
		}
	}
	f.call(sc, words)
}
