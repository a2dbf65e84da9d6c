package applypatch

import (
	"fmt"
	"html"
	"path/filepath"
	"slices"
	"strings"

	"toolgate/internal/lazyregexp"
)

// A hunkLeniency rewrites the hunks of an update that do not fit the file as they are.
// It reports whether it changed anything.
type hunkLeniency struct {
	note    string // for the model, what was done
	rewrite func(t *text, op *FileOp, hunks []Hunk) ([]Hunk, bool)
}

// hunkLeniencies are tried in this order, each on what the ones before it made, until all
// hunks fit. Each hunk must then fit in one place only.
var hunkLeniencies = []hunkLeniency{
	{"its --- and +++ lines were left out", withoutNames},
	{"blank lines below its header were left out", withoutBlankHunks},
	{"line numbers before its lines were removed", withoutNumbers},
	{"HTML entities were decoded", withoutEntities},
	{"an @@ line or '*** End of File' that does not fit was passed over", withoutAnchors},
}

// fit returns t with the hunks of op applied as they are, or else as the hunkLeniencies
// rewrite them, with notes. The mismatches are those of the hunks that it returns.
func (t *text) fit(op *FileOp) (edited *text, places []place, hunks []Hunk, notes []string, bad []mismatch) {
	edited, places, bad = t.edit(op.Hunks)
	if len(bad) == 0 {
		if op.Unique {
			bad = t.guessed(op.Hunks)
		}
		return edited, places, op.Hunks, nil, bad
	}
	if slices.ContainsFunc(bad, func(m mismatch) bool { return m.applied }) {
		return nil, nil, op.Hunks, nil, bad // rewritten, they could fit elsewhere
	}
	hunks = op.Hunks
	for _, l := range hunkLeniencies {
		next, ok := l.rewrite(t, op, hunks)
		if !ok {
			continue
		}
		hunks = next
		notes = append(notes, "note: "+op.Path+": "+l.note)
		e, p, b := t.edit(hunks)
		if len(b) == 0 {
			return e, p, hunks, notes, t.guessed(hunks)
		}
		if !slices.ContainsFunc(b, func(m mismatch) bool { return len(m.near) > 0 }) {
			return nil, nil, hunks, notes, b // all are there, but several times
		}
	}
	return edited, places, op.Hunks, nil, bad
}

// guessed returns the hunks that fit in several places, or say nothing about their place.
func (t *text) guessed(hunks []Hunk) (bad []mismatch) {
	m := &matcher{text: t}
	for i := range hunks {
		h := &hunks[i]
		if h.OldStart > 0 || h.NewStart > 0 || len(h.Context) > 0 || h.EndOfFile {
			continue
		}
		miss := &mismatch{why: "has no line of the file to go by; add lines of context"}
		if old := h.oldLines(); len(old) > 0 {
			found, _ := m.find(old, 0, false)
			if len(found) < 2 {
				continue
			}
			miss = ambiguous("its lines are", found)
		}
		miss.hunk = i
		bad = append(bad, *miss)
	}
	return bad
}

// withoutNames drops the first two lines of an update if they are the --- and +++ lines
// of a diff of the same file.
func withoutNames(_ *text, op *FileOp, hunks []Hunk) ([]Hunk, bool) {
	l := hunks[0].Lines
	if len(l) < 2 || l[0].Op != '-' || l[1].Op != '+' || len(hunks[0].Context) > 0 {
		return hunks, false
	}
	names := []string{"-" + l[0].Text, "+" + l[1].Text}
	if !hasNames(names) {
		return hunks, false
	}
	oldName, newName := headerNames(names)
	if filepath.Base(oldName) != filepath.Base(op.Path) || filepath.Base(newName) != filepath.Base(op.Path) {
		return hunks, false
	}
	hunks = slices.Clone(hunks)
	if hunks[0].Lines = l[2:]; len(l) == 2 {
		hunks = hunks[1:]
	}
	return hunks, len(hunks) > 0
}

func withoutBlankHunks(_ *text, _ *FileOp, hunks []Hunk) ([]Hunk, bool) {
	says := func(l Line) bool { return l.Op != ' ' || strings.TrimSpace(l.Text) != "" }
	kept := slices.DeleteFunc(slices.Clone(hunks), func(h Hunk) bool { return !slices.ContainsFunc(h.Lines, says) })
	return kept, len(kept) > 0 && len(kept) < len(hunks)
}

