package applypatch

import (
	"iter"
	"slices"
	"sort"
	"strings"
)

// A place is the position of a hunk in a file.
type place struct {
	start  int   // index of the first old line
	old    int   // number of old lines
	level  level // at which they match
	strict bool  // the line endings match too, so those of the hunk are used
	others []int // further places where the lines match
	lines  []Line
}

func (p place) end() int { return p.start + p.old }

// A mismatch is a hunk that has no place.
type mismatch struct {
	hunk   int // index in the file operation
	reason reason
	places []int // the ambiguous places, from 0
	want   string
}

// A reason is why a hunk has no place.
type reason int

const (
	noLines   reason = iota // the old lines are not in the file
	noContext               // the line of an @@ is not in the file
	manyLines               // the old lines occur more than once
	manyContexts
	notAtEnd   // the old lines are not at the end of the file
	overlap    // the place is taken by another hunk
	noSuchLine // a line number beyond the end
)

// A matcher finds the places of the hunks of one file.
type matcher struct {
	text  *text
	taken []place // sorted by start
	next  int     // where the search continues, after the previous hunk
	drift int     // lines that the hunks so far added to the file
}

// placeAll returns the places of all hunks in file order, and the hunks that
// have none.
func (t *text) placeAll(hunks []Hunk) ([]place, []mismatch) {
	m := &matcher{text: t}
	var bad []mismatch
	for i := range hunks {
		p, miss := m.place(&hunks[i])
		if miss != nil {
			miss.hunk = i
			bad = append(bad, *miss)
			continue
		}
		m.take(p)
	}
	return m.taken, bad
}

// take reserves p.
func (m *matcher) take(p place) {
	i, _ := slices.BinarySearchFunc(m.taken, p, func(a, b place) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return a.old - b.old // an insertion before a line precedes a change of it
	})
	for i < len(m.taken) && p.old == 0 && m.taken[i].old == 0 && m.taken[i].start == p.start {
		i++ // insertions at the same place keep their order
	}
	m.taken = slices.Insert(m.taken, i, p)
	m.next = p.end()
	for _, l := range p.lines {
		switch l.Op {
		case '+':
			m.drift++
		case '-':
			m.drift--
		}
	}
}

// free reports whether no other hunk has taken any of the n lines at start.
// Taken places do not overlap, so checking the last one before the end suffices.
func (m *matcher) free(start, n int) bool {
	i := sort.Search(len(m.taken), func(i int) bool { return m.taken[i].start >= start+n })
	return i == 0 || m.taken[i-1].end() <= start
}

// place finds the place of one hunk.
func (m *matcher) place(h *Hunk) (place, *mismatch) {
	old := h.oldLines()
	if h.OldStart > 0 || h.NewStart > 0 {
		return m.byNumber(h, old)
	}
	from, miss := m.afterContext(h, len(old) == 0)
	if miss != nil {
		return place{}, miss
	}
	if len(old) == 0 {
		return m.addition(h, from)
	}
	p, miss := m.byLines(h.Lines, old, from, h.EndOfFile)
	if miss != nil && old[len(old)-1].Text == "" {
		// Some patches have an empty line for the end of the file.
		if lines := withoutLastEmpty(h.Lines); len(lines) > 0 {
			shorter := Hunk{Lines: lines}
			if q, miss := m.byLines(lines, shorter.oldLines(), from, h.EndOfFile); miss == nil {
				return q, nil
			}
		}
	}
	return p, miss
}

// withoutLastEmpty returns lines without the last old line, which is empty, and
// without the corresponding new line.
func withoutLastEmpty(lines []Line) []Line {
	lines = slices.Clone(lines)
	last := func(op byte) int {
		for i := len(lines) - 1; i >= 0; i-- {
			if lines[i].Op == op || lines[i].Op == ' ' {
				return i
			}
		}
		return -1
	}
	i := last('-')
	if lines[i].Op == '-' {
		if j := last('+'); j >= 0 && lines[j].Op == '+' && lines[j].Text == "" {
			lines = slices.Delete(lines, j, j+1)
			i = last('-')
		}
	}
	lines = slices.Delete(lines, i, i+1)
	h := Hunk{Lines: lines}
	if len(h.oldLines()) == 0 {
		return nil
	}
	return lines
}

