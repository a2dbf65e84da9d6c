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
//     two can be its end; a backslash and a newline can also be inside $x;
//   - a carriage return is part of a word;
//   - {x} before a redirection is a word in a plain POSIX shell.
func asShellsRead(src string, lang syntax.LangVariant) string {
	src = continuedComment.ReplaceAllString(src, "$1\n")
	if strings.Contains(src, "<<") || strings.Contains(src, "$\\\n") {
		src = strings.ReplaceAll(src, "\\\n", "")
	}
	if lang == syntax.LangPOSIX {
		src = strings.NewReplacer("}>", "} >", "}<", "} <").Replace(src)
	}
	return strings.ReplaceAll(src, "\r", "\v")
}

var continuedComment = lazyregexp.New(`(?m)((?:^|[\s;&|()<>` + "`" + `])#.*?)\\+\n`)

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
