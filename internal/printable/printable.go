// Package printable makes text that a server, a model or a file chose safe to print: what
// controls a terminal or changes the order of its text is written as an escape.
//
//	fmt.Fprintln(os.Stdout, printable.Line(tool.Description))
package printable

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s with control, direction and invisible characters written as in JSON,
// \u001b. Line ends and tabs stay. Bytes that are not UTF-8 become U+FFFD. Valid JSON on
// one line keeps its value.
func Text(s string) string { return escape(s, false) }

// Line is [Text] on one line: a line end is written as \n, and a tab as a space.
func Line(s string) string { return escape(s, true) }

func escape(s string, oneLine bool) string {
	if isPlain(s, oneLine) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\n' && oneLine:
			b.WriteString(`\n`)
		case r == '\t' && oneLine:
			b.WriteByte(' ')
		case r == '\r' && strings.HasPrefix(s[i+1:], "\n"): // a line end of Windows
		case isUnsafe(r):
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isPlain(s string, oneLine bool) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, isUnsafe) && !(oneLine && strings.ContainsAny(s, "\n\t"))
}

// isUnsafe reports whether r is a control character other than a line end or tab, or a
// character that nobody sees or that changes the order of others.
func isUnsafe(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ', r >= 0x7f && r < 0xa0, // control characters
		r == 0x061c, r >= 0x200b && r <= 0x200f, r >= 0x2060 && r <= 0x2069, r == 0xfeff, // marks, of no width
		r >= 0x2028 && r <= 0x202e,   // separators of lines and paragraphs, directions
		r >= 0xe0000 && r <= 0xe007f: // tags
		return true
	}
	return false
}

// Writer returns a writer that writes [Text] of what it is given to w. Each write must end
// with a whole character.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ w io.Writer }

func (w writer) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.w, Text(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}
