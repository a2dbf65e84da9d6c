package grep

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// A program is a compiled regular expression. It differs from package regexp where
// ripgrep does: word boundaries support Unicode, and nothing matches a byte that is
// not valid UTF-8.
//
// It only tells whether there is a match, so it can run as a deterministic automaton
// with one step per character.
type program struct {
	lines bool // the empty text after the last newline is not a line
	insts []syntax.Inst
	start uint32

	// Characters that no instruction distinguishes share a class.
	ascii   [utf8.RuneSelf]uint16
	starts  []rune // starts of the ranges of characters of one class
	classes []uint16
	samples []rune // one character of each class; the last two are not characters
}

// The classes that are not characters come last.
func (p *program) invalid() uint16 { return uint16(len(p.samples) - 2) }
func (p *program) end() uint16     { return uint16(len(p.samples) - 1) }

const (
	runeInvalid = -1 // a byte that is not UTF-8
	runeEnd     = -2 // the end of the text
)

// newProgram compiles tree. With lines, text is searched line by line, so the empty
// text after the last newline does not count.
func newProgram(tree *syntax.Regexp, lines bool) (*program, error) {
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	p := &program{lines: lines, insts: prog.Inst, start: uint32(prog.Start)}
	p.mark(tree)
	p.classify()
	return p, nil
}

func (p *program) classify() {
	sets := []*syntax.Inst{{Op: syntax.InstRune1, Rune: []rune{'\n'}}} // different sets that are told apart
	known := map[string]bool{}
	words := false
	for i := range p.insts {
		switch in := &p.insts[i]; in.Op {
		case syntax.InstRune, syntax.InstRune1:
			if key := setKey(in); !known[key] {
				known[key] = true
				sets = append(sets, in)
			}
		case syntax.InstEmptyWidth:
			const boundary = syntax.EmptyWordBoundary | syntax.EmptyNoWordBoundary |
				emptyNoWordBefore | emptyNoWordAfter
			words = words || syntax.EmptyOp(in.Arg)&boundary != 0
		}
	}
	if words {
		sets = append(sets, &syntax.Inst{Op: syntax.InstRune, Rune: wordRunes()})
	}
	borders := []rune{0}
	for _, in := range sets {
		borders = append(borders, bordersOf(in)...)
	}
	slices.Sort(borders)
	borders = slices.Compact(borders)

	classes := map[string]uint16{} // by the sets that contain the class
	for _, r := range borders {
		if r > unicode.MaxRune {
			continue
		}
		var signature []byte
		for _, in := range sets {
			signature = append(signature, bit(in.MatchRune(r)))
		}
		class, ok := classes[string(signature)]
		if !ok {
			class = uint16(len(p.samples))
			classes[string(signature)] = class
			p.samples = append(p.samples, r)
		}
		if n := len(p.classes); n > 0 && p.classes[n-1] == class {
			continue
		}
		p.starts = append(p.starts, r)
		p.classes = append(p.classes, class)
	}
	p.samples = append(p.samples, runeInvalid, runeEnd)
	for r := range p.ascii {
		p.ascii[r] = p.class(rune(r))
	}
}

// setKey returns a key for the set of characters that in matches.
func setKey(in *syntax.Inst) string {
	key := []byte{bit(syntax.Flags(in.Arg)&syntax.FoldCase != 0)}
	for _, r := range in.Rune {
		key = binary.BigEndian.AppendUint32(key, uint32(r))
	}
	return string(key)
}

// bordersOf returns the borders of the ranges that in matches.
func bordersOf(in *syntax.Inst) []rune {
	var borders []rune
	if len(in.Rune) == 1 {
		r := in.Rune[0]
		borders = append(borders, r, r+1)
		if syntax.Flags(in.Arg)&syntax.FoldCase != 0 {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				borders = append(borders, f, f+1)
			}
		}
		return borders
	}
	for i := 0; i+1 < len(in.Rune); i += 2 {
		borders = append(borders, in.Rune[i], in.Rune[i+1]+1)
	}
	return borders
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (p *program) class(r rune) uint16 {
	i, found := slices.BinarySearch(p.starts, r)
	if !found {
		i--
	}
	return p.classes[i]
}

// A machine runs a program. It creates states when they are first reached and caches
// them. It is for one goroutine.
type machine struct {
	*program

	states []state
	known  map[string]uint32
	next   []uint32 // by state and class: a state, unmade or matched
	size   int      // approximate size of the cache in bytes

	stop func() bool // called now and then; if true, the search ends without a match
	made int         // steps that were not cached

	ready threads // scratch space
}

// A state is the set of active instructions, and the kind of the previous character.
type state struct {
	pcs    []uint32
	before rune // a sample: '\n' also for the start of the text
	first  bool // at the start of the text
}

