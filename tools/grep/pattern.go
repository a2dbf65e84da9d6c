package grep

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// A pattern is a compiled regular expression. It may be used concurrently.
type pattern struct {
	tree      *syntax.Regexp
	program   *program
	multiline bool

	// A line (in multiline mode, a file) that contains none of these does not
	// match. It is nil if nothing is known.
	required *literals
	literal  bool // text that contains one of required matches
}

// A letterCase is the case sensitivity of a search.
type letterCase string

const (
	sensitive   letterCase = "sensitive"
	insensitive letterCase = "insensitive"
	smart       letterCase = "smart" // insensitive unless the pattern has a capital letter
)

// compile compiles expr. Without multiline, no match spans several lines. Its errors
// are for the model.
func compile(expr string, letters letterCase, multiline bool) (*pattern, error) {
	if strings.TrimSpace(expr) == "" {
		return nil, errors.New("pattern must not be empty; give a regular expression")
	}
	const most = 32 << 10 // bytes
	if len(expr) > most {
		return nil, fmt.Errorf("pattern has %d bytes, more than %d; use a shorter one", len(expr), most)
	}
	// Without OneLine, ^ and $ match at the ends of lines.
	flags := syntax.Perl &^ syntax.OneLine
	if letters == insensitive || letters == smart && !hasCapital(expr) {
		flags |= syntax.FoldCase
	}
	translated, err := translate(expr)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(translated, flags)
	if err != nil {
		// The same error that quotes the original expression is clearer.
		if _, given := syntax.Parse(expr, flags); given != nil && codeOf(given) == codeOf(err) {
			err = given
		}
		return nil, syntaxError(err)
	}
	multiline = multiline && crossesLines(tree) // otherwise it would make no difference
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

// syntaxError returns an error of package syntax with a hint for the model.
func syntaxError(err error) error {
	se, ok := errors.AsType[*syntax.Error](err)
	if !ok {
		return fmt.Errorf("pattern: %w", err)
	}
	hint := `put \ before characters that are meant literally`
	switch se.Code {
	case syntax.ErrInvalidPerlOp, syntax.ErrInvalidNamedCapture:
		hint = groupHint(se.Expr)
	case syntax.ErrInvalidEscape:
		hint = `back references are not supported, and a letter is escaped only where that has a meaning`
	case syntax.ErrLarge, syntax.ErrInvalidRepeatSize, syntax.ErrNestingDepth:
		hint = "use a smaller expression; repetitions go up to 1000"
	case syntax.ErrInvalidRepeatOp:
		hint = "use one repetition; there are no possessive ones, and a match never takes long"
	case syntax.ErrMissingRepeatArgument:
		hint += ", or . before *; file names go to include or find_files"
	case syntax.ErrInvalidCharRange:
		if strings.HasPrefix(se.Expr, `\`) {
			hint = `classes are general categories and scripts, such as \p{L}, \p{Lu} and \p{Greek}`
		}
	}
	return fmt.Errorf("pattern is not a regular expression: %s: `%s`; %s", se.Code, se.Expr, hint)
}

func codeOf(err error) syntax.ErrorCode {
	se, _ := errors.AsType[*syntax.Error](err)
	return se.Code
}

// groupHint returns the hint for an unsupported group that begins like start.
func groupHint(start string) string {
	has := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(start, p) })
	}
	switch {
	case has("(?=", "(?!", "(?<=", "(?<!"):
		return "look-around is not supported; match more and look at the result"
	case has("(?P<", "(?<"):
		return "name a group with letters and digits, or write (...)"
	case has("(?>", "(?|"):
		return "write (?:...); a match never takes long"
	case has("(?#"):
		return "leave the comment out"
	case len(start) > 2 && strings.Trim(start[2:], "imsUxuRnJ-") == "" && strings.HasSuffix(start, "x"):
		return "the flag x is not supported; leave it out, and the spaces and comments of the expression"
	case len(start) > 2 && strings.Trim(start[2:], "imsUuRnJ-") == "" && !has("(?R"):
		return "the flags are i, m, s and U; leave out others"
	}
	return "back references, recursion and conditions are not supported; write out what they stand for"
}

// crossesLines reports whether a part of re can match a newline, or the start or end of
// the whole text.
func crossesLines(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return slices.Contains(re.Rune, '\n')
	case syntax.OpCharClass:
		return inClass(re.Rune, '\n')
	case syntax.OpAnyChar, syntax.OpBeginText, syntax.OpEndText:
		return true
	}
	return slices.ContainsFunc(re.Sub, crossesLines)
}

// withinLine changes re so that it never matches a newline.
func withinLine(re *syntax.Regexp) (*syntax.Regexp, error) {
	switch re.Op {
	case syntax.OpLiteral:
		if slices.Contains(re.Rune, '\n') {
			return nil, errors.New(`pattern holds \n, but each match lies within one line; set multiline to true`)
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

// without returns the class, pairs of first and last characters, without r.
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

// parseClass returns the characters of a class. It panics if expr is not a class.
func parseClass(expr string) []rune {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil || re.Op != syntax.OpCharClass {
		panic(fmt.Sprintf("grep: class %s: %v", expr, err))
	}
	return re.Rune
}
