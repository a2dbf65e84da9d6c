package ignore

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
)

// A glob matches slash-separated paths byte by byte, as git's wildmatch does:
// *, ? and classes stay within a path element, and ** as a whole element
// matches any number of elements.
type glob struct {
	// Without tokens, the glob is one of two common forms that are compared
	// directly: a literal path, or "*" and a suffix.
	literal   string
	suffix    string
	hasSuffix bool

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

// compile parses a pattern without its leading and trailing slash by the rules
// of the flavor. The flavors differ in two ways. Both treat a ** that does not
// begin an element as *, but git makes an exception when everything before it
// is literal. In ripgrep, a class can match a slash.
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
			return glob{suffix: s, hasSuffix: true}, nil
		}
	}
	return glob{tokens: tokens}, nil
}

// literal returns the only text that tokens match, if there is just one.
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
			kind, n := stars(p, i, flavor)
			tokens = append(tokens, token{kind: kind})
			i += n
		default:
			tokens = append(tokens, token{kind: char, char: p[i]})
			i++
		}
	}
	return tokens, nil
}

// stars returns what the asterisks at p[i] mean and how many bytes of p they
// take.
func stars(p string, i int, flavor Flavor) (tokenKind, int) {
	n := 1
	for i+n < len(p) && p[i+n] == '*' {
		n++
	}
	element := n > 1 && (i == 0 || p[i-1] == '/' || flavor == Git && !strings.ContainsAny(p[:i], `*?[\`))
	switch {
	case element && i+n == len(p):
		return rest, n
	case element && p[i+n] == '/':
		return dirs, n + 1
	}
	return star, n
}

// posixClasses are the names of classes that can be inside of a class.
var posixClasses = strings.Fields("alnum alpha blank cntrl digit graph lower print punct space upper xdigit")

// A classParser reads one class of the pattern p.
type classParser struct {
	p    string
	i    int // the next byte to read
	set  [256]bool
	last int // the byte that a range may start from, or -1
}

// parseClass reads the class at the start of pattern and returns its length.
func parseClass(pattern string, flavor Flavor) (*[256]bool, int, error) {
	c := &classParser{p: pattern, i: 1, last: -1}
	negated := c.at(0, '!') || c.at(0, '^')
	if negated {
		c.i++
	}
	for first := true; first || !c.at(0, ']'); first = false {
		if c.i >= len(c.p) {
			return nil, 0, fmt.Errorf("%q has a [ without its ]", c.p)
		}
		if err := c.item(); err != nil {
			return nil, 0, err
		}
	}
	if negated {
		for b := range c.set {
			c.set[b] = !c.set[b]
		}
	}
	c.set['/'] = c.set['/'] && flavor == Ripgrep
	return &c.set, c.i + 1, nil
}

// at reports whether b is the byte at offset from the next one.
func (c *classParser) at(offset int, b byte) bool {
	return c.i+offset < len(c.p) && c.p[c.i+offset] == b
}

// item reads a named class, the end of a range or one byte.
func (c *classParser) item() error {
	switch {
	case c.at(0, '[') && c.at(1, ':'):
		return c.named()
	case c.at(0, '-') && c.last >= 0 && c.i+1 < len(c.p) && !c.at(1, ']'):
		c.i++
		for from, to := c.last, c.byte(); from <= to; from++ {
			c.set[from] = true
		}
		c.last = -1
	default:
		c.last = c.byte()
		c.set[c.last] = true
	}
	return nil
}

// named reads a class such as [:alpha:]. Without its ":]" the [ is a plain
// byte.
func (c *classParser) named() error {
	name, _, ok := strings.Cut(c.p[c.i+2:], ":]")
	if !ok {
		c.set['['], c.last = true, '['
		c.i++
		return nil
	}
	end := c.i + len("[:") + len(name) + len(":]")
	re, err := syntax.Parse("["+c.p[c.i:end]+"]", syntax.POSIX)
	if err != nil || !slices.Contains(posixClasses, name) {
		return fmt.Errorf("%q has an unknown class %q", c.p, c.p[c.i:end])
	}
	for span := range slices.Chunk(re.Rune, 2) {
		for b := span[0]; b <= span[1]; b++ {
			c.set[b] = true
		}
	}
	c.i, c.last = end, -1
	return nil
}

// byte reads one byte, which may follow a backslash.
func (c *classParser) byte() int {
	if c.at(0, '\\') && c.i+1 < len(c.p) {
		c.i++
	}
	b := c.p[c.i]
	c.i++
	return int(b)
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
	case g.hasSuffix:
		return strings.HasSuffix(path, g.suffix) && strings.IndexByte(path, '/') < 0
	}
	return path == g.literal
}

// simulate runs the tokens as a nondeterministic automaton, all states at once.
// It takes time in proportion to len(tokens) * len(path) at most.
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

// enter makes token k active, and the tokens after it that it can skip to.
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

// step feeds the byte c to token k and reports whether the token accepts it.
func (g *glob) step(states []bool, k int, c byte) bool {
	t := &g.tokens[k]
	accepted := true
	switch t.kind {
	case char:
		accepted = c == t.char
	case any, star:
		accepted = c != '/'
	case class:
		accepted = t.set[c]
	}
	switch {
	case !accepted:
	case t.kind == star || t.kind == rest:
		g.enter(states, k)
	case t.kind == dirs:
		// Only after a slash can the next token begin an element.
		states[k] = true
		if c == '/' {
			g.enter(states, k+1)
		}
	default:
		g.enter(states, k+1)
	}
	return accepted
}

// expandBraces returns the patterns that p stands for when {a,b} means a or b.
func expandBraces(p string) ([]string, error) {
	const most = 1000
	bounds, err := findBraces(p)
	if err != nil {
		return nil, err
	}
	if bounds == nil {
		return []string{p}, nil
	}
	var all []string
	before, after := p[:bounds[0]], p[bounds[len(bounds)-1]+1:]
	for i, end := range bounds[1:] {
		more, err := expandBraces(before + p[bounds[i]+1:end] + after)
		if err != nil {
			return nil, err
		}
		if all = append(all, more...); len(all) > most {
			return nil, fmt.Errorf("%q stands for more than %d patterns", p, most)
		}
	}
	return all, nil
}

// findBraces returns the offsets of the first outermost { in p, of its commas
// and of its }, or nil when p has none.
func findBraces(p string) ([]int, error) {
	var bounds []int
	depth := 0
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '\\':
			i++
		case c == '[':
			i = skipClass(p, i)
		case c == '{':
			if depth == 0 {
				bounds = append(bounds, i)
			}
			depth++
		case c == ',' && depth == 1:
			bounds = append(bounds, i)
		case c == '}' && depth == 0:
			return nil, fmt.Errorf("%q has a } without its {", p)
		case c == '}':
			if depth--; depth == 0 {
				return append(bounds, i), nil
			}
		}
	}
	if depth > 0 {
		return nil, fmt.Errorf("%q has a { without its }", p)
	}
	return nil, nil
}

// skipClass returns the offset of the ] that ends the class at p[i], or the
// end of p.
func skipClass(p string, i int) int {
	if i+1 == len(p) {
		return i
	}
	if i++; p[i] == '!' || p[i] == '^' {
		i++
	}
	if i < len(p) && p[i] == ']' {
		i++ // a ] at the start belongs to the class
	}
	for ; i < len(p) && p[i] != ']'; i++ {
		if p[i] == '\\' {
			i++
		}
	}
	return i
}
