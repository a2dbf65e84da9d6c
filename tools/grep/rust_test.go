package grep

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// rust returns the pattern in the syntax of ripgrep's regular expressions. Ok is
// false for one that they cannot express.
func (p *pattern) rust() (expr string, ok bool) {
	if p.multiline && !matchesNewline(p.tree) {
		// Ripgrep would search line by line, and take the start of each for
		// that of the text.
		return "", false
	}
	w := rustWriter{newline: p.multiline}
	ok = w.write(p.tree)
	return w.String(), ok
}

// matchesNewline is crossesLines, regardless of the start and end of the text.
func matchesNewline(re *syntax.Regexp) bool {
	if re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText {
		return false
	}
	if len(re.Sub) > 0 {
		return slices.ContainsFunc(re.Sub, matchesNewline)
	}
	return crossesLines(re)
}

type rustWriter struct {
	strings.Builder
	newline bool // classes without a line end are so for a reason
}

func (w *rustWriter) write(re *syntax.Regexp) bool {
	sub := func(before, after string) bool {
		w.WriteString(before)
		for i, s := range re.Sub {
			if i > 0 && re.Op == syntax.OpAlternate {
				w.WriteByte('|')
			}
			if !w.write(s) {
				return false
			}
		}
		w.WriteString(after)
		return true
	}
	lazy := ""
	if re.Flags&syntax.NonGreedy != 0 {
		lazy = "?"
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
		w.WriteString("(?:)")
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			w.WriteString("(?i:")
		} else {
			w.WriteString("(?:")
		}
		for _, r := range re.Rune {
			if !w.rune(r) {
				return false
			}
		}
		w.WriteByte(')')
	case syntax.OpCharClass:
		return w.class(re.Rune)
	case syntax.OpAnyCharNotNL:
		w.WriteString("(?-s:.)")
	case syntax.OpAnyChar:
		w.WriteString("(?s:.)")
	case syntax.OpBeginLine:
		w.WriteString("(?m:^)")
	case syntax.OpEndLine:
		w.WriteString("(?m:$)")
	case syntax.OpBeginText:
		w.WriteString(`\A`)
	case syntax.OpEndText:
		w.WriteString(`\z`)
	case syntax.OpWordBoundary:
		w.WriteString(`\b`)
	case syntax.OpNoWordBoundary:
		w.WriteString(`\B`)
	case syntax.OpCapture:
		if _, ok := markNamed(re.Name); ok {
			return false // ripgrep 13 does not know them
		}
		return sub("(?:", ")")
	case syntax.OpConcat, syntax.OpAlternate:
		return sub("(?:", ")")
	case syntax.OpStar:
		return sub("(?:", ")*"+lazy)
	case syntax.OpPlus:
		return sub("(?:", ")+"+lazy)
	case syntax.OpQuest:
		return sub("(?:", ")?"+lazy)
	case syntax.OpRepeat:
		most := ""
		if re.Max >= 0 {
			most = fmt.Sprint(re.Max)
		}
		return sub("(?:", fmt.Sprintf("){%d,%s}%s", re.Min, most, lazy))
	default:
		return false
	}
	return true
}

// rune writes a literal character; what is not a letter or digit as its
// number, so that nothing has a meaning of its own.
func (w *rustWriter) rune(r rune) bool {
	if 0xD800 <= r && r <= 0xDFFF {
		return false // no character
	}
	if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == ' ' {
		w.WriteRune(r)
		return true
	}
	fmt.Fprintf(w, `\x{%X}`, r)
	return true
}

func (w *rustWriter) class(class []rune) bool {
	for _, s := range named() {
		if slices.Equal(class, s.class) || !w.newline && slices.Equal(class, s.withinLine) {
			w.WriteString(s.name)
			return true
		}
	}
	w.WriteByte('[')
	empty := true
	write := func(lo, hi rune) {
		if lo <= hi {
			fmt.Fprintf(w, `\x{%X}-\x{%X}`, lo, hi)
			empty = false
		}
	}
	for i := 0; i < len(class); i += 2 {
		// Surrogates are no characters.
		write(class[i], min(class[i+1], 0xD7FF))
		write(max(class[i], 0xE000), class[i+1])
	}
	w.WriteByte(']')
	return !empty
}

// A namedClass is a class that has a short name, which is faster to read.
type namedClass struct {
	name       string
	class      []rune
	withinLine []rune // class without the line end
}

var named = sync.OnceValue(func() []namedClass {
	var all []namedClass
	for _, c := range []struct{ name, expr string }{
		{`\w`, "[" + wordClass + "]"}, {`\W`, "[^" + wordClass + "]"},
		{`\d`, "[" + digitClass + "]"}, {`\D`, "[^" + digitClass + "]"},
		{`\s`, "[" + spaceClass + "]"}, {`\S`, "[^" + spaceClass + "]"},
	} {
		class := parseClass(c.expr)
		all = append(all, namedClass{c.name, class, without(class, '\n')})
	}
	return all
})
