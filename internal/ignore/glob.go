package ignore

import (
	"fmt"
	"slices"
	"strings"
)

// A glob matches slash-separated paths, byte by byte, as git's wildmatch does:
// * and ? and classes stay within a path element, ** as a whole element
// matches any number of them.
type glob struct {
	// The common shapes are compared directly.
	literal string // the whole path, when tokens is nil
	suffix  string // what a path ends in that is one element, for "*" + suffix
	simple  bool   // suffix counts, when tokens is nil

	tokens []token
}

type token struct {
	kind tokenKind
	char byte
	set  *[256]bool
}

type tokenKind uint8

const (
	char  tokenKind = iota // this byte
	any                    // one byte but /
	class                  // one byte of set
	star                   // bytes but /
	dirs                   // nothing, or bytes up to and with a /
	rest                   // everything
)

// compile reads a pattern without its leading and trailing slash, by the rules
// of the flavor. They differ in two things. A ** that does not begin an element
// is * to both, but git takes it for one that does when all before it is
// literal. And a class can match a slash in ripgrep.
func compile(pattern string, flavor Flavor) (glob, error) {
	tokens, err := tokenize(pattern, flavor)
	if err != nil {
		return glob{}, err
	}
	if s, ok := literal(tokens); ok {
		return glob{literal: s}, nil
	}
	if tokens[0].kind == star {
		if s, ok := literal(tokens[1:]); ok && !strings.Contains(s, "/") {
			return glob{suffix: s, simple: true}, nil
		}
	}
	return glob{tokens: tokens}, nil
}

// literal returns the text that tokens match, when they match only one.
func literal(tokens []token) (string, bool) {
	b := make([]byte, 0, len(tokens))
	for _, t := range tokens {
		if t.kind != char {
			return "", false
		}
		b = append(b, t.char)
	}
	return string(b), true
}

