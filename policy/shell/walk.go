package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// An input is what a command reads from its standard input.
type input struct {
	kind inputKind
	word word     // the text, for inputText
	from []string // the programs that write into the pipe, for inputPipe
}

type inputKind int

const (
	inputNone inputKind = iota // what the call itself has: nothing
	inputText                  // a heredoc, a here-string, an echo
	inputPipe                  // what other commands print
	inputFile                  // a file
)

// script looks into a text that is given to a shell. args are its positional
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

// noteScript notes a text that a shell is given.
func (f *finder) noteScript(sc scope, src string) {
	if !sc.elsewhere {
		f.found.scripts = append(f.found.scripts, src)
	}
}

// source looks into a script.
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
	stmts, err := f.parse(src, lang)
	if err == nil && lang == syntax.LangPOSIX && readDifferently(src) {
		// sh is a plain POSIX shell on one system and bash on another: read
		// it both ways.
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

// readDifferently reports whether a script holds what a plain POSIX shell and
// bash both accept, and take for different things: [[ is a command to one.
func readDifferently(src string) bool {
	for _, s := range []string{"[[", "$'", "$\"", "$[", "&>", "|&"} {
		if strings.Contains(src, s) {
			return true
		}
	}
	return false
}

// nestsDeep reports whether brackets are nested so deep that parsing them
// would take long. It does not know quotes; no script that people write comes
// near.
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

// parse returns the statements of src up to the first fault: a shell runs
// those before it meets the fault.
func (f *finder) parse(src string, lang syntax.LangVariant) ([]*syntax.Stmt, error) {
	p := f.parsers[lang]
	if p == nil {
		p = syntax.NewParser(syntax.Variant(lang))
		if f.parsers == nil {
			f.parsers = make(map[syntax.LangVariant]*syntax.Parser)
		}
		f.parsers[lang] = p
	}
	var stmts []*syntax.Stmt
	var fault error
	for s, err := range p.StmtsSeq(strings.NewReader(src)) {
		if err != nil {
			fault = err // the loop goes on: the parser does not stand being left
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

// leftFunctions looks into the functions that nothing called so far.
func (f *finder) leftFunctions() {
	for i := 0; i < len(f.funcNames); i++ { // a body may define more
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

// stmt takes in a statement: its redirections and its command.
func (f *finder) stmt(sc scope, s *syntax.Stmt) {
	if f.outOfSteps(sc) {
		return
	}
	if sc.tooDeep() {
		f.opaque(sc, sc.source(s), "commands are nested too deep to follow")
		return
	}
	sc.writes = slices.Clip(sc.writes) // what is added is this statement's own
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
	case *syntax.TestClause:
		f.arithmetic(sc, c.X)
	case *syntax.ArithmCmd:
		f.arithmetic(sc, c.X)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			f.arithmetic(sc, x)
		}
	default:
		f.compound(sc, c)
	}
}

// compound takes in a command that is made of others.
func (f *finder) compound(sc scope, cmd syntax.Command) {
	switch c := cmd.(type) {
	case *syntax.BinaryCmd:
		f.binary(sc, c)
	case *syntax.Block:
		f.stmts(sc, c.Stmts)
	case *syntax.Subshell:
		f.stmts(sc.in("( )"), c.Stmts)
	case *syntax.IfClause:
		f.ifClause(sc, c)
	case *syntax.WhileClause:
		f.stmts(sc, c.Cond)
		f.stmts(sc, c.Do)
	case *syntax.ForClause:
		f.forClause(sc, c)
	case *syntax.CaseClause:
		f.caseClause(sc, c)
	case *syntax.FuncDecl:
		f.funcDecl(sc, c)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			f.stmt(sc, c.Stmt)
		}
	case *syntax.CoprocClause:
		f.substitutionsIn(sc, c.Name)
		f.stmt(sc.in("coproc"), c.Stmt)
	default:
		f.opaque(sc, sc.source(c), "this kind of command is not understood")
	}
}

// callExpr takes in a simple command with its assignments.
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
	for n := range words {
		words[n].pos = n
	}
	if len(words) == 0 {
		f.opaque(sc, sc.source(c), "the command's name is not known before it runs")
	}
	f.call(sc, words)
}

// assign takes in NAME=value. With keep it sets the variable for what
// follows, else for one command.
func (f *finder) assign(sc *scope, a *syntax.Assign, keep bool) {
	f.substitutionsIn(*sc, a.Value)
	f.substitutionsIn(*sc, a.Array)
	f.substitutionsIn(*sc, a.Index)
	if a.Name == nil || a.Naked {
		return
	}
	name := a.Name.Value
	value := word{hole: true, text: "…", script: unknownVar}
	switch {
	case a.Index != nil && isAliasTable(name):
		value = f.word(*sc, a.Value)
		f.script(sc.in(name), value, syntax.LangBash, nil)
		if w, ok := a.Index.(*syntax.Word); ok {
			f.defineAlias(f.word(*sc, w).text, value.text)
		}
	case a.Array == nil:
		value = f.word(*sc, a.Value)
	case a.Index == nil && a.Array != nil:
		list := make([]word, 0, len(a.Array.Elems))
		for _, e := range a.Array.Elems {
			list = append(list, f.word(*sc, e.Value))
		}
		f.remember(name, concat(list, " "), false)
		for _, w := range list {
			f.remember(name, w, false)
		}
	}
	f.variable(*sc, name, value)
	if !value.hole {
		f.subscript(sc.reinterpreted(name+"="), value.text) // (( name )) evaluates it
	}
	f.remember(name, value, a.Append)
	if !keep {
		sc.assigns = append(sc.assigns, name+"="+value.text)
	}
}

// isAliasTable reports whether an array holds aliases or functions: a value
// put into it becomes a command.
func isAliasTable(name string) bool {
	switch name {
	case "BASH_ALIASES", "aliases", "galiases", "saliases", "functions", "BASH_CMDS", "commands":
		return true
	}
	return false
}

// remember notes a value that a variable may have.
func (f *finder) remember(name string, value word, more bool) {
	if f.vars == nil {
		f.vars, f.unsure = make(map[string][]string), make(map[string]bool)
	}
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

func (f *finder) binary(sc scope, c *syntax.BinaryCmd) {
	f.stmt(sc, c.X)
	if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
		sc.stdin = f.output(sc, c.X)
	}
	f.stmt(sc, c.Y)
}

func (f *finder) ifClause(sc scope, c *syntax.IfClause) {
	for ; c != nil; c = c.Else {
		f.stmts(sc, c.Cond)
		f.stmts(sc, c.Then)
	}
}

func (f *finder) forClause(sc scope, c *syntax.ForClause) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		for _, w := range l.Items {
			f.substitutionsIn(sc, w)
		}
		for _, w := range f.words(sc, l.Items) {
			f.remember(l.Name.Value, w, false)
		}
		f.variable(sc, l.Name.Value, word{hole: true})
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
			f.arithmetic(sc, x)
		}
	}
	f.stmts(sc, c.Do)
}