// addition places a hunk without old lines after its context, or else at the end.
func (m *matcher) addition(h *Hunk, from int) (place, *mismatch) {
	p := place{start: len(m.text.lines), lines: h.Lines}
	if len(h.Context) > 0 && !h.EndOfFile {
		p.start = from
	}
	if !m.free(p.start, 0) {
		return p, &mismatch{reason: overlap, places: []int{p.start}}
	}
	return p, nil
}

// afterContext returns the index after the line of the last @@. For an addition,
// that line must be unique, because nothing else determines the place.
func (m *matcher) afterContext(h *Hunk, addition bool) (int, *mismatch) {
	from := m.next
	for i, ctx := range h.Context {
		found := m.contextPlaces(ctx, from)
		if len(found) == 0 && i == 0 {
			found = m.contextPlaces(ctx, 0) // hunks may come in any order
			if len(found) > 1 {
				return 0, &mismatch{reason: manyContexts, places: found, want: ctx}
			}
		}
		if len(found) == 0 {
			return 0, &mismatch{reason: noContext, want: ctx}
		}
		if addition && len(found) > 1 && i == len(h.Context)-1 {
			return 0, &mismatch{reason: manyContexts, places: found, want: ctx}
		}
		from = found[0] + 1
	}
	return from, nil
}

