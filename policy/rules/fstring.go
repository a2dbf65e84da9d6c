package rules

import (
	"fmt"
	"strings"

	"toolgate/internal/lazyregexp"
)

var fstringName = lazyregexp.New(`\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// withoutFStrings rewrites f"…{name}…" as "…{name}…".format(name=name), because
// Codex's Starlark has f-strings and the one used here does not. Line numbers
// do not change.
func withoutFStrings(src string) string {
	var b strings.Builder
	word := 0 // start of the identifier before i
	for i := 0; i < len(src); {
		switch c := src[i]; {
		case c == '#':
			end := strings.IndexByte(src[i:], '\n')
			if end < 0 {
				end = len(src) - i
			}
			b.WriteString(src[i : i+end])
			i += end
			word = i
		case c == '"' || c == '\'':
			prefix, text := src[word:i], stringLiteral(src[i:])
			if prefix == "f" {
				text = formatted(text)
			} else {
				b.WriteString(prefix)
			}
			b.WriteString(text.out)
			i += text.length
			word = i
		case isNameByte(c):
			for i < len(src) && isNameByte(src[i]) {
				i++
			}
			if i == len(src) || src[i] != '"' && src[i] != '\'' {
				b.WriteString(src[word:i])
				word = i
			}
		default:
			b.WriteByte(c)
			i++
			word = i
		}
	}
	return b.String()
}

func isNameByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// A literal is a string literal of a rule file.
type literal struct {
	out    string // the text that replaces it
	length int    // its length in the source
}

// stringLiteral returns the literal at the start of src.
func stringLiteral(src string) literal {
	quote := src[:1]
	if strings.HasPrefix(src, strings.Repeat(quote, 3)) {
		quote = src[:3]
	}
	for i := len(quote); i < len(src); i++ {
		switch {
		case src[i] == '\\':
			i++
		case strings.HasPrefix(src[i:], quote):
			n := i + len(quote)
			return literal{src[:n], n}
		case src[i] == '\n' && len(quote) == 1:
			return literal{src[:i], i}
		}
	}
	return literal{src, len(src)}
}

// formatted turns the literal of an f-string into a call of format.
func formatted(text literal) literal {
	bare := strings.NewReplacer("{{", "", "}}", "").Replace(text.out)
	var args []string
	seen := make(map[string]bool)
	for _, m := range fstringName.FindAllStringSubmatch(bare, -1) {
		if !seen[m[1]] {
			seen[m[1]] = true
			args = append(args, fmt.Sprintf("%s=%s", m[1], m[1]))
		}
	}
	text.out += ".format(" + strings.Join(args, ", ") + ")"
	return text
}
