package shell

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// mayExpandBraces reports whether a shell may expand braces in w. Shells differ in which
// they expand, and set +B turns it off.
func (sc scope) mayExpandBraces(w *syntax.Word) bool {
	open := slices.ContainsFunc(w.Parts, func(p syntax.WordPart) bool {
		lit, ok := p.(*syntax.Lit)
		return ok && strings.Contains(lit.Value, "{")
	})
	src := sc.source(w)
	return open && (strings.Contains(src, ",") || strings.Contains(src, ".."))
}

// expandedCall analyzes a simple command with all braces expanded.
func (f *finder) expandedCall(sc scope, in []*syntax.Word) {
	if !slices.ContainsFunc(in, sc.mayExpandBraces) {
		return
	}
	b := builder{f: f, sc: sc}
	for _, w := range in {
		split := *w // a copy, since the tree is walked again
		syntax.SplitBraces(&split)
		list, ok := expandBraces(&split)
		if !ok {
			return
		}
		for _, w := range list {
			b.word(w)
		}
	}
	f.call(sc.reinterpreted("{ }"), b.out)
}

// expandBraces returns the words to which a word with brace expressions expands, or
// false if there are too many.
func expandBraces(w *syntax.Word) ([]*syntax.Word, bool) {
	out := []*syntax.Word{{}}
	for _, p := range w.Parts {
		br, ok := p.(*syntax.BraceExp)
		if !ok {
			for _, o := range out {
				o.Parts = append(o.Parts, p)
			}
			continue
		}
		elems, ok := braceElems(br)
		if !ok || len(elems)*len(out) > maxWords {
			return nil, false
		}
		var next []*syntax.Word
		for _, o := range out {
			for _, e := range elems {
				parts := append(o.Parts[:len(o.Parts):len(o.Parts)], e.Parts...)
				next = append(next, &syntax.Word{Parts: parts})
			}
		}
		out = next
	}
	return out, true
}

// braceElems returns the alternatives of one brace expression.
func braceElems(br *syntax.BraceExp) ([]*syntax.Word, bool) {
	if br.Sequence {
		return braceSequence(br)
	}
	var all []*syntax.Word
	for _, e := range br.Elems {
		list, ok := expandBraces(e)
		if !ok || len(all)+len(list) > maxWords {
			return nil, false
		}
		all = append(all, list...)
	}
	return all, true
}

// braceSequence returns the words of {1..9} and {a..e..2}.
func braceSequence(br *syntax.BraceExp) ([]*syntax.Word, bool) {
	lit := make([]string, len(br.Elems))
	for i, e := range br.Elems {
		lit[i] = e.Lit()
	}
	step := 1
	if len(lit) > 2 {
		step, _ = strconv.Atoi(lit[2])
		step = max(step, -step, 1)
	}
	from, err1 := strconv.Atoi(lit[0])
	to, err2 := strconv.Atoi(lit[1])
	letters := err1 != nil || err2 != nil
	if letters {
		if len(lit[0]) != 1 || len(lit[1]) != 1 {
			return nil, false
		}
		from, to = int(lit[0][0]), int(lit[1][0])
	}
	if to < from {
		step = -step
	}
	var out []*syntax.Word
	for n := from; (step > 0 && n <= to) || (step < 0 && n >= to); n += step {
		if len(out) == maxWords {
			return nil, false
		}
		s := strconv.Itoa(n)
		if letters {
			s = string(rune(n))
		}
		out = append(out, &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: s}}})
	}
	return out, true
}
