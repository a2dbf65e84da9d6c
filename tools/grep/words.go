package grep

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"toolgate/internal/lazyregexp"
)

// The members of the Unicode classes \w, \d and \s. In package regexp they are ASCII
// only.
const (
	wordClass = `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}` +
		`\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}` + // circled and squared letters
		`\x{200C}\x{200D}` // joiners
	digitClass = `\p{Nd}`
	spaceClass = `\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}`
)

func isWord(r rune) bool {
	switch {
	case r < 0:
		return false
	case r < 0x80:
		return 'a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || r == '_'
	}
	return inClass(wordRunes(), r)
}

// inClass reports whether r is in class, which has pairs of first and last characters.
func inClass(class []rune, r rune) bool {
	i, found := slices.BinarySearch(class, r)
	return found || i%2 == 1
}

// wordRunes returns the class of \w.
var wordRunes = sync.OnceValue(func() []rune { return parseClass("[" + wordClass + "]") })

// notWord and notSpace are \W and \S as members of a class.
var (
	notWord  = sync.OnceValue(func() string { return members(parseClass("[^" + wordClass + "]")) })
	notSpace = sync.OnceValue(func() string { return members(parseClass("[^" + spaceClass + "]")) })
)

// members returns class as text without brackets.
func members(class []rune) string {
	var b strings.Builder
	for i := 0; i < len(class); i += 2 {
		fmt.Fprintf(&b, `\x{%X}-\x{%X}`, class[i], class[i+1])
	}
	return b.String()
}

// A shorthand is the expansion of a letter after a backslash, inside and outside of a
// class.
type shorthand struct {
	inside  func() string
	outside string
}

var shorthands = map[byte]shorthand{
	'w': {func() string { return wordClass }, "[" + wordClass + "]"},
	'd': {func() string { return digitClass }, "[" + digitClass + "]"},
	's': {func() string { return spaceClass }, "[" + spaceClass + "]"},
	'W': {notWord, "[^" + wordClass + "]"},
	'D': {func() string { return `\P{Nd}` }, "[^" + digitClass + "]"},
	'S': {notSpace, "[^" + spaceClass + "]"},
}

// A translator translates an expression of ripgrep to one of package syntax.
type translator struct {
	expr  string
	at    int // index of the next character
	class bool
	out   strings.Builder
}

// translate replaces what package syntax does not support, or takes for something
// else: \w, \d, \s and their complements become Unicode classes, \u1234 and \u{1234}
// \x{1234}, \<, \> and \b{end} assertions that [program.mark] completes, {,3} {0,3}.
// What it can only misread is an error for the model.
func translate(expr string) (string, error) {
	t := &translator{expr: expr}
	for t.at < len(expr) {
		rest := expr[t.at:]
		switch {
		case rest[0] == '\\' && len(rest) > 1:
			t.escape(rest)
		case t.class:
			if err := t.inClass(rest); err != nil {
				return "", err
			}
		case rest[0] == '[':
			if name := posixClass(rest); name != "" {
				return "", fmt.Errorf("pattern: %s is a class only in brackets; write [%s]", name, name)
			}
			t.class = true
			start := "["
			for _, s := range []string{"^", "]"} {
				if strings.HasPrefix(rest[len(start):], s) {
					start += s
				}
			}
			t.write(start, len(start))
		case countWithoutLeast.MatchString(rest):
			t.write("{0", 1)
		default:
			t.write(rest[:1], 1)
		}
	}
	return t.out.String(), nil
}

var countWithoutLeast = lazyregexp.New(`^\{,\d+\}`)

// write writes s in place of the next n bytes.
func (t *translator) write(s string, n int) {
	t.out.WriteString(s)
	t.at += n
}

// escape translates the escape sequence at the start of rest.
func (t *translator) escape(rest string) {
	if rest[1] == 'Q' && !t.class {
		quoted, _, _ := strings.Cut(rest, `\E`)
		t.write(quoted, len(quoted))
		return
	}
	if !t.class {
		for _, m := range marks {
			if strings.HasPrefix(rest, m.text) {
				t.write("(?P<"+m.name+`>\b)`, len(m.text))
				return
			}
		}
	}
	s, known := shorthands[rest[1]]
	hex, n := unicodeEscape(rest[1:])
	switch {
	case known && t.class:
		t.write(s.inside(), 2)
	case known:
		t.write(s.outside, 2)
	case n > 0:
		t.write(`\x{`+hex+"}", n+1)
	default:
		t.write(rest[:2], 2)
	}
}

