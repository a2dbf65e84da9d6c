package grep

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// literals are pieces of text, one of which is in everything that matches.
type literals struct {
	pieces []string
	fold   bool // the pieces are ASCII in small letters; capitals match too
	rare   []int
}

const (
	maxPieces = 12  // more are slower to look for than to do without
	maxPiece  = 200 // bytes
)

// requiredLiterals returns the pieces that re requires, or nil. Whole says
// that everything that holds one of them matches.
func requiredLiterals(re *syntax.Regexp) (l *literals, whole bool) {
	r := require(re)
	best, whole := r.needed, false
	if r.exact != nil && better(r.exact, best) {
		best, whole = r.exact, true
	}
	if best == nil {
		return nil, false
	}
	l = &literals{}
	for _, p := range best {
		l.fold = l.fold || p.fold
	}
	for _, p := range best {
		text := p.text
		if l.fold {
			if text = longestSafe(asciiLower(p.text)); text != p.text {
				whole = false
			}
			whole = whole && p.fold
		}
		if text == "" {
			return nil, false
		}
		l.pieces = append(l.pieces, text)
		l.rare = append(l.rare, rarest(text))
	}
	return l, whole
}

// longestSafe returns the longest part of s whose letters are ASCII and equal
// in either case to ASCII letters only: k and s are not, because of K (Kelvin)
// and long s.
func longestSafe(s string) string {
	var best string
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool {
		return r >= utf8.RuneSelf || r == 'k' || r == 's'
	}) {
		if len(part) > len(best) {
			best = part
		}
	}
	return best
}

func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// A piece is literal text, perhaps in either case.
type piece struct {
	text string
	fold bool
}

// A requirement is what is known of the texts that an expression matches.
type requirement struct {
	exact  []piece // if not nil, all of them
	needed []piece // if not nil, one of these is in each of them
}

func require(re *syntax.Regexp) requirement {
	switch re.Op {
	case syntax.OpLiteral:
		text := string(re.Rune)
		if len(text) > maxPiece || !utf8.ValidString(text) || slices.Contains(re.Rune, utf8.RuneError) {
			return requirement{}
		}
		return requirement{exact: []piece{{text, re.Flags&syntax.FoldCase != 0 && hasCase(re.Rune)}}}
	case syntax.OpEmptyMatch:
		return requirement{exact: []piece{{}}}
	case syntax.OpCharClass:
		return classRequirement(re.Rune)
	case syntax.OpCapture:
		return require(re.Sub[0])
	case syntax.OpPlus:
		return requirement{needed: require(re.Sub[0]).any()}
	case syntax.OpRepeat:
		if re.Min > 0 {
			return requirement{needed: require(re.Sub[0]).any()}
		}
	case syntax.OpAlternate:
		return alternative(re.Sub)
	case syntax.OpConcat:
		return sequence(re.Sub)
	}
	return requirement{}
}

// any returns the pieces one of which is needed.
func (r requirement) any() []piece {
	if better(r.exact, r.needed) {
		return r.exact
	}
	return r.needed
}

func hasCase(runes []rune) bool {
	return slices.ContainsFunc(runes, func(r rune) bool { return unicode.SimpleFold(r) != r })
}

// classRequirement knows the classes of very few characters, such as [ab].
func classRequirement(class []rune) requirement {
	var exact []piece
	for i := 0; i < len(class); i += 2 {
		for r := class[i]; r <= class[i+1]; r++ {
			if len(exact) == 4 || r == utf8.RuneError || !utf8.ValidRune(r) {
				return requirement{}
			}
			exact = append(exact, piece{text: string(r)})
		}
	}
	return requirement{exact: exact}
}

func alternative(subs []*syntax.Regexp) requirement {
	out := requirement{exact: []piece{}, needed: []piece{}}
	for _, sub := range subs {
		r := require(sub)
		needed := r.any()
		if r.exact == nil {
			out.exact = nil
		} else if out.exact != nil {
			out.exact = append(out.exact, r.exact...)
		}
		if needed == nil {
			return requirement{}
		}
		out.needed = append(out.needed, needed...)
	}
	if len(out.needed) > maxPieces {
		return requirement{}
	}
	if len(out.exact) > maxPieces {
		out.exact = nil
	}
	return out
}

// sequence joins neighbours that are known exactly, and keeps the best that
// any part of the sequence needs.
func sequence(subs []*syntax.Regexp) requirement {
	run := []piece{{}} // what the exact parts since the last other one spell
	whole := true
	var best []piece
	keep := func(pieces []piece) {
		if better(pieces, best) {
			best = pieces
		}
	}
	for _, sub := range subs {
		r := require(sub)
		if joined, ok := join(run, r.exact); ok {
			run = joined
			continue
		}
		whole = false
		keep(run)
		keep(r.any())
		run = []piece{{}}
		if r.exact != nil {
			run = r.exact
		}
	}
	if whole {
		return requirement{exact: run}
	}
	keep(run)
	return requirement{needed: best}
}

