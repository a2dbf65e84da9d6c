package grep

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// What \w, \d and \s stand for, as members of a class: the letters, digits
// and spaces of all scripts, where package regexp knows those of ASCII only.
const (
	wordClass = `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}` +
		`\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}` + // letters in circles and squares
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

// inClass reports whether r is in the class, pairs of first and last.
func inClass(class []rune, r rune) bool {
	i, found := slices.BinarySearch(class, r)
	return found || i%2 == 1
}

// wordRunes returns the class of \w.
var wordRunes = sync.OnceValue(func() []rune { return parseClass("[" + wordClass + "]") })

// notWord, notDigit and notSpace are \W, \D and \S as members of a class.
var (
	notWord  = sync.OnceValue(func() string { return members(parseClass("[^" + wordClass + "]")) })
	notDigit = sync.OnceValue(func() string { return `\P{Nd}` })
	notSpace = sync.OnceValue(func() string { return members(parseClass("[^" + spaceClass + "]")) })
)

// members writes a class without its brackets.
func members(class []rune) string {
	var b strings.Builder
	for i := 0; i < len(class); i += 2 {
		fmt.Fprintf(&b, `\x{%X}-\x{%X}`, class[i], class[i+1])
	}
	return b.String()
}

// A shorthand is what stands behind a backslash, inside and outside a class.
type shorthand struct {
	inside  func() string
	outside string
}

var shorthands = map[byte]shorthand{
	'w': {func() string { return wordClass }, "[" + wordClass + "]"},
	'd': {func() string { return digitClass }, "[" + digitClass + "]"},
	's': {func() string { return spaceClass }, "[" + spaceClass + "]"},
	'W': {notWord, "[^" + wordClass + "]"},
	'D': {notDigit, "[^" + digitClass + "]"},
	'S': {notSpace, "[^" + spaceClass + "]"},
}

// spellOut replaces \w, \d, \s and their opposites in expr by what they stand
// for, and \u1234 and \u{1234}, which package regexp does not know, by
// \x{1234}.
func spellOut(expr string) string {
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

// unicodeEscape reads u1234 or u{1234} at the start of s and returns the
// digits and how long it is, 0 when there is none.
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

func isHex(s string) bool {
	for _, r := range s {
		if !unicode.Is(unicode.ASCII_Hex_Digit, r) {
			return false
		}
	}
	return s != ""
}