func (f *finder) caseClause(sc scope, c *syntax.CaseClause) {
	f.substitutionsIn(sc, c.Word)
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			f.substitutionsIn(sc, p)
		}
		f.stmts(sc, item.Stmts)
	}
}

// funcDecl remembers a function. Its body is looked into where it is called,
// with the arguments that it is given there.
func (f *finder) funcDecl(sc scope, c *syntax.FuncDecl) {
	names := c.Names
	if c.Name != nil {
		names = []*syntax.Lit{c.Name}
	}
	if len(names) == 0 { // zsh runs a function without a name at once
		f.stmt(sc.in("()"), c.Body)
		return
	}
	if f.funcs == nil {
		f.funcs = make(map[string]*function)
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
	found := false
	syntax.Walk(body, func(n syntax.Node) bool {
		if b, ok := n.(*syntax.BinaryCmd); ok && b.Op == syntax.Pipe && is(b.X) && is(b.Y) {
			found = true
		}
		return !found
	})
	return found
}

// declClause takes in export, local, declare and their like.
func (f *finder) declClause(sc scope, c *syntax.DeclClause) {
	words := []word{{text: c.Variant.Value}}
	for _, a := range c.Args {
		f.assign(&sc, a, true)
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

// redirect takes in one redirection: what a command reads, what it writes.
func (f *finder) redirect(sc *scope, r *syntax.Redirect) {
	f.substitutionsIn(*sc, r.Word)
	stdin := r.N == nil || r.N.Value == "0"
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		text := f.heredoc(*sc, r)
		if stdin {
			sc.stdin = input{kind: inputText, word: text}
		}
	case syntax.WordHdoc:
		if stdin {
			sc.stdin = input{kind: inputText, word: f.word(*sc, r.Word)}
		}
	case syntax.RdrIn:
		if stdin {
			sc.stdin = f.fileInput(*sc, r.Word)
		}
	case syntax.DplIn:
		// <&3 reads from something opened elsewhere.
		if stdin && sc.stdin.kind == inputNone {
			sc.stdin = input{kind: inputPipe, from: []string{"<&" + f.word(*sc, r.Word).text}}
		}
	case syntax.DplOut:
		if w := f.word(*sc, r.Word); w.hole || !isDescriptor(w.text) {
			f.write(sc, w, false)
		}
	case syntax.AppOut, syntax.AppClob, syntax.AppAll, syntax.AppAllClob:
		f.write(sc, f.word(*sc, r.Word), true)
	default:
		f.write(sc, f.word(*sc, r.Word), false)
	}
}

// fileInput returns what `< file` feeds to a command.
func (f *finder) fileInput(sc scope, w *syntax.Word) input {
	word := f.word(sc, w)
	if word.proc != nil {
		return f.outputOf(sc, word.proc.Stmts)
	}
	if text, ok := f.fileText(word); ok {
		return input{kind: inputText, word: text}
	}
	return input{kind: inputFile}
}

// writesText remembers what a statement such as cat > file <<EOF writes.
func (f *finder) writesText(sc scope, s *syntax.Stmt) {
	for _, r := range s.Redirs {
		switch r.Op {
		case syntax.RdrOut, syntax.RdrClob, syntax.AppOut, syntax.AppClob:
			if r.N == nil || r.N.Value == "1" {
				f.writtenFile(f.word(sc, r.Word), f.output(sc, s), r.Op == syntax.AppOut || r.Op == syntax.AppClob)
			}
		}
	}
}

// isDescriptor reports whether the operand of >& is a descriptor.
func isDescriptor(s string) bool {
	s = strings.TrimSuffix(s, "-")
	return strings.Trim(s, "0123456789") == "" || s == "p"
}

// write notes a file that a redirection opens for writing.
func (f *finder) write(sc *scope, w word, more bool) {
	if !w.hole {
		switch w.text {
		case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty":
			return
		}
		if strings.HasPrefix(w.text, "/dev/fd/") {
			return
		}
	}
	if w.proc != nil { // > >(tee …): the command in it was looked at
		return
	}
	sc.writes = append(sc.writes, w.text)
	f.found.Writes = append(f.found.Writes, Write{Target: w.text, Known: !w.hole, Append: more, Path: sc.at.String()})
}

// heredoc returns the text of a heredoc as the command reads it.
func (f *finder) heredoc(sc scope, r *syntax.Redirect) word {
	if r.Hdoc == nil {
		return word{}
	}
	quoted := slices.ContainsFunc(r.Word.Parts, func(p syntax.WordPart) bool {
		lit, ok := p.(*syntax.Lit)
		return !ok || strings.Contains(lit.Value, `\`)
	})
	b := builder{f: f, sc: sc, single: true, started: true}
	for _, p := range r.Hdoc.Parts {
		switch lit, ok := p.(*syntax.Lit); {
		case ok && quoted:
			b.add(lit.Value)
		case ok:
			b.add(unescape(lit.Value, "$`\\"))
		default:
			f.substitutionsIn(sc, p)
			b.expansion(p, true)
		}
	}
	b.end()
	return b.out[0]
}

// output returns what a statement prints, as far as it is an echo of literals
// or a heredoc passed on by cat.
func (f *finder) output(sc scope, s *syntax.Stmt) input {
	pipe := input{kind: inputPipe, from: programs(s, maxPipe)}
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) == 0 {
		return pipe
	}
	name := ProgramName(unescape(c.Args[0].Lit(), ""))
	switch name {
	case "echo", "printf", "cat", "tee":
	default:
		return pipe
	}
	for _, r := range s.Redirs {
		quiet := finder{steps: f.steps} // what is in it was listed already
		quiet.redirect(&sc, r)
		f.steps = quiet.steps
	}
	words := f.words(sc, c.Args)
	switch name {
	case "echo":
		return input{kind: inputText, word: echoOutput(words[1:])}
	case "printf":
		return input{kind: inputText, word: printfOutput(words[1:])}
	case "cat", "tee":
		if len(words) == 1 || name == "cat" && len(words) == 2 && words[1].text == "-" {
			if sc.stdin.kind == inputText {
				return sc.stdin
			}
		}
	}
	return pipe
}

// outputOf is output for a list of statements, such as that of <( ).
func (f *finder) outputOf(sc scope, list []*syntax.Stmt) input {
	if len(list) == 1 {
		return f.output(sc, list[0])
	}
	in := input{kind: inputPipe}
	for _, s := range list {
		in.from = append(in.from, programs(s, maxPipe)...)
	}
	return in
}

// maxPipe is how far back a pipe is looked at for where its text comes from.
const maxPipe = 8

// programs returns the names of the programs in a statement, last first, and
// the words that may be programs which they start.
func programs(s *syntax.Stmt, depth int) []string {
	if depth == 0 {
		return nil
	}
	var names []string
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		for _, w := range c.Args[:min(4, len(c.Args))] {
			if lit := w.Lit(); lit != "" {
				names = append(names, ProgramName(lit))
			}
		}
	case *syntax.BinaryCmd:
		names = append(programs(c.Y, depth-1), programs(c.X, depth-1)...)
	case *syntax.Subshell:
		names = programsOf(c.Stmts, depth)
	case *syntax.Block:
		names = programsOf(c.Stmts, depth)
	}
	return names
}

func programsOf(list []*syntax.Stmt, depth int) []string {
	var names []string
	for _, s := range list[:min(4, len(list))] {
		names = append(names, programs(s, depth-1)...)
	}
	return names
}

// echoOutput returns what echo prints.
func echoOutput(args []word) word {
	escapes := false
	for len(args) > 0 && !args[0].hole && len(args[0].text) > 1 && strings.Trim(args[0].text[1:], "neE") == "" && args[0].text[0] == '-' {
		escapes = escapes || strings.Contains(args[0].text, "e")
		args = args[1:]
	}
	return concatWith(args, "\n", func(s string) string {
		if escapes {
			return ansiC(s)
		}
		return s
	})
}

// printfOutput returns what printf prints, for the formats that only pass text on.
func printfOutput(args []word) word {
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	}
	if len(args) == 0 || args[0].hole || strings.HasPrefix(args[0].text, "-v") {
		return word{text: "printf", hole: true, script: unknownVar}
	}
	format := ansiC(args[0].text)
	args = args[1:]
	var parts []word
	for len(parts) <= maxWords {
		before := len(args)
		var ok bool
		if parts, args, ok = printfOnce(parts, args, format); !ok {
			return word{text: format, hole: true, script: unknownVar}
		}
		if len(args) == 0 || len(args) == before {
			break
		}
	}
	return concat(parts, "")
}

