package grep

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"

	"toolgate/tools"
)

// A pattern is a regular expression that is matched line by line.
type pattern struct {
	tree *syntax.Regexp // never matches a line end
	re   *regexp.Regexp
}

// compile reads expr. Its errors are written for the model.
func compile(expr string) (*pattern, error) {
	if strings.TrimSpace(expr) == "" {
		return nil, &tools.ArgumentError{Msg: "pattern must not be empty; give a regular expression"}
	}
	// Without OneLine, ^ and $ are the ends of a line.
	tree, err := syntax.Parse(expr, syntax.Perl&^syntax.OneLine)
	if err != nil {
		return nil, syntaxError(err)
	}
	if tree, err = withinLine(tree); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(tree.String())
	if err != nil {
		return nil, syntaxError(err)
	}
	return &pattern{tree, re}, nil
}

// syntaxError says what is wrong with a regular expression and what to do.
func syntaxError(err error) error {
	var se *syntax.Error
	if !errors.As(err, &se) {
		return &tools.ArgumentError{Msg: fmt.Sprintf("pattern: %v", err)}
	}
	hint := `put \ before characters that are meant literally`
	switch se.Code {
	case syntax.ErrInvalidPerlOp:
		hint = "look-around is not supported; match more and look at the result"
	case syntax.ErrInvalidEscape:
		hint = `back references are not supported, and letters are escaped only where that has a meaning`
	case syntax.ErrLarge, syntax.ErrInvalidRepeatSize, syntax.ErrNestingDepth:
		hint = "use a smaller expression; repetitions go up to 1000"
	}
	return &tools.ArgumentError{Msg: fmt.Sprintf("pattern is not a regular expression: %s: `%s`; %s", se.Code, se.Expr, hint)}
}

// withinLine changes re so that it never matches a line end, as each match
// lies within one line.
func withinLine(re *syntax.Regexp) (*syntax.Regexp, error) {
	switch re.Op {
	case syntax.OpLiteral:
		if slices.Contains(re.Rune, '\n') {
			return nil, &tools.ArgumentError{Msg: `pattern holds \n, but each match lies within one line; leave it out`}
		}
	case syntax.OpCharClass:
		re.Rune = without(re.Rune, '\n')
		if len(re.Rune) == 0 {
			re.Op = syntax.OpNoMatch
		}
	case syntax.OpAnyChar:
		re.Op = syntax.OpAnyCharNotNL
	case syntax.OpBeginText:
		re.Op = syntax.OpBeginLine
	case syntax.OpEndText:
		re.Op = syntax.OpEndLine
	}
	for i, sub := range re.Sub {
		var err error
		if re.Sub[i], err = withinLine(sub); err != nil {
			return nil, err
		}
	}
	return re, nil
}

// without returns the class, pairs of first and last, without r.
func without(class []rune, r rune) []rune {
	var out []rune
	for i := 0; i < len(class); i += 2 {
		lo, hi := class[i], class[i+1]
		if r < lo || hi < r {
			out = append(out, lo, hi)
			continue
		}
		if lo < r {
			out = append(out, lo, r-1)
		}
		if r < hi {
			out = append(out, r+1, hi)
		}
	}
	return out
}

// rust returns the pattern as ripgrep's regular expressions write it. Ok is
// false for one that they cannot express.
func (p *pattern) rust() (expr string, ok bool) {
	var b strings.Builder
	ok = writeRust(&b, p.tree)
	return b.String(), ok
}

func writeRust(b *strings.Builder, re *syntax.Regexp) bool {
	sub := func(before, after string) bool {
		b.WriteString(before)
		for i, s := range re.Sub {
			if i > 0 && re.Op == syntax.OpAlternate {
				b.WriteByte('|')
			}
			if !writeRust(b, s) {
				return false
			}
		}
		b.WriteString(after)
		return true
	}
	lazy := ""
	if re.Flags&syntax.NonGreedy != 0 {
		lazy = "?"
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
		b.WriteString("(?:)")
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			b.WriteString("(?i:")
		} else {
			b.WriteString("(?:")
		}
		for _, r := range re.Rune {
			if !writeRune(b, r) {
				return false
			}
		}
		b.WriteByte(')')
	case syntax.OpCharClass:
		return writeClass(b, re.Rune)
	case syntax.OpAnyCharNotNL:
		b.WriteString("(?-s:.)")
	case syntax.OpAnyChar:
		b.WriteString("(?s:.)")
	case syntax.OpBeginLine:
		b.WriteString("(?m:^)")
	case syntax.OpEndLine:
		b.WriteString("(?m:$)")
	case syntax.OpBeginText:
		b.WriteString(`\A`)
	case syntax.OpEndText:
		b.WriteString(`\z`)
	case syntax.OpWordBoundary:
		b.WriteString(`\b`)
	case syntax.OpNoWordBoundary:
		b.WriteString(`\B`)
	case syntax.OpCapture, syntax.OpConcat, syntax.OpAlternate:
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

// writeRune writes a literal character; what is not a letter or digit as its
// number, so that nothing has a meaning of its own.
func writeRune(b *strings.Builder, r rune) bool {
	if 0xD800 <= r && r <= 0xDFFF {
		return false // no character
	}
	if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == ' ' {
		b.WriteRune(r)
		return true
	}
	fmt.Fprintf(b, `\x{%X}`, r)
	return true
}

func writeClass(b *strings.Builder, class []rune) bool {
	b.WriteByte('[')
	empty := true
	write := func(lo, hi rune) {
		if lo <= hi {
			fmt.Fprintf(b, `\x{%X}-\x{%X}`, lo, hi)
			empty = false
		}
	}
	for i := 0; i < len(class); i += 2 {
		// Surrogates are no characters.
		write(class[i], min(class[i+1], 0xD7FF))
		write(max(class[i], 0xE000), class[i+1])
	}
	b.WriteByte(']')
	return !empty
}
