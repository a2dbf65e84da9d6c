package grep

import (
	"fmt"
	"slices"
	"strings"
	"sync"
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

// expandShorthands replaces \w, \d, \s and their complements in expr by Unicode
// classes, and \u1234 and \u{1234}, which package regexp does not support, by
// \x{1234}.
func expandShorthands(expr string) string {
	if !strings.Contains(expr, `\`) {
		return expr
	}
	var b strings.Builder
	class := false
	for i := 0; i < len(expr); i++ {
		c := expr[i]
		switch {
		case c == '\\' && i+1 < len(expr):
			i++
			if expr[i] == 'Q' && !class {
				quoted, _, _ := strings.Cut(expr[i-1:], `\E`)
				b.WriteString(quoted)
				i += len(quoted) - 2
				continue
			}
			s, known := shorthands[expr[i]]
			hex, n := unicodeEscape(expr[i:])
			switch {
			case known && class:
				b.WriteString(s.inside())
			case known:
				b.WriteString(s.outside)
			case n > 0:
				fmt.Fprintf(&b, `\x{%s}`, hex)
				i += n - 1
			default:
				b.WriteByte('\\')
				b.WriteByte(expr[i])
			}
			continue
		case c == '[' && !class:
			class = true
			start := i
			if strings.HasPrefix(expr[i+1:], "^") {
				i++
			}
			if strings.HasPrefix(expr[i+1:], "]") {
				i++
			}
			b.WriteString(expr[start : i+1])
			continue
		case c == '[' && strings.HasPrefix(expr[i:], "[:"):
			if end := strings.Index(expr[i:], ":]"); end > 0 {
				b.WriteString(expr[i : i+end+2])
				i += end + 1
				continue
			}
		case c == ']':
			class = false
		}
		b.WriteByte(c)
	}
	return b.String()
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