// join returns all of a followed by all of b.
func join(a, b []piece) ([]piece, bool) {
	if b == nil || len(a)*len(b) > maxPieces {
		return nil, false
	}
	var out []piece
	for _, x := range a {
		for _, y := range b {
			text := x.text + y.text
			mixed := x.fold && !y.fold && hasCase([]rune(y.text)) || y.fold && !x.fold && hasCase([]rune(x.text))
			if len(text) > maxPiece || mixed {
				return nil, false
			}
			out = append(out, piece{text, x.fold || y.fold})
		}
	}
	return out, true
}

// better reports whether to look for one of a is faster than to look for one
// of b.
func better(a, b []piece) bool { return worth(a) > worth(b) }

func worth(pieces []piece) int {
	if len(pieces) == 0 || len(pieces) > maxPieces {
		return 0
	}
	shortest := maxPiece
	for _, p := range pieces {
		text := p.text
		if p.fold {
			text = longestSafe(asciiLower(text))
		}
		shortest = min(shortest, len(text))
	}
	if shortest == 0 {
		return 0
	}
	return 100*min(shortest, 8) - 20*len(pieces)
}

// frequent are the letters and signs of program text, the most frequent first.
const frequent = " etanriosl\tcdupm.h_gf,()b-\"0y=v1:w/x;'k2I*TSA>CE3{}"

// rarest returns the place in s of its least frequent byte.
func rarest(s string) int {
	best, rank := 0, -1
	for i := range len(s) {
		r := strings.IndexByte(frequent, s[i])
		if r < 0 {
			r = len(frequent)
		}
		if r > rank {
			best, rank = i, r
		}
	}
	return best
}

// A finder looks for literals in one text, from left to right. It remembers
// where it saw each piece.
type finder struct {
	*literals
	text []byte
	at   []int // by piece: where it is next, -1 not looked for, len(text) no more
}

func (l *literals) finder() *finder { return &finder{literals: l, at: make([]int, len(l.pieces))} }

func (f *finder) reset(text []byte) {
	f.text = text
	for i := range f.at {
		f.at[i] = -1
	}
}

// next returns where at from or later one of the pieces begins, or -1.
func (f *finder) next(from int) int {
	first := len(f.text)
	for i := range f.at {
		if f.at[i] < from {
			f.at[i] = f.look(i, from)
		}
		first = min(first, f.at[i])
	}
	if first == len(f.text) {
		return -1
	}
	return first
}

func (f *finder) look(i, from int) int {
	if from >= len(f.text) {
		return len(f.text)
	}
	var n int
	if f.fold {
		n = indexFold(f.text[from:], f.pieces[i], f.rare[i])
	} else {
		n = indexRare(f.text[from:], f.pieces[i], f.rare[i])
	}
	if n < 0 {
		return len(f.text)
	}
	return from + n
}

// indexRare returns where in text the piece begins, or -1. It looks for the
// byte at rare, and for the whole piece when that byte turns out to be
// frequent.
func indexRare(text []byte, piece string, rare int) int {
	c := piece[rare]
	for at, wrong := rare, 0; ; wrong++ {
		if at >= len(text) {
			return -1
		}
		n := bytes.IndexByte(text[at:], c)
		if n < 0 {
			return -1
		}
		start := at + n - rare
		if start+len(piece) > len(text) {
			return -1
		}
		if string(text[start:start+len(piece)]) == piece {
			return start
		}
		at += n + 1
		if wrong > 8+at/64 {
			if n = bytes.Index(text[start+1:], []byte(piece)); n < 0 {
				return -1
			}
			return start + 1 + n
		}
	}
}

// indexFold returns where in text the piece begins, in whatever case, or -1.
// The piece is ASCII in small letters; its byte at rare is looked for first.
func indexFold(text []byte, piece string, rare int) int {
	small := piece[rare]
	capital := small
	if 'a' <= small && small <= 'z' {
		capital -= 'a' - 'A'
	}
	nextSmall, nextCapital := rare-1, rare-1
	if capital == small {
		nextCapital = len(text)
	}
	seek := func(from int, c byte) int {
		if n := bytes.IndexByte(text[from:], c); n >= 0 {
			return from + n
		}
		return len(text)
	}
	for at := rare - 1; ; {
		if at+1 > len(text) {
			return -1
		}
		if nextSmall <= at {
			nextSmall = seek(at+1, small)
		}
		if nextCapital <= at {
			nextCapital = seek(at+1, capital)
		}
		at = min(nextSmall, nextCapital)
		start := at - rare
		if at == len(text) || start+len(piece) > len(text) {
			return -1
		}
		if equalFold(text[start:start+len(piece)], piece) {
			return start
		}
	}
}

func equalFold(text []byte, small string) bool {
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != small[i] {
			return false
		}
	}
	return true
}
