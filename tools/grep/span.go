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
	taken int         // characters

	// The threads in order of preference: those before the current character, and
	// those that are to consume it.
	waiting []thread
	ready   threads
}

// A thread is an instruction to run, and the start of the match.
type thread struct {
	pc    uint32
	start int
}

// threads are the threads of a program that are to consume a character or have
// reached a match.
type threads struct {
	insts []syntax.Inst
	list  []thread
	seen  []uint32 // by instruction: the round in which it was reached
	round uint32
}

func (p *program) threads() threads {
	return threads{insts: p.insts, seen: make([]uint32, len(p.insts))}
}

func (t *threads) clear() {
	t.list = t.list[:0]
	t.round++
}

// add adds the instructions that x reaches without consuming a character, in order of
// preference.
func (t *threads) add(x thread, holds syntax.EmptyOp) {
	if t.seen[x.pc] == t.round {
		return
	}
	t.seen[x.pc] = t.round
	switch in := &t.insts[x.pc]; in.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		t.add(thread{in.Out, x.start}, holds)
		t.add(thread{in.Arg, x.start}, holds)
	case syntax.InstCapture, syntax.InstNop:
		t.add(thread{in.Out, x.start}, holds)
	case syntax.InstEmptyWidth:
		if syntax.EmptyOp(in.Arg)&^holds == 0 {
			t.add(thread{in.Out, x.start}, holds)
		}
	case syntax.InstFail:
	default:
		t.list = append(t.list, x)
	}
}

func (p *program) spans(stop func() bool) *spanFinder {
	return &spanFinder{program: p, stop: stop, ready: p.threads()}
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
		f.ready.clear()
		for _, t := range f.waiting {
			f.ready.add(t, holds)
		}
		if !ok {
			f.ready.add(thread{f.start, at}, holds)
		}
		f.waiting = f.waiting[:0]
		for _, t := range f.ready.list {
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
