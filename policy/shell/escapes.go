package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// unescape removes backslashes: all of them, or if special is not empty, those before
// one of its characters. An escaped newline is removed in any case.
func unescape(s, special string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		next := s[i+1]
		switch {
		case next == '\n':
			i++
		case special == "" || strings.IndexByte(special, next) >= 0:
			b.WriteByte(next)
			i++
		default:
			b.WriteByte('\\')
		}
	}
	return b.String()
}

// unescapedIndex returns the index of the first c in s that is not escaped, or -1.
func unescapedIndex(s string, c byte) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case c:
			return i
		}
	}
	return -1
}

// ansiC resolves the escapes of $'…'.
func ansiC(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if k := strings.IndexByte(`abeEfnrtv`, s[i]); k >= 0 {
			b.WriteByte("\a\b\x1b\x1b\f\n\r\t\v"[k])
			continue
		}
		n := 0
		switch s[i] {
		case 'x', 'u', 'U':
			most := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
			n = number(&b, s[i+1:], 16, most, s[i] != 'x')
		case 'c':
			if i+1 < len(s) {
				b.WriteByte(s[i+1] & 0x1f)
				n = 1
			}
		case '0', '1', '2', '3', '4', '5', '6', '7':
			i--
			n = number(&b, s[i+1:], 8, 3, false)
		case '\\', '\'', '"', '?':
			b.WriteByte(s[i])
			continue
		default:
			b.WriteByte('\\')
			b.WriteByte(s[i])
			continue
		}
		if n == 0 {
			b.WriteByte('\\')
			b.WriteByte(s[i])
		}
		i += n
	}
	text, _, _ := strings.Cut(b.String(), "\x00") // bash ends the string there
	return text
}

// number writes the character whose code is at the start of s and returns the number
// of digits.
func number(b *strings.Builder, s string, base, most int, unicode bool) int {
	digits := "01234567"
	if base == 16 {
		digits = "0123456789abcdefABCDEF"
	}
	s = s[:min(len(s), most)]
	n := len(s) - len(strings.TrimLeft(s, digits))
	v, err := strconv.ParseUint(s[:n], base, 64)
	if err != nil {
		return 0
	}
	if unicode {
		if v > utf8.MaxRune {
			v = utf8.RuneError
		}
		b.WriteRune(rune(v))
	} else {
		b.WriteByte(byte(v))
	}
	return n
}
