package applypatch

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
)

// A place is the position of a hunk in a file.
type place struct {
	start  int   // index of the first old line
	old    int   // number of old lines
	strict bool  // the line endings match too, so those of the hunk are used
	others []int // further places where the lines match
	level  level // at which the old lines match
	from   int   // the search started at this index
	lines  []Line
}

func (p place) end() int { return p.start + p.old }

// A mismatch is a hunk that has no place.
type mismatch struct {
	hunk    int    // index in the file operation
	why     string // for the model
	near    []Line // the lines of the file that are most like these are shown, if there are any
	applied bool   // the file has the new lines already
}

func overlapping(places []int) *mismatch {
	return &mismatch{why: "overlaps another hunk at " + lineNumbers(places) + "; make them one"}
}

// ambiguous returns the mismatch for lines, named by what, that occur more than once.
func ambiguous(what string, places []int) *mismatch {
	return &mismatch{why: "is ambiguous: " + what + " " + occurrences(places) + "; add lines of context"}
}

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
		if miss := m.placeNext(&hunks[i]); miss != nil {
			miss.hunk = i
			bad = append(bad, *miss)
		}
	}
	return m.taken, bad
}

// fitsAll reports whether all hunks have places.
func (t *text) fitsAll(hunks []Hunk) bool {
	m := &matcher{text: t}
	return !slices.ContainsFunc(t.withoutBOM(hunks), func(h Hunk) bool { return m.placeNext(&h) != nil })
}

// placeNext takes the place of the next hunk.
func (m *matcher) placeNext(h *Hunk) *mismatch {
	p, miss := m.place(h)
	if at, ok := m.applied(h, p, miss); ok {
		return &mismatch{why: "is already applied: its new lines are at line " + fmt.Sprint(at+1), applied: true}
	}
	if miss == nil {
		m.take(p)
	}
	return miss
}

func (m *matcher) take(p place) {
	i := sort.Search(len(m.taken), func(i int) bool {
		q := m.taken[i]
		// An insertion before a line precedes a change of it; insertions at the same place keep their order.
		return q.start > p.start || q.start == p.start && q.old > p.old
	})
	m.taken = slices.Insert(m.taken, i, p)
	m.next = p.end()
	m.drift += len(without(p.lines, '-')) - p.old
}

// free reports whether no other hunk has taken any of the n lines at start.
// Taken places do not overlap, so checking the last one before the end suffices.
func (m *matcher) free(start, n int) bool {
	i := sort.Search(len(m.taken), func(i int) bool { return m.taken[i].start >= start+n })
	return i == 0 || m.taken[i-1].end() <= start
}

