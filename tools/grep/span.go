package grep

import (
	"regexp/syntax"
	"unicode/utf8"
)

// A spanFinder finds the start and end of matches, unlike a machine. It runs all
// threads of the program at once, in order of preference, and is slower. It is for
// one goroutine.
type spanFinder struct {
	*program
	stop  func() bool // called now and then; if true, the search ends without a match
	taken int         // characters

	// The threads for the current and the next character, in order of preference.
	now, next threads
}

// A thread is an instruction to run, and the start of the match.
type thread struct {
	pc    uint32
	start int
}

type threads struct {
	list []thread
	seen []uint32 // by instruction: the round in which it was added
	// round counts characters.
	round uint32
}

func (t *threads) clear() {
	t.list = t.list[:0]
	t.round++
}

func (p *program) spans(stop func() bool) *spanFinder {
	n := len(p.insts)
	return &spanFinder{
		program: p,
		stop:    stop,
		now:     threads{seen: make([]uint32, n)},
		next:    threads{seen: make([]uint32, n)},
	}
}

// find returns the first match in text at or after from with Perl's semantics: the
// leftmost, then the preferred one.
func (f *spanFinder) find(text []byte, from int) (start, end int, ok bool) {
	f.now.clear()
	f.next.clear()
	before := state{before: '\n', first: true}
	if from > 0 {
		r, _ := lastRune(text[:from])
		before = state{before: r}
	}
	for at := from; ; {
		r, size := rune(runeEnd), 0
		if at < len(text) {
			r, size = firstRune(text[at:])
		}
		if f.taken++; f.taken%4096 == 0 && f.stop() {
			return 0, 0, false
		}
		holds := assertions(before, r)
		if !ok {
			f.add(&f.now, thread{f.start, at}, holds)
		}
		if len(f.now.list) == 0 && ok {
			return start, end, true
		}
		f.next.clear()
		for _, t := range f.now.list {
			in := &f.insts[t.pc]
			if in.Op == syntax.InstMatch {
				start, end, ok = t.start, at, true
				break // what follows is less preferred
			}
			if r >= 0 && in.MatchRune(r) {
				// Assertions after this character are checked once the next
				// character is known.
				f.next.list = append(f.next.list, thread{in.Out, t.start})
			}
		}
		if r == runeEnd {
			return start, end, ok
		}
		at += size
		before = state{before: r}
		f.advanceThreads(text, at, before)
	}
}

// all yields the matches in text from left to right. A match does not begin after the
// last newline.
func (f *spanFinder) all(text []byte) func(yield func(start, end int) bool) {
	return func(yield func(start, end int) bool) {
		for from := 0; from < len(text); {
			start, end, ok := f.find(text, from)
			behind := start == len(text) && text[start-1] == '\n'
			if !ok || behind || !yield(start, end) {
				return
			}
			from = end
			if start == end && end < len(text) {
				_, size := firstRune(text[end:])
				from += size
			}
		}
	}
}

// advanceThreads makes the threads of the next character the current ones.
func (f *spanFinder) advanceThreads(text []byte, at int, before state) {
	r := rune(runeEnd)
	if at < len(text) {
		r, _ = firstRune(text[at:])
	}
	holds := assertions(before, r)
	f.now.clear()
	for _, t := range f.next.list {
		f.add(&f.now, t, holds)
	}
}

// add adds the instructions that a thread reaches without consuming a character.
func (f *spanFinder) add(to *threads, t thread, holds syntax.EmptyOp) {
	if to.seen[t.pc] == to.round {
		return
	}
	to.seen[t.pc] = to.round
	switch in := &f.insts[t.pc]; in.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		f.add(to, thread{in.Out, t.start}, holds)
		f.add(to, thread{in.Arg, t.start}, holds)
	case syntax.InstCapture, syntax.InstNop:
		f.add(to, thread{in.Out, t.start}, holds)
	case syntax.InstEmptyWidth:
		if syntax.EmptyOp(in.Arg)&^holds == 0 {
			f.add(to, thread{in.Out, t.start}, holds)
		}
	case syntax.InstFail:
	default:
		to.list = append(to.list, t)
	}
}

// firstRune returns the first character of b and its size, or runeInvalid for a byte
// that is not valid UTF-8.
func firstRune(b []byte) (rune, int) {
	if b[0] < utf8.RuneSelf {
		return rune(b[0]), 1
	}
	r, size := utf8.DecodeRune(b)
	if r == utf8.RuneError && size == 1 {
		r = runeInvalid
	}
	return r, size
}

func lastRune(b []byte) (rune, int) {
	r, size := utf8.DecodeLastRune(b)
	if r == utf8.RuneError && size == 1 {
		r = runeInvalid
	}
	return r, size
}
