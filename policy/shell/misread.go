package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"toolgate/internal/lazyregexp"
)

// asShellsRead returns a script in which the parser finds what shells find:
//
//   - a comment ends with its line, even after a backslash;
//   - a line of a here-document that ends in a backslash is one with the next, and the
//     two can be its end;
//   - a carriage return is part of a word;
//   - {x} before a redirection is a word in a plain POSIX shell.
func asShellsRead(src string, lang syntax.LangVariant) string {
	src = continuedComment.ReplaceAllString(src, "$1\n")
	if strings.Contains(src, "<<") {
		src = strings.ReplaceAll(src, "\\\n", "")
	}
	if lang == syntax.LangPOSIX {
		src = strings.NewReplacer("}>", "} >", "}<", "} <").Replace(src)
	}
	return strings.ReplaceAll(src, "\r", "\v")
}

var continuedComment = lazyregexp.New(`(?m)((?:^|[\s;&|()<>` + "`" + `])#.*?)\\+\n`)

// misreadText asks about what the parser takes for something else, wherever it stands.
func (f *finder) misreadText(sc scope, src string) {
	if trimmed := strings.TrimRight(src, "\\"); (len(src)-len(trimmed))%2 == 1 {
		f.opaque(sc, src, "shells differ in what a backslash at the end of a script is")
	}
	if strings.Contains(src, "$\\\n") {
		f.opaque(sc, src, "the parser does not know a line continuation after $")
	}
	if fault := elementRedirect.FindString(src); fault != "" {
		f.opaque(sc, fault, "the parser does not know redirections by an array element")
	}
}

// elementRedirect is {NAME[INDEX]}>file, which the parser takes for a word.
var elementRedirect = lazyregexp.New(`\{\w+\[[^{}]*(?:\{[^{}]*\}[^{}]*)*\]\}[<>&]`)

// misreadCoproc analyzes the text of a coproc again, where the parser loses the order
// of its words or takes a program for a name.
func (f *finder) misreadCoproc(sc scope, c *syntax.CoprocClause) {
	text := strings.TrimSpace(strings.TrimPrefix(sc.source(c), "coproc"))
	if first, _, _ := strings.Cut(text, " "); strings.ContainsAny(first, "=[") {
		f.opaque(sc, sc.source(c), "the parser takes an assignment for the name of a coproc")
	}
	switch cmd := c.Stmt.Cmd.(type) {
	case *syntax.CallExpr:
		if len(cmd.Assigns) == 0 && !strings.Contains(sc.source(cmd.Args[0]), "=") {
			return
		}
		f.opaque(sc, sc.source(c), "an argument of a coproc that ends in = is lost")
	case *syntax.BinaryCmd, nil:
	default:
		return
	}
	f.source(sc.reinterpreted("coproc"), text, syntax.LangBash, sc.args)
}

// duplicate asks about the operand of >& and <& unless shells agree on what it is: bash
// expands a quoted one again, and ends one at "-".
func (f *finder) duplicate(sc scope, r *syntax.Redirect) {
	text := sc.source(r.Word)
	if strings.Trim(strings.TrimSuffix(text, "-"), "0123456789") != "" && !plainPath.MatchString(text) {
		f.opaque(sc, text, "bash reads what follows %s in another way", r.Op)
	}
}

var plainPath = lazyregexp.New(`^[\w./][\w./-]*$`)

// operators asks about arithmetic in the arguments of a builtin: bash splits the command at
// an operator that is not quoted.
func (f *finder) operators(sc scope, args syntax.Node) {
	for n := range syntax.Preorder(args) {
		if op, ok := n.(*syntax.BinaryArithm); ok && strings.ContainsAny(op.Op.String(), "|&<>") {
			f.opaque(sc, sc.source(args), "an operator that is not quoted ends the command in bash")
		}
	}
}

func hasExtGlob(w *syntax.Word) bool {
	for n := range syntax.Preorder(w) {
		if _, ok := n.(*syntax.ExtGlob); ok {
			return true
		}
	}
	return false
}