func tokenize(p string, flavor Flavor) ([]token, error) {
	var tokens []token
	for i := 0; i < len(p); {
		switch p[i] {
		case '\\':
			if i+1 == len(p) {
				return nil, fmt.Errorf("%q ends in a backslash", p)
			}
			tokens = append(tokens, token{kind: char, char: p[i+1]})
			i += 2
		case '?':
			tokens = append(tokens, token{kind: any})
			i++
		case '[':
			set, n, err := parseClass(p[i:], flavor)
			if err != nil {
				return nil, err
			}
			tokens = append(tokens, token{kind: class, set: set})
			i += n
		case '*':
			n := 1
			for i+n < len(p) && p[i+n] == '*' {
				n++
			}
			element := n > 1 && (i == 0 || p[i-1] == '/' || flavor == Git && !strings.ContainsAny(p[:i], `*?[\`))
			switch {
			case element && i+n == len(p):
				tokens = append(tokens, token{kind: rest})
			case element && p[i+n] == '/':
				tokens = append(tokens, token{kind: dirs})
				n++
			default:
				tokens = append(tokens, token{kind: star})
			}
			i += n
		default:
			tokens = append(tokens, token{kind: char, char: p[i]})
			i++
		}
	}
	return tokens, nil
}

var posixClasses = map[string]func(c byte) bool{
	"alnum":  func(c byte) bool { return isAlpha(c) || isDigit(c) },
	"alpha":  isAlpha,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < 0x20 || c == 0x7f },
	"digit":  isDigit,
	"graph":  func(c byte) bool { return c > 0x20 && c < 0x7f },
	"lower":  func(c byte) bool { return 'a' <= c && c <= 'z' },
	"print":  func(c byte) bool { return c >= 0x20 && c < 0x7f },
	"punct":  func(c byte) bool { return c > 0x20 && c < 0x7f && !isAlpha(c) && !isDigit(c) },
	"space":  func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' },
	"upper":  func(c byte) bool { return 'A' <= c && c <= 'Z' },
	"xdigit": func(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' },
}

func isAlpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// parseClass reads the class that p begins with and returns its length.
func parseClass(p string, flavor Flavor) (*[256]bool, int, error) {
	var set [256]bool
	i := 1
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	last := -1 // what a range may start from
	for first := true; ; first = false {
		switch {
		case i >= len(p):
			return nil, 0, fmt.Errorf("%q has a [ without its ]", p)
		case p[i] == ']' && !first:
			if negated {
				for c := range set {
					set[c] = !set[c]
				}
			}
			set['/'] = set['/'] && flavor == Ripgrep
			return &set, i + 1, nil
		case p[i] == '[' && i+1 < len(p) && p[i+1] == ':':
			end := strings.Index(p[i+2:], ":]")
			if end < 0 {
				set['['], last = true, '['
				i++
				continue
			}
			in := posixClasses[p[i+2:i+2+end]]
			if in == nil {
				return nil, 0, fmt.Errorf("%q has an unknown class %q", p, p[i:i+end+4])
			}
			for c := range set {
				set[c] = set[c] || in(byte(c))
			}
			i, last = i+end+4, -1
		case p[i] == '-' && last >= 0 && i+1 < len(p) && p[i+1] != ']':
			i++
			if p[i] == '\\' && i+1 < len(p) {
				i++
			}
			for c := last; c <= int(p[i]); c++ {
				set[c] = true
			}
			i, last = i+1, -1
		default:
			if p[i] == '\\' && i+1 < len(p) {
				i++
			}
			set[p[i]], last = true, int(p[i])
			i++
		}
	}
}

// crosses reports whether a class of g matches a slash.
func (g *glob) crosses() bool {
	return slices.ContainsFunc(g.tokens, func(t token) bool { return t.kind == class && t.set['/'] })
}

// match reports whether g matches all of path.
func (g *glob) match(path string) bool {
	switch {
	case g.tokens != nil:
		return g.simulate(path)
	case g.simple:
		return strings.HasSuffix(path, g.suffix) && strings.IndexByte(path, '/') < 0
	}
	return path == g.literal
}

// simulate follows all ways through the tokens at once, so that no pattern
// takes more than the product of the two lengths.
func (g *glob) simulate(path string) bool {
	var space [2][96]bool
	now, next := space[0][:], space[1][:]
	if len(g.tokens) >= len(now) {
		now, next = make([]bool, len(g.tokens)+1), make([]bool, len(g.tokens)+1)
	}
	n := len(g.tokens)
	now, next = now[:n+1], next[:n+1]
	g.enter(now, 0)
	for i := range len(path) {
		c := path[i]
		alive := false
		for k, on := range now[:n] {
			if on && g.step(next, k, c) {
				alive = true
			}
		}
		if !alive {
			return false
		}
		now, next = next, now
		clear(next)
	}
	return now[n]
}

// enter turns token k on, and those behind it that it need not wait for.
func (g *glob) enter(states []bool, k int) {
	for !states[k] {
		states[k] = true
		if k == len(g.tokens) {
			return
		}
		switch g.tokens[k].kind {
		case star, dirs, rest:
			k++
		default:
			return
		}
	}
}

// step lets token k take the byte c, and reports whether it could.
func (g *glob) step(states []bool, k int, c byte) bool {
	switch t := &g.tokens[k]; t.kind {
	case char:
		if c != t.char {
			return false
		}
		g.enter(states, k+1)
	case any:
		if c == '/' {
			return false
		}
		g.enter(states, k+1)
	case class:
		if !t.set[c] {
			return false
		}
		g.enter(states, k+1)
	case star:
		if c == '/' {
			return false
		}
		g.enter(states, k)
	case dirs:
		// Only a slash leads on: what follows begins an element.
		states[k] = true
		if c == '/' {
			g.enter(states, k+1)
		}
	case rest:
		g.enter(states, k)
	}
	return true
}

// expandBraces returns what p stands for when {a,b} means a or b.
func expandBraces(p string) ([]string, error) {
	const most = 1000
	open, commas, shut := -1, []int{}, -1
	depth := 0
	inClass := false
scan:
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '\\':
			i++
		case inClass:
			inClass = c != ']'
		case c == '[' && i+1 < len(p):
			// A ] right at the start belongs to the class.
			inClass = true
			if p[i+1] == '!' || p[i+1] == '^' {
				i++
			}
			if i+1 < len(p) && p[i+1] == ']' {
				i++
			}
		case c == '{':
			if depth == 0 {
				open = i
			}
			depth++
		case c == ',' && depth == 1:
			commas = append(commas, i)
		case c == '}' && depth == 0:
			return nil, fmt.Errorf("%q has a } without its {", p)
		case c == '}':
			if depth--; depth == 0 {
				shut = i
				break scan
			}
		}
	}
	if depth > 0 {
		return nil, fmt.Errorf("%q has a { without its }", p)
	}
	if open < 0 {
		return []string{p}, nil
	}
	var all []string
	from := open + 1
	for _, to := range slices.Concat(commas, []int{shut}) {
		more, err := expandBraces(p[:open] + p[from:to] + p[shut+1:])
		if err != nil {
			return nil, err
		}
		if all = append(all, more...); len(all) > most {
			return nil, fmt.Errorf("%q stands for more than %d patterns", p, most)
		}
		from = to + 1
	}
	return all, nil
}