func (m *matcher) place(h *Hunk) (place, *mismatch) {
	old := h.oldLines()
	numbered := h.OldStart > 0 || h.NewStart > 0
	switch {
	case numbered && len(old) == 0:
		return m.insertion(h, h.OldStart, true)
	case numbered:
		return m.byNumber(h, old)
	}
	from, miss := m.afterContext(h, len(old) == 0)
	if miss != nil {
		return place{}, miss
	}
	if len(old) == 0 {
		if len(h.Context) == 0 || h.EndOfFile {
			from = len(m.text.lines)
		}
		return m.insertion(h, from, false)
	}
	p, miss := m.byLines(h, h.Lines, from)
	if miss != nil && old[len(old)-1].Text == "" {
		// Some patches have an empty line for the end of the file.
		if lines := withoutLastEmpty(h.Lines); len(lines) > 0 {
			if q, miss := m.byLines(h, lines, from); miss == nil {
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
	if len(without(lines, '+')) == 0 {
		return nil
	}
	return lines
}

// insertion places a hunk without old lines at start. numbered means that start is
// from its header.
func (m *matcher) insertion(h *Hunk, start int, numbered bool) (place, *mismatch) {
	p := place{start: start, strict: numbered, from: start, lines: h.Lines}
	switch {
	case start > len(m.text.lines):
		const format = "begins at line %d, but the file has %d lines"
		return p, &mismatch{why: fmt.Sprintf(format, start, len(m.text.lines))}
	case !m.free(start, 0):
		return p, overlapping([]int{start})
	}
	return p, nil
}

// afterContext returns the index after the line of the last @@. For an addition,
// that line must be unique, because nothing else determines the place.
func (m *matcher) afterContext(h *Hunk, addition bool) (int, *mismatch) {
	from := m.next
	for i, ctx := range h.Context {
		unique := addition && i == len(h.Context)-1
		found := m.contextPlaces(ctx, from)
		if len(found) == 0 && i == 0 {
			found, unique = m.contextPlaces(ctx, 0), true // hunks may come in any order
		}
		switch {
		case len(found) == 0:
			const format = "does not match: '@@ %s' is no whole line of the file; leave it out or copy one"
			why := fmt.Sprintf(format, short(ctx))
			return 0, &mismatch{why: why, near: []Line{{Text: ctx}}}
		case len(found) > 1 && unique:
			return 0, ambiguous(fmt.Sprintf("the line %q is", ctx), found)
		}
		from = found[0] + 1
	}
	return from, nil
}

// contextPlaces returns the lines at or after from that match ctx, at the
// strictest level with a match.
func (m *matcher) contextPlaces(ctx string, from int) []int {
	found, _ := m.find([]Line{{Text: ctx}}, from, false)
	if len(found) == 0 {
		ctx = strings.TrimSuffix(strings.TrimRight(ctx, " "), " @@")
		found, _ = m.find([]Line{{Text: ctx}}, from, false)
	}
	return found
}

// byLines places lines where their old lines are: at the only match at or after from, at
// the first one if the hunk has an @@ line, or else at the only match before it, or at the
// end of the file.
func (m *matcher) byLines(h *Hunk, lines []Line, from int) (place, *mismatch) {
	old := without(lines, '+')
	p := place{old: len(old), from: from, lines: lines}
	if h.EndOfFile {
		p.start = len(m.text.lines) - len(old)
		found, l := m.find(old, max(0, p.start), true)
		if p.start < 0 || len(found) == 0 {
			return p, m.mismatchOf(old, true)
		}
		p.level = l
		return p, nil
	}
	for _, start := range []int{from, 0} {
		found, l := m.find(old, start, true)
		switch {
		case len(found) > 1 && (start != from || len(h.Context) == 0):
			return p, ambiguous("its lines are", found)
		case len(found) > 0:
			p.start, p.others, p.level = found[0], found[1:], l
			return p, nil
		}
	}
	return p, m.mismatchOf(old, false)
}

// mismatchOf returns the mismatch for old, which has no free place, or with atEnd none
// at the end of the file.
func (m *matcher) mismatchOf(old []Line, atEnd bool) *mismatch {
	found, _ := m.find(old, 0, false)
	switch {
	case len(found) > 0 && !atEnd:
		return overlapping(found)
	case len(found) > 0:
		const format = "does not match: its lines are at %s, not at the end of the file; leave out '%s'"
		return &mismatch{why: fmt.Sprintf(format, lineNumbers(found), eofMarker)}
	case atEnd:
		return &mismatch{why: "does not match: its lines are not the last ones of the file", near: old}
	}
	return &mismatch{why: "does not match", near: old}
}

// maxFound is the maximum number of places to report for ambiguous lines.
const maxFound = 100

// find returns the first places of old at or after start, at the strictest level with
// a match, and that level. With onlyFree, it leaves out those that another hunk has taken.
func (m *matcher) find(old []Line, start int, onlyFree bool) ([]int, level) {
	for l := exact; l < levels; l++ {
		if found := m.findAt(old, l, start, onlyFree); len(found) > 0 {
			return found, l
		}
	}
	return nil, levels
}

// findAt is [matcher.find] at one level.
func (m *matcher) findAt(old []Line, l level, start int, onlyFree bool) []int {
	var found []int
	for i := range m.text.places(old, l, start) {
		if !onlyFree || m.free(i, len(old)) {
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
	want := max(0, h.NewStart-1-m.drift)
	p := place{start: want, old: len(old), strict: true, from: want, lines: h.Lines}
	var strict []int // free places where the line endings match too
	for i := range m.text.places(old, exact, 0) {
		if m.text.sameEnds(old, i) && m.free(i, len(old)) {
			strict = append(strict, i)
		}
	}
	if i, ok := m.gitPlace(strict, h, want); ok {
		p.start = i
		return p, nil
	}
	for l := exact; l < levels; l++ {
		found := strict
		p.strict, p.level = l == exact && len(strict) > 0, l
		if !p.strict {
			found = m.findAt(old, l, 0, true)
		}
		switch {
		case slices.Contains(found, want), !p.strict && m.text.fits(old, l, want) && m.free(want, len(old)):
			return p, nil
		case len(found) == 1:
			p.start = found[0]
			return p, nil
		case len(found) > 1:
			return p, ambiguous("its lines are", found)
		}
	}
	return p, m.mismatchOf(old, false)
}

// gitPlace returns the start that git would choose: the nearest to want, and the
// later one of two.
func (m *matcher) gitPlace(starts []int, h *Hunk, want int) (int, bool) {
	n := len(h.oldLines())
	atStart, atEnd := h.OldStart <= 1, h.Lines[len(h.Lines)-1].Op != ' '
	starts = slices.DeleteFunc(slices.Clone(starts), func(s int) bool {
		return atStart && s != 0 || atEnd && s+n != len(m.text.lines)
	})
	if len(starts) == 0 {
		return 0, false
	}
	return slices.MinFunc(starts, func(a, b int) int {
		return cmp.Or(cmp.Compare(distance(a, want), distance(b, want)), cmp.Compare(b, a))
	}), true
}

// applied returns where the file has the new lines of a hunk already, if that makes it likely
// that the hunk is applied: its old lines are nowhere, are within the new ones, or match
// elsewhere less well. Below an @@ line or by line number, the nearer place counts.
func (m *matcher) applied(h *Hunk, p place, miss *mismatch) (at int, ok bool) {
	old, new := without(p.lines, '+'), without(p.lines, '-')
	adds := len(new) > 0 && slices.ContainsFunc(new, func(l Line) bool { return l.Op == '+' })
	switch {
	case miss != nil && (len(miss.near) == 0 || len(new) < 2 && !adds), miss == nil && !adds, sameLines(old, new):
		return 0, false
	case miss != nil:
		p.level, p.strict = typographic, false
	}
	numbered := h.OldStart > 0 || h.NewStart > 0
	for q := range m.text.newPlaces(new, p) {
		switch {
		case miss != nil, p.level > exact, q <= p.start && p.end() <= q+len(new):
			return q, true
		case numbered && distance(q, h.NewStart-1) < distance(p.start, p.from),
			len(h.Context) > 0 && p.from <= q && (q < p.start || p.start < p.from):
			return q, true
		}
	}
	return 0, false
}

func sameLines(a, b []Line) bool {
	return slices.EqualFunc(a, b, func(a, b Line) bool { return a.Text == b.Text && a.End == b.End })
}

func distance(a, b int) int { return max(a-b, b-a) }

// newPlaces yields every index where the file has the new lines of a hunk: the added ones
// exactly, the others at the level of p.
func (t *text) newPlaces(new []Line, p place) iter.Seq[int] {
	fits := func(l Line, at int) bool {
		if l.Op == ' ' {
			return t.foldedAt(p.level)[at] == p.level.fold(l.Text)
		}
		return t.lines[at].text == l.Text && (!p.strict || t.sameEnds([]Line{l}, at))
	}
	return func(yield func(int) bool) {
		for i := range t.candidates(p.level, p.level.fold(new[0].Text), 0) {
			n := 0
			for n < len(new) && i+n < len(t.lines) && fits(new[n], i+n) {
				n++
			}
			if n == len(new) && !yield(i) {
				return
			}
		}
	}
}

// hasNew reports whether the file has the new lines of a hunk anywhere. Blank lines of
// context at its ends may be missing.
func (t *text) hasNew(new []Line) bool {
	isBlank := func(l Line) bool { return l.Op == ' ' && strings.TrimSpace(l.Text) == "" }
	for len(new) > 0 && isBlank(new[0]) {
		new = new[1:]
	}
	for len(new) > 0 && isBlank(new[len(new)-1]) {
		new = new[:len(new)-1]
	}
	if len(new) == 0 {
		return false
	}
	for range t.newPlaces(new, place{level: typographic}) {
		return true
	}
	return false
}

// places yields every index at or after start where old matches.
func (t *text) places(old []Line, l level, start int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range t.candidates(l, l.fold(old[0].Text), start) {
			if t.fits(old, l, i) && !yield(i) {
				return
			}
		}
	}
}

func (t *text) fits(old []Line, l level, start int) bool {
	if start < 0 || start+len(old) > len(t.lines) {
		return false
	}
	folded := t.foldedAt(l)[start:]
	for i := range old {
		if folded[i] != l.fold(old[i].Text) {
			return false
		}
	}
	return true
}

// sameEnds reports whether the lines at start have the line endings of old. One that is
// not specified matches every line ending.
func (t *text) sameEnds(old []Line, start int) bool {
	for i, l := range old {
		if l.End != "" && t.lines[start+i].end != strings.TrimPrefix(l.End, NoNewline) {
			return false
		}
	}
	return true
}