// contextPlaces returns the lines at or after from that match ctx, at the
// strictest level with a match.
func (m *matcher) contextPlaces(ctx string, from int) []int {
	for _, want := range []string{ctx, strings.TrimSuffix(strings.TrimRight(ctx, " "), " @@")} {
		for l := exact; l < levels; l++ {
			if found := m.text.find([]Line{{Text: want}}, l, from, maxFound); len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

// byLines places old, the old lines of lines, at the first match at or after
// from, or else at the only match before it.
func (m *matcher) byLines(lines, old []Line, from int, atEnd bool) (place, *mismatch) {
	if atEnd {
		return m.atEnd(lines, old)
	}
	for _, start := range []int{from, 0} {
		for l := exact; l < levels; l++ {
			found := m.findFree(old, l, start)
			if len(found) == 0 {
				continue
			}
			if start != from && len(found) > 1 {
				return place{}, &mismatch{reason: manyLines, places: found}
			}
			return place{start: found[0], old: len(old), level: l, others: found[1:], lines: lines}, nil
		}
	}
	return place{}, m.mismatchOf(old, noLines)
}

// atEnd places old at the end of the file.
func (m *matcher) atEnd(lines, old []Line) (place, *mismatch) {
	start := len(m.text.lines) - len(old)
	for l := exact; l < levels && start >= 0; l++ {
		if m.text.fits(old, l, start) && m.free(start, len(old)) {
			return place{start: start, old: len(old), level: l, lines: lines}, nil
		}
	}
	return place{}, m.mismatchOf(old, notAtEnd)
}

// mismatchOf returns the mismatch for old: overlap if another hunk has taken the
// lines, and otherwise the given reason.
func (m *matcher) mismatchOf(old []Line, otherwise reason) *mismatch {
	for l := exact; l < levels; l++ {
		found := m.text.find(old, l, 0, maxFound)
		if len(found) == 0 {
			continue
		}
		if otherwise == noLines {
			otherwise = overlap
		}
		return &mismatch{reason: otherwise, places: found}
	}
	return &mismatch{reason: otherwise}
}

// findFree returns the free places of old at or after start, at most [maxFound].
func (m *matcher) findFree(old []Line, l level, start int) []int {
	var found []int
	for i := range m.text.places(old, l, start) {
		if m.free(i, len(old)) {
			found = append(found, i)
		}
		if len(found) == maxFound {
			break
		}
	}
	return found
}

// byNumber places a hunk with line numbers. If git apply finds a place, byNumber
// returns the same one: lines and line endings match, and the place is the
// nearest to the line number; a hunk without leading or trailing context belongs
// to the start or end of the file. Otherwise the lines must match at the line
// number or at exactly one place.
func (m *matcher) byNumber(h *Hunk, old []Line) (place, *mismatch) {
	if len(old) == 0 {
		return m.insertion(h)
	}
	want := max(0, h.NewStart-1-m.drift)
	p := place{old: len(old), strict: true, lines: h.Lines}
	var strict []int // free places where the line endings match too
	for i := range m.text.places(old, exact, 0) {
		if m.text.sameEnds(old, i) && m.free(i, len(old)) {
			strict = append(strict, i)
		}
	}
	if i, ok := nearest(m.gitCandidates(strict, h, len(old)), want); ok {
		p.start = i
		return p, nil
	}
	for l := exact; l < levels; l++ {
		found := strict
		p.strict, p.level = l == exact && len(strict) > 0, l
		if !p.strict {
			found = m.findFree(old, l, 0)
			if m.text.fits(old, l, want) && m.free(want, len(old)) {
				found = []int{want}
			}
		}
		switch {
		case slices.Contains(found, want):
			p.start = want
			return p, nil
		case len(found) == 1:
			p.start = found[0]
			return p, nil
		case len(found) > 1:
			return p, &mismatch{reason: manyLines, places: found}
		}
	}
	return p, m.mismatchOf(old, noLines)
}

// gitCandidates returns the starts that git would accept.
func (m *matcher) gitCandidates(starts []int, h *Hunk, n int) []int {
	atStart, atEnd := h.OldStart <= 1, h.Lines[len(h.Lines)-1].Op != ' '
	var ok []int
	for _, s := range starts {
		if (!atStart || s == 0) && (!atEnd || s+n == len(m.text.lines)) {
			ok = append(ok, s)
		}
	}
	return ok
}

// nearest returns the start nearest to want, and the later one of two.
func nearest(starts []int, want int) (int, bool) {
	best, ok := 0, false
	for _, s := range starts {
		if d, b := abs(s-want), abs(best-want); !ok || d < b || d == b && s > best {
			best, ok = s, true
		}
	}
	return best, ok
}

func abs(n int) int { return max(n, -n) }

// insertion places a hunk of added lines by its line number.
func (m *matcher) insertion(h *Hunk) (place, *mismatch) {
	p := place{start: h.OldStart, strict: true, lines: h.Lines}
	if p.start > len(m.text.lines) {
		return p, &mismatch{reason: noSuchLine}
	}
	if !m.free(p.start, 0) {
		return p, &mismatch{reason: overlap, places: []int{p.start}}
	}
	return p, nil
}

// maxFound is the maximum number of places to report for ambiguous lines.
const maxFound = 100

// find returns the first places of old at or after start, at most most.
func (t *text) find(old []Line, l level, start, most int) []int {
	var found []int
	for i := range t.places(old, l, start) {
		if found = append(found, i); len(found) == most {
			break
		}
	}
	return found
}

// places yields every index at or after start where old matches.
func (t *text) places(old []Line, l level, start int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range t.candidates(l, l.key(old[0].Text), start) {
			if t.fits(old, l, i) && !yield(i) {
				return
			}
		}
	}
}

// fits reports whether old matches the lines at start.
func (t *text) fits(old []Line, l level, start int) bool {
	if start < 0 || start+len(old) > len(t.lines) {
		return false
	}
	for i := range old {
		if l.fold(t.lines[start+i].text) != l.fold(old[i].Text) {
			return false
		}
	}
	return true
}

// sameEnds reports whether the lines at start have the line endings of old.
func (t *text) sameEnds(old []Line, start int) bool {
	for i := range old {
		if !sameEnd(t.lines[start+i].end, old[i].End) {
			return false
		}
	}
	return true
}

// sameEnd reports whether the line ending end matches the one in a patch. An
// unspecified one matches every line ending.
func sameEnd(end, says string) bool {
	if says == NoNewline {
		return end == ""
	}
	return says == "" || end == says
}