var numberedLine = lazyregexp.New(`^\s*L?\d+(?:: ?|\| ?|→|\t)`)

// withoutNumbers removes the line numbers, as read_file and others print them, if all old
// lines begin with one.
func withoutNumbers(_ *text, _ *FileOp, hunks []Hunk) ([]Hunk, bool) {
	out := make([]Hunk, len(hunks))
	for i, h := range hunks {
		h.Lines = slices.Clone(h.Lines)
		for j := range h.Lines {
			l := &h.Lines[j]
			n := len(numberedLine.FindString(l.Text))
			if n == 0 && l.Op != '+' {
				return hunks, false
			}
			l.Text = l.Text[n:]
		}
		out[i] = h
	}
	return out, true
}

// withoutEntities decodes all lines, of which an old one shows that they are encoded.
func withoutEntities(_ *text, _ *FileOp, hunks []Hunk) ([]Hunk, bool) {
	out := make([]Hunk, len(hunks))
	changed := false
	for i, h := range hunks {
		h.Lines = slices.Clone(h.Lines)
		for j := range h.Lines {
			l := &h.Lines[j]
			text := html.UnescapeString(l.Text)
			changed = changed || l.Op != '+' && text != l.Text
			l.Text = text
		}
		out[i] = h
	}
	return out, changed
}

// withoutAnchors drops the @@ lines and the End of File markers of the hunks that do not
// fit with them.
func withoutAnchors(t *text, _ *FileOp, hunks []Hunk) ([]Hunk, bool) {
	_, bad := t.placeAll(hunks)
	out := slices.Clone(hunks)
	changed := false
	for _, m := range bad {
		h := &out[m.hunk]
		if t.hasNew(without(h.Lines, '-')) {
			return hunks, false // it may be applied already
		}
		if len(h.oldLines()) == 0 || len(h.Context) == 0 && !h.EndOfFile || !t.resembles(h.Context) {
			return hunks, false
		}
		h.Context, h.EndOfFile, changed = nil, false, true
	}
	return out, changed
}

// resembles reports whether each @@ line is a part of a line of the file or the other way
// round, or only has line numbers.
func (t *text) resembles(context []string) bool {
	return !slices.ContainsFunc(context, func(c string) bool {
		want := lettersAndDigits(wordLine.ReplaceAllString(c, ""))
		if strings.Trim(want, "0123456789") == "" {
			return false
		}
		if c = strings.TrimSpace(strings.TrimSuffix(c, "@@")); len(c) > 2 &&
			slices.ContainsFunc(t.lines, func(l textLine) bool { return strings.Contains(l.text, c) }) {
			return false
		}
		return len(want) < 4 || !slices.ContainsFunc(t.looseLines(), func(line string) bool {
			return len(line) > 3 && (strings.Contains(line, want) || strings.Contains(want, line))
		})
	})
}

var wordLine = lazyregexp.New(`(?i)^\s*(?:lines?\b|L)`)