// inClass translates the character at the start of rest, which is in a class.
func (t *translator) inClass(rest string) error {
	n := 1
	switch {
	case posixClass(rest) != "":
		n = len(posixClass(rest))
	case nestedClass.MatchString(rest):
		const format = "pattern: %s is a class within a class, which is not supported; " +
			`write one class, or \[ for the character`
		return fmt.Errorf(format, nestedClass.FindString(rest))
	case classOperator.MatchString(rest) && !strings.HasSuffix(t.out.String(), "["):
		const format = "pattern: %s within a class is not supported; list the characters that are left, " +
			"such as [b-df-hj-np-tv-z], or put \\ before the character"
		return fmt.Errorf(format, rest[:2])
	case rest[0] == ']':
		t.class = false
	}
	t.write(rest[:n], n)
	return nil
}

// classOperator matches an operator of ripgrep on two classes.
var classOperator = lazyregexp.New(`^(?:&&|--[^\]]|~~[^\]])`)

// nestedClass matches a class within a class: a bracket that is closed before the outer
// one is.
var nestedClass = lazyregexp.New(`^\[\^?\]?(?:[^\[\]\\]|\\.|\[:\^?[a-z]+:\])+\](?:[^\[\]\\]|\\.)*\]`)

// posixClass returns a class such as [:alpha:] at the start of s, or "".
func posixClass(s string) string { return posix.FindString(s) }

var posix = lazyregexp.New(`^\[:\^?[a-z]+:\]`)

// A mark is an assertion that package syntax does not have. It is parsed as a word
// boundary in a group of this name.
type mark struct {
	text, name string
	holds      syntax.EmptyOp
}

// Assertions besides those of package syntax.
const (
	emptyNoWordBefore syntax.EmptyOp = 1 << 6
	emptyNoWordAfter  syntax.EmptyOp = 1 << 7
)

var marks = []mark{
	{`\<`, "toolgate_start", syntax.EmptyWordBoundary | emptyNoWordBefore},
	{`\>`, "toolgate_end", syntax.EmptyWordBoundary | emptyNoWordAfter},
	{`\b{start}`, "toolgate_start", syntax.EmptyWordBoundary | emptyNoWordBefore},
	{`\b{end}`, "toolgate_end", syntax.EmptyWordBoundary | emptyNoWordAfter},
	{`\b{start-half}`, "toolgate_start_half", emptyNoWordBefore},
	{`\b{end-half}`, "toolgate_end_half", emptyNoWordAfter},
}

// markNamed returns the assertion of the mark that is parsed as a group of this name.
func markNamed(name string) (syntax.EmptyOp, bool) {
	for _, m := range marks {
		if m.name == name {
			return m.holds, true
		}
	}
	return 0, false
}

// mark gives the assertions of marks in tree to the instructions compiled from it.
func (p *program) mark(tree *syntax.Regexp) {
	for _, sub := range tree.Sub {
		p.mark(sub)
	}
	holds, ok := markNamed(tree.Name)
	if tree.Op != syntax.OpCapture || !ok {
		return
	}
	for i := range p.insts {
		if in := &p.insts[i]; in.Op == syntax.InstCapture && in.Arg == uint32(2*tree.Cap) {
			p.insts[in.Out].Arg = uint32(holds)
		}
	}
}

// unicodeEscape returns the digits and the length of u1234 or u{1234} at the start of
// s, or 0 if there is none.
func unicodeEscape(s string) (hex string, n int) {
	if s[0] != 'u' {
		return "", 0
	}
	if inner, ok := strings.CutPrefix(s, "u{"); ok {
		if hex, _, ok = strings.Cut(inner, "}"); ok && isHex(hex) {
			return hex, len(hex) + 3
		}
		return "", 0
	}
	if len(s) >= 5 && isHex(s[1:5]) {
		return s[1:5], 5
	}
	return "", 0
}

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdefABCDEF") == "" }
