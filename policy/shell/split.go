package shell

import (
	"errors"
	"strings"
)

var errUnclosed = errors.New("a quote is not closed")

// Split splits a line into words as a POSIX shell does, without expansions.
func Split(line string) ([]string, error) {
	var words []string
	var b strings.Builder
	open := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t', '\n':
			if open {
				words = append(words, b.String())
				b.Reset()
				open = false
			}
		case '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, errUnclosed
			}
			b.WriteString(line[i+1 : i+1+end])
			i += 1 + end
			open = true
		case '"':
			end := closingQuote(line, i+1)
			if end < 0 {
				return nil, errUnclosed
			}
			b.WriteString(unescape(line[i+1:end], "$`\"\\"))
			i = end
			open = true
		case '\\':
			if i+1 == len(line) {
				return nil, errors.New("it ends in a backslash")
			}
			i++
			if line[i] != '\n' {
				b.WriteByte(line[i])
				open = true
			}
		default:
			b.WriteByte(c)
			open = true
		}
	}
	if open {
		words = append(words, b.String())
	}
	return words, nil
}

// closingQuote returns the index of the double quote that ends the quoted text
// at i, or -1.
func closingQuote(line string, i int) int {
	for ; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}