// otherPath returns what a path that does not exist probably means: it may have git's
// prefix, backslashes for slashes, or a line number or remark behind it.
func otherPath(name string) string {
	if !strings.Contains(name, "/") && filepath.Separator == '/' {
		name = strings.ReplaceAll(name, `\`, "/")
	}
	name = pathSuffix.ReplaceAllString(name, "")
	for _, prefix := range []string{"a/", "b/"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			return rest
		}
	}
	return name
}

// pathSuffix is what some write behind a path: a line number, a colon, or a remark.
var pathSuffix = lazyregexp.New(`(?::\d+(?:[:-]\d+)?|:| \([\w ,-]+\))$`)

// otherwise returns p with other paths, or nil unless all of them can be others.
func (p *Patch) otherwise() *Patch {
	q := *p
	q.fallback = nil
	q.Ops = slices.Clone(p.Ops)
	for i := range q.Ops {
		op := &q.Ops[i]
		path, to := otherPath(op.Path), otherPath(op.MoveTo)
		if path == op.Path || to == op.MoveTo && to != "" {
			return nil
		}
		op.Path, op.MoveTo = path, to
	}
	return &q
}

// located returns p with other paths if a file that it changes is missing, and all of
// these are there under their other paths.
func (p *Patch) located() (*Patch, error) {
	q := p.otherwise()
	if q == nil {
		return p, nil
	}
	found := false
	added := map[string]bool{}
	for i, op := range p.Ops {
		other := q.Ops[i].Path
		switch {
		case op.Kind != Add && !added[op.Path]:
			if exists(op.Path) || !exists(other) {
				return p, nil
			}
			found = true
		case op.Kind == Add && strings.Contains(op.Path, `\`) && !exists(op.Path):
			found = true
		}
		added[op.Path] = true
	}
	if found {
		const note = "note: its paths were read without a/ and b/, with slashes, and without remarks behind them"
		q.Notes = append(slices.Clone(p.Notes), note)
		return q, nil
	}
	for i, op := range p.Ops {
		if dir, _, _ := strings.Cut(op.Path, "/"); !exists(dir) && exists(filepath.Dir(q.Ops[i].Path)) &&
			strings.Contains(q.Ops[i].Path, "/") {
			return nil, fmt.Errorf("there is no folder %s; for a new file write '*** Add File: %s'", dir, q.Ops[i].Path)
		}
	}
	return p, nil
}

// appended returns a note about '+' lines below a bare @@, which go to the end of the
// file, or an error if they repeat most of it: then they were meant to replace it.
func (t *text) appended(op *FileOp) (note string, err error) {
	var added []Line
	for i := range op.Hunks {
		h := &op.Hunks[i]
		if len(h.oldLines()) == 0 && len(h.Context) == 0 && !h.EndOfFile && h.OldStart == 0 && h.NewStart == 0 {
			added = append(added, h.Lines...)
		}
	}
	if len(added) == 0 || len(t.lines) == 0 {
		return "", nil
	}
	if common, all := t.common(added); common > 1 && 2*common > all {
		return "", fmt.Errorf("%s: the '+' lines repeat %d of the %d lines of the file and would go to its end; "+
			"put '-' before lines to replace and ' ' before lines to keep, "+
			"or write '*** Delete File: %s' and then '*** Add File: %s'", op.Path, common, all, op.Path, op.Path)
	}
	return fmt.Sprintf("note: %s: the lines without context were added at the end of the file", op.Path), nil
}

// common returns how many lines of the file, blank ones aside, are among lines, and how
// many there are.
func (t *text) common(lines []Line) (common, all int) {
	have := map[string]int{}
	for _, l := range lines {
		have[strings.TrimSpace(l.Text)]++
	}
	for _, l := range t.lines {
		s := strings.TrimSpace(l.text)
		if s == "" {
			continue
		}
		all++
		if have[s] > 0 {
			have[s]--
			common++
		}
	}
	return common, all
}

var elided = lazyregexp.New(`(?i)\.\.\.|…|\b(existing|unchanged|remaining|rest of|same as before|omitted)\b`)

// replaced returns op as a hunk that replaces all lines, if its lines are plainly the
// whole file: they begin and end as it does, have most of its lines, and none stands for
// others.
func (t *text) replaced(op *FileOp) (*FileOp, error) {
	lines := op.Hunks[0].Lines
	common, all := t.common(lines)
	last := len(t.lines) - 1
	same := last >= 0 && strings.TrimSpace(t.lines[0].text) == strings.TrimSpace(lines[0].Text) &&
		strings.TrimSpace(t.lines[last].text) == strings.TrimSpace(lines[len(lines)-1].Text)
	elides := slices.ContainsFunc(lines, func(l Line) bool {
		there := func(f textLine) bool { return f.text == l.Text }
		return elided.MatchString(l.Text) && !slices.ContainsFunc(t.lines, there)
	})
	if !same || 2*common < all || elides {
		const format = "%s: no line below its header begins with ' ', '-' or '+'; " +
			"put '@@' above the changed place, '-' before lines to remove, '+' before new ones, ' ' before others, " +
			"or for a whole new file write '*** Delete File: %s' and then '*** Add File: %s'"
		return nil, fmt.Errorf(format, op.Path, op.Path, op.Path)
	}
	h := Hunk{Line: op.Hunks[0].Line}
	for _, l := range t.lines {
		h.Lines = append(h.Lines, Line{Op: '-', Text: l.text})
	}
	h.Lines = append(h.Lines, lines...)
	whole := *op
	whole.Hunks, whole.Whole = []Hunk{h}, false
	return &whole, nil
}
