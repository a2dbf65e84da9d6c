package grep

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// literals are pieces of text, at least one of which is in every match.
type literals struct {
	pieces []string
	fold   bool  // the pieces are lower-case ASCII; upper case matches too
	rare   []int // by piece, the offset of its rarest byte
}

const (
	maxPieces = 12  // searching for more is slower than not searching for any
	maxPiece  = 200 // bytes
)

// requiredLiterals returns the pieces that re requires, or nil. whole means that any
// text that contains one of them matches.
func requiredLiterals(re *syntax.Regexp) (l *literals, whole bool) {
	r := require(re)
	best, whole := r.needed, false
	if r.exact != nil && better(r.exact, best) {
		best, whole = r.exact, true
	}
	if best == nil {
		return nil, false
	}
	l = &literals{fold: slices.ContainsFunc(best, func(p piece) bool { return p.fold })}
	for _, p := range best {
		text := p.text
		if l.fold {
			if text = longestSafe(p.text); text != p.text {
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

// longestSafe returns the longest part of s whose letters are ASCII and fold to ASCII
// letters only, in lower case. It excludes k and s because of the Kelvin sign and the
// long s.
func longestSafe(s string) string {
	var best string
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool {
		return r >= utf8.RuneSelf || strings.ContainsRune("ksKS", r)
	}) {
		if len(part) > len(best) {
			best = part
		}
	}
	return strings.ToLower(best)
}

// A piece is literal text. With fold, case is ignored.
type piece struct {
	text string
	fold bool
}

// A requirement is what is known about the matches of an expression.
type requirement struct {
	exact  []piece // if not nil, all possible matches
	needed []piece // if not nil, every match contains one of these
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

// any returns pieces of which every match contains one.
func (r requirement) any() []piece {
	if better(r.exact, r.needed) {
		return r.exact
	}
	return r.needed
}

func hasCase(runes []rune) bool {
	return slices.ContainsFunc(runes, func(r rune) bool { return unicode.SimpleFold(r) != r })
}

// classRequirement supports classes of very few characters, such as [ab].
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

// sequence joins adjacent parts that are known exactly, and returns the best pieces
// that any part of the sequence needs.
func sequence(subs []*syntax.Regexp) requirement {
	run := []piece{{}} // the concatenation of the latest exact parts
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

func join(a, b []piece) ([]piece, bool) {
	if b == nil || len(a)*len(b) > maxPieces {
		return nil, false
	}
	var out []piece
	for _, x := range a {
		for _, y := range b {
			text := x.text + y.text
			mixed := x.fold && !y.fold && hasCase([]rune(y.text)) ||
				y.fold && !x.fold && hasCase([]rune(x.text))
			if len(text) > maxPiece || mixed {
				return nil, false
			}
			out = append(out, piece{text, x.fold || y.fold})
		}
	}
	return out, true
}

// better reports whether searching for a is faster than searching for b.
func better(a, b []piece) bool { return worth(a) > worth(b) }

func worth(pieces []piece) int {
	if len(pieces) == 0 || len(pieces) > maxPieces {
		return 0
	}
	shortest := maxPiece
	for _, p := range pieces {
		text := p.text
		if p.fold {
			text = longestSafe(text)
		}
		shortest = min(shortest, len(text))
	}
	if shortest == 0 {
		return 0
	}
	return 100*min(shortest, 8) - 20*len(pieces)
}

// frequent lists the most frequent characters of source code, in order.
const frequent = " etanriosl\tcdupm.h_gf,()b-\"0y=v1:w/x;'k2I*TSA>CE3{}"

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

// A finder searches a text for literals from left to right. It remembers the next
// position of each piece.
type finder struct {
	*literals
	text []byte
	at   []int // by piece: next position, -1 if unknown, len(text) if none
}

func (l *literals) finder() *finder { return &finder{literals: l, at: make([]int, len(l.pieces))} }

func (f *finder) reset(text []byte) {
	f.text = text
	for i := range f.at {
		f.at[i] = -1
	}
}

// next returns the position of the first piece at or after from, or -1.
func (f *finder) next(from int) int {
	first := len(f.text)
	for i := range f.at {
		if f.at[i] < from {
			f.at[i] = f.seek(i, from)
		}
		first = min(first, f.at[i])
	}
	if first == len(f.text) {
		return -1
	}
	return first
}

// seek returns the position of piece i at or after from, or len(f.text).
func (f *finder) seek(i, from int) int {
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

// indexRare returns the position of piece in text, or -1. It searches for the byte at
// rare, and for the whole piece if that byte turns out to be frequent.
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

// indexFold returns the position of piece in text, ignoring case, or -1. The piece is
// lower-case ASCII; indexFold searches for its byte at rare.
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