const (
	unmade  uint32 = iota // not a state: not cached
	matched               // not a state: a match was found
	stopped               // not a state: the search must end
	atStart               // the state at the start of the text
)

// machine returns a machine for p. A search ends early when stop returns true.
func (p *program) machine(stop func() bool) *machine {
	m := &machine{program: p, stop: stop, ready: p.threads()}
	m.reset()
	return m
}

func (m *machine) reset() {
	m.size = 0
	m.states = make([]state, atStart)
	m.known = map[string]uint32{}
	m.next = make([]uint32, int(atStart)*len(m.samples))
	m.state(nil, '\n', true)
}

// find returns the first position in text at which a match is certain, or -1. The
// match ends there at the latest.
func (m *machine) find(text []byte) int {
	width := uint32(len(m.samples))
	at := uint32(atStart)
	for i := 0; i < len(text); {
		var class uint16
		size := 1
		if c := text[i]; c < utf8.RuneSelf {
			class = m.ascii[c]
		} else {
			var r rune
			if r, size = utf8.DecodeRune(text[i:]); r == utf8.RuneError && size == 1 {
				class = m.invalid()
			} else {
				class = m.program.class(r)
			}
		}
		to := m.next[at*width+uint32(class)]
		if to < atStart {
			if to == unmade {
				to = m.step(at, class)
			}
			switch to {
			case matched:
				return i
			case stopped:
				return -1
			}
		}
		at = to
		i += size
	}
	if n := len(text); m.lines && (n == 0 || text[n-1] == '\n') {
		return -1
	}
	to := m.next[at*width+uint32(m.end())]
	if to == unmade {
		to = m.step(at, m.end())
	}
	if to == matched {
		return len(text)
	}
	return -1
}

// step computes the state after at for class. It may clear the cache, which changes
// the numbers of states.
func (m *machine) step(at uint32, class uint16) uint32 {
	const most = 8 << 20 // bytes
	if m.size > most {
		s := m.states[at]
		m.reset()
		at = m.state(s.pcs, s.before, s.first)
	}
	if m.made++; m.made%1024 == 0 && m.stop() {
		return stopped
	}
	s := m.states[at]
	r := m.samples[class]
	to := m.advance(s, r)
	m.next[int(at)*len(m.samples)+int(class)] = to
	return to
}

// advance returns the state after s for the character r.
func (m *machine) advance(s state, r rune) uint32 {
	holds := assertions(s, r)
	m.ready.clear()
	for _, pc := range s.pcs {
		m.ready.add(thread{pc: pc}, holds)
	}
	m.ready.add(thread{pc: m.start}, holds) // a match can begin anywhere
	var out []uint32
	for _, t := range m.ready.list {
		in := &m.insts[t.pc]
		if in.Op == syntax.InstMatch {
			return matched
		}
		if r >= 0 && in.MatchRune(r) {
			out = append(out, in.Out)
		}
	}
	if r == runeEnd {
		return atStart
	}
	slices.Sort(out)
	return m.state(slices.Compact(out), r, false)
}

// assertions returns the assertions that hold between s and the character r.
func assertions(s state, r rune) syntax.EmptyOp {
	var holds syntax.EmptyOp
	if s.first {
		holds |= syntax.EmptyBeginText
	}
	if s.before == '\n' {
		holds |= syntax.EmptyBeginLine
	}
	if r == runeEnd {
		holds |= syntax.EmptyEndText
	}
	if r == runeEnd || r == '\n' {
		holds |= syntax.EmptyEndLine
	}
	before, after := isWord(s.before), isWord(r)
	if before != after {
		holds |= syntax.EmptyWordBoundary
	} else {
		holds |= syntax.EmptyNoWordBoundary
	}
	if !before {
		holds |= emptyNoWordBefore
	}
	if !after {
		holds |= emptyNoWordAfter
	}
	return holds
}

// state returns the number of the state with these parts, and creates it if needed.
func (m *machine) state(pcs []uint32, before rune, first bool) uint32 {
	// Only these kinds of previous characters matter.
	switch {
	case before == '\n':
	case isWord(before):
		before = 'a'
	default:
		before = ' '
	}
	key := make([]byte, 0, 5+4*len(pcs))
	key = append(key, byte(before), bit(first))
	for _, pc := range pcs {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	if n, ok := m.known[string(key)]; ok {
		return n
	}
	n := uint32(len(m.states))
	m.known[string(key)] = n
	m.states = append(m.states, state{pcs, before, first})
	m.next = append(m.next, make([]uint32, len(m.samples))...)
	m.size += 8*len(key) + 4*len(m.samples) + 100
	return n
}