// printfOnce goes through a format once. It knows the verbs that pass text on.
func printfOnce(parts, args []word, format string) ([]word, []word, bool) {
	for format != "" {
		text, rest, verb := strings.Cut(format, "%")
		parts = append(parts, word{text: text})
		if !verb {
			break
		}
		if rest == "" || !strings.Contains("%sbqdi", rest[:1]) {
			return nil, nil, false
		}
		format = rest[1:]
		switch {
		case rest[0] == '%':
			parts = append(parts, word{text: "%"})
		case len(args) > 0:
			parts, args = append(parts, args[0]), args[1:]
		}
	}
	return parts, args, true
}

// concatWith is join with each known text changed by fn and end appended.
func concatWith(list []word, end string, fn func(string) string) word {
	list = append([]word(nil), list...)
	for i := range list {
		if !list[i].hole {
			list[i].text = fn(list[i].text)
		}
	}
	w := concat(list, " ")
	w.text += end
	w.script += end
	return w
}

// concat returns one word made of several, as eval, watch and ssh make it.
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

// joinGuesses returns what the joined words may be when each hole has a guess.
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

// substitutionsIn looks for substitutions within a node that is not a command.
func (f *finder) substitutionsIn(sc scope, node syntax.Node) {
	switch n := node.(type) {
	case nil:
		return
	case *syntax.Word:
		if n == nil || len(n.Parts) == 1 && isText(n.Parts[0]) {
			return
		}
	case *syntax.ArrayExpr:
		if n == nil {
			return
		}
	}
	f.substitutions(sc, node)
}

