package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// substitutionsIn analyzes the substitutions in a node that is not a command.
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
	f.walk(sc, node)
}

// walk analyzes the substitutions and statements in a node.
func (f *finder) walk(sc scope, node syntax.Node) {
	syntax.Walk(node, func(n syntax.Node) bool {
		if f.outOfSteps(sc) {
			return false
		}
		switch n := n.(type) {
		case *syntax.Stmt:
			f.stmt(sc, n)
			return false
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
		case *syntax.ArithmExp:
			f.evaluated(sc, n)
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

// paramExp analyzes expansions that run code in a variable's value.
func (f *finder) paramExp(sc scope, p *syntax.ParamExp) {
	if src := sc.source(p); strings.Contains(src, "<(") || strings.Contains(src, ">(") {
		f.opaque(sc, src, "the parser does not know process substitutions in ${ }")
	}
	if p.Index != nil {
		f.evaluated(sc, p.Index)
	}
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
	if p.Exp != nil && p.Param != nil && p.Exp.Word != nil &&
		(p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull) {
		f.remember(p.Param.Value, f.word(sc, p.Exp.Word), false)
	}
}

// arithmetic analyzes an expression.
func (f *finder) arithmetic(sc scope, node syntax.Node) {
	f.walk(sc, node)
	f.evaluated(sc, node)
}

// evaluated analyzes an expression without its quotes and escapes, and the values of
// variables in it: they are evaluated once more, and can contain substitutions.
func (f *finder) evaluated(sc scope, node syntax.Node) {
	syntax.Walk(node, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		case *syntax.Word:
			f.expanded(sc.in("[ ]"), f.word(sc, n).code())
		case *syntax.ParamExp:
			if n.Param != nil {
				for _, v := range f.vars[n.Param.Value] {
					f.expanded(sc.reinterpreted("[ ]"), v)
				}
			}
		}
		return true
	})
}

// subscript analyzes a text such as a[$(id)], which some builtins evaluate.
func (f *finder) subscript(sc scope, text string) {
	if _, index, ok := strings.Cut(text, "["); ok {
		f.expanded(sc.in("[ ]"), strings.TrimSuffix(index, "]"))
	}
}

// subscripts analyzes the arguments of a builtin that evaluates array indexes, even
// quoted ones.
func (f *finder) subscripts(sc scope, words []word) {
	for _, w := range words[1:] {
		f.subscript(sc, w.text)
	}
}

// expanded analyzes a text that is expanded later, as if it were in double quotes.
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
