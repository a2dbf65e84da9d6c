package shell

import (
	"errors"
	"strings"
)

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
		case '\'', '"':
			text := line[i+1:]
			end := strings.IndexByte(text, c)
			if c == '"' {
				end = unescapedIndex(text, c)
			}
			if end < 0 {
				return nil, errors.New("a quote is not closed")
			}
			i += 1 + end
			if text = text[:end]; c == '"' {
				text = unescape(text, "$`\"\\")
			}
			b.WriteString(text)
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