// substitutions walks a node for what inside looks for.
func (f *finder) substitutions(sc scope, node syntax.Node) {
	syntax.Walk(node, func(n syntax.Node) bool {
		if f.outOfSteps(sc) {
			return false
		}
		switch n := n.(type) {
		case *syntax.CmdSubst:
			inner := sc.in("$( )")
			inner.assigns = nil
			f.stmts(inner, n.Stmts)
			return false
		case *syntax.ProcSubst:
			inner := sc.in("<( )")
			if n.Op == syntax.CmdOut {
				inner = sc.in(">( )")
				inner.stdin = input{kind: inputPipe}
			}
			inner.assigns = nil
			f.stmts(inner, n.Stmts)
			return false
		case *syntax.ParamExp:
			f.paramExp(sc, n)
		}
		return true
	})
}

func isText(p syntax.WordPart) bool {
	switch p := p.(type) {
	case *syntax.Lit, *syntax.SglQuoted:
		return true
	case *syntax.DblQuoted:
		return len(p.Parts) == 0 || len(p.Parts) == 1 && isText(p.Parts[0])
	case *syntax.ParamExp:
		return plain(p)
	}
	return false
}

// paramExp notes the expansions that run code found in a variable's value.
func (f *finder) paramExp(sc scope, p *syntax.ParamExp) {
	if p.Flags != nil && strings.Contains(p.Flags.Value, "e") { // zsh
		f.opaque(sc, sc.source(p), "the value is expanded again, which can run commands")
	}
	if p.Exp != nil && p.Exp.Op == syntax.OtherParamOps && p.Exp.Word != nil && p.Exp.Word.Lit() == "P" {
		f.opaque(sc, sc.source(p), "the value is expanded as a prompt, which can run commands")
		if p.Param != nil {
			for _, v := range f.vars[p.Param.Value] {
				f.expanded(sc.reinterpreted(""), v)
			}
		}
	}
	if p.Exp != nil && p.Param != nil && p.Exp.Word != nil && (p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull) {
		f.remember(p.Param.Value, f.word(sc, p.Exp.Word), false)
	}
}

// arithmetic looks into an expression. An array index in a quoted text is
// evaluated too, and can hold a substitution.
func (f *finder) arithmetic(sc scope, node syntax.Node) {
	if node == nil {
		return
	}
	f.substitutionsIn(sc, node)
	syntax.Walk(node, func(n syntax.Node) bool {
		if q, ok := n.(*syntax.SglQuoted); ok {
			f.expanded(sc.in("[ ]"), q.Value)
		}
		return true
	})
}

// subscript looks into a text such as a[$(id)], which some builtins evaluate.
func (f *finder) subscript(sc scope, text string) {
	if _, index, ok := strings.Cut(text, "["); ok {
		f.expanded(sc.in("[ ]"), strings.TrimSuffix(index, "]"))
	}
}

// expanded looks for substitutions in a text that is expanded later, as if it
// stood in double quotes.
func (f *finder) expanded(sc scope, text string) {
	if !strings.Contains(text, "$(") && !strings.Contains(text, "`") || nestsDeep(text) {
		return
	}
	w, err := syntax.NewParser().Document(strings.NewReader(text))
	if err != nil {
		f.opaque(sc, text, "the text cannot be parsed: %s", parseFault(err))
		return
	}
	sc.src = text
	f.substitutionsIn(sc, w)
}
