package grep

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"

	"toolgate/tools"
)

// A pattern is a regular expression ready for the search. It may be used
// concurrently.
type pattern struct {
	tree      *syntax.Regexp
	program   *program
	multiline bool

	// A line, or with multiline a file, in which none of these occurs does
	// not match. Nil when nothing is known.
	required *literals
	literal  bool // what holds one of required matches
}

// A letterCase says which letters are the same.
type letterCase string

const (
	sensitive   letterCase = "sensitive"
	insensitive letterCase = "insensitive"
	smart       letterCase = "smart" // insensitive unless the pattern holds a capital
)

// maxPattern is how long a regular expression may be in bytes.
const maxPattern = 32 << 10

// compile reads expr. Without multiline, no match goes beyond a line. Its
// errors are written for the model.
func compile(expr string, letters letterCase, multiline bool) (*pattern, error) {
	if strings.TrimSpace(expr) == "" {
		return nil, &tools.ArgumentError{Msg: "pattern must not be empty; give a regular expression"}
	}
	if len(expr) > maxPattern {
		return nil, &tools.ArgumentError{Msg: fmt.Sprintf("pattern has %d bytes, more than %d; use a shorter one", len(expr), maxPattern)}
	}
	// Without OneLine, ^ and $ are the ends of a line.
	flags := syntax.Perl &^ syntax.OneLine
	if letters == insensitive || letters == smart && !hasCapital(expr) {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(spellOut(expr), flags)
	if err != nil {
		// An error that quotes what was given is clearer.
		if _, given := syntax.Parse(expr, flags); given != nil {
			err = given
		}
		return nil, syntaxError(err)
	}
	if multiline && !mentions(tree, matchesNewline) && !mentions(tree, isTextAnchor) {
		multiline = false // it would make no difference
	}
	if !multiline {
		if tree, err = withinLine(tree); err != nil {
			return nil, err
		}
	}
	p := &pattern{tree: tree, multiline: multiline}
	if p.program, err = newProgram(tree, !multiline); err != nil {
		return nil, syntaxError(err)
	}
	p.required, p.literal = requiredLiterals(tree)
	return p, nil
}

// hasCapital reports whether expr holds a capital letter that stands for
// itself.
func hasCapital(expr string) bool {
	escaped := false
	for _, r := range expr {
		if !escaped && unicode.IsUpper(r) {
			return true
		}
		escaped = r == '\\' && !escaped
	}
	return false
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
		hint = `back references are not supported, and a letter is escaped only where that has a meaning`
	case syntax.ErrLarge, syntax.ErrInvalidRepeatSize, syntax.ErrNestingDepth:
		hint = "use a smaller expression; repetitions go up to 1000"
	}
	return &tools.ArgumentError{Msg: fmt.Sprintf("pattern is not a regular expression: %s: `%s`; %s", se.Code, se.Expr, hint)}
}

// mentions reports whether re or a part of it is such.
func mentions(re *syntax.Regexp, such func(*syntax.Regexp) bool) bool {
	return such(re) || slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return mentions(sub, such) })
}

func matchesNewline(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return slices.Contains(re.Rune, '\n')
	case syntax.OpCharClass:
		return inClass(re.Rune, '\n')
	}
	return re.Op == syntax.OpAnyChar
}

func isTextAnchor(re *syntax.Regexp) bool {
	return re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText
}

// withinLine changes re so that it never matches a line end.
func withinLine(re *syntax.Regexp) (*syntax.Regexp, error) {
	switch re.Op {
	case syntax.OpLiteral:
		if slices.Contains(re.Rune, '\n') {
			return nil, &tools.ArgumentError{Msg: `pattern holds \n, but each match lies within one line; set multiline to true`}
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

// parseClass returns the characters of a class that is known to be right.
func parseClass(expr string) []rune {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil || re.Op != syntax.OpCharClass {
		panic(fmt.Sprintf("grep: class %s: %v", expr, err))
	}
	return re.Rune
}
