package grep

import (
	"iter"
	"regexp/syntax"
	"unicode/utf8"
)

// A spanFinder finds the start and end of matches, unlike a machine. It runs all
// threads of the program at once, in order of preference, and is slower. It is for
// one goroutine.
type spanFinder struct {
	*program
	stop  func() bool // called now and then; if true, the search ends without a match
	taken uint32      // characters

	// The threads in order of preference: those before the current character, and
	// those that are to consume it.
	waiting, ready []thread
	seen           []uint32 // by instruction: the value of taken when it became ready
}

// A thread is an instruction to run, and the start of the match.
type thread struct {
	pc    uint32
	start int
}

func (p *program) spans(stop func() bool) *spanFinder {
	return &spanFinder{program: p, stop: stop, seen: make([]uint32, len(p.insts))}
}

// find returns the first match in text at or after from with Perl's semantics: the
// leftmost, then the preferred one.
func (f *spanFinder) find(text []byte, from int) (start, end int, ok bool) {
	f.waiting = f.waiting[:0]
	before := state{before: '\n', first: true}
	if from > 0 {
		before = state{}
		before.before, _ = utf8.DecodeLastRune(text[:from])
	}
	for at := from; ; {
		r, size := firstRune(text[at:])
		if f.taken++; f.taken%4096 == 0 && f.stop() {
			return 0, 0, false
		}
		holds := assertions(before, r)
		f.ready = f.ready[:0]
		for _, t := range f.waiting {
			f.add(t, holds)
		}
		if !ok {
			f.add(thread{f.start, at}, holds)
		}
		f.waiting = f.waiting[:0]
		for _, t := range f.ready {
			in := &f.insts[t.pc]
			if in.Op == syntax.InstMatch {
				start, end, ok = t.start, at, true
				break // what follows is less preferred
			}
			if r >= 0 && in.MatchRune(r) {
				f.waiting = append(f.waiting, thread{in.Out, t.start})
			}
		}
		if r == runeEnd || ok && len(f.waiting) == 0 {
			return start, end, ok
		}
		at += size
		before = state{before: r}
	}
}

// all yields the matches in text from left to right. A match does not begin after the
// last newline.
func (f *spanFinder) all(text []byte) iter.Seq2[int, int] {
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

// add makes ready the instructions that a thread reaches without consuming a
// character.
func (f *spanFinder) add(t thread, holds syntax.EmptyOp) {
	if f.seen[t.pc] == f.taken {
		return
	}
	f.seen[t.pc] = f.taken
	switch in := &f.insts[t.pc]; in.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		f.add(thread{in.Out, t.start}, holds)
		f.add(thread{in.Arg, t.start}, holds)
	case syntax.InstCapture, syntax.InstNop:
		f.add(thread{in.Out, t.start}, holds)
	case syntax.InstEmptyWidth:
		if syntax.EmptyOp(in.Arg)&^holds == 0 {
			f.add(thread{in.Out, t.start}, holds)
		}
	case syntax.InstFail:
	default:
		f.ready = append(f.ready, t)
	}
}

// firstRune returns the first character of b and its size: runeInvalid for a byte that
// is not valid UTF-8, runeEnd if b is empty.
func firstRune(b []byte) (rune, int) {
	r, size := utf8.DecodeRune(b)
	switch {
	case size == 0:
		r = runeEnd
	case r == utf8.RuneError && size == 1:
		r = runeInvalid
	}
	return r, size
}
