package applypatch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const byteOrderMark = "\uFEFF"

// edit returns t with all hunks applied, and their places. If any hunk has no
// place, it returns the mismatches instead.
func (t *text) edit(hunks []Hunk) (edited *text, places []place, bad []mismatch) {
	hunks = t.withoutBOM(hunks)
	places, bad = t.placeAll(hunks)
	if len(bad) > 0 {
		return nil, nil, bad
	}
	return t.at(places), places, nil
}

// at returns t with the lines at places, in file order, replaced.
func (t *text) at(places []place) *text {
	out := &text{enc: t.enc, bom: t.bom, lines: make([]textLine, 0, len(t.lines))}
	done := 0
	for _, p := range places {
		out.lines = append(out.lines, t.lines[done:p.start]...)
		p.lines = t.reindented(p)
		out.lines = append(out.lines, t.changed(p)...)
		done = p.end()
	}
	out.lines = append(out.lines, t.lines[done:]...)
	t.fixLineEnds(out)
	return out
}

// reindented returns the lines of p, the new ones with the indentation of the file, if all
// old lines, of which there are several, differ from the file's by the same indentation.
func (t *text) reindented(p place) []Line {
	more, less, ok := t.indentation(p)
	if !ok || more == less {
		return p.lines
	}
	lines := slices.Clone(p.lines)
	for i := range lines {
		l := &lines[i]
		if l.Op != '+' || strings.TrimSpace(l.Text) == "" {
			continue
		}
		rest, had := strings.CutPrefix(l.Text, less)
		if !had {
			return p.lines
		}
		l.Text = more + rest
	}
	return lines
}

// indentation returns what the lines of the file at p have before them that the old lines
// of p have not, and the other way round. It reports false unless it is the same for all.
func (t *text) indentation(p place) (more, less string, ok bool) {
	const least = 2 // old lines that are not blank
	n := 0
	for i, l := range without(p.lines, '+') {
		file := t.lines[p.start+i].text
		if strings.TrimSpace(l.Text) == "" {
			continue
		}
		file, text := strings.TrimRight(file, " \t"), strings.TrimRight(l.Text, " \t")
		a, okMore := strings.CutSuffix(file, text)
		b, okLess := strings.CutSuffix(text, file)
		if !okMore && !okLess || strings.TrimSpace(a) != "" && okMore || strings.TrimSpace(b) != "" && okLess {
			return "", "", false
		}
		if !okMore {
			a = ""
		}
		if !okLess {
			b = ""
		}
		if n > 0 && (a != more || b != less) {
			return "", "", false
		}
		more, less = a, b
		n++
	}
	return more, less, n >= least
}

// indentationNote returns a note if the new lines of p got the indentation of the file, or
// an error if they have none where they need it.
func (t *text) indentationNote(path string, p place) (string, error) {
	if t.flattened(p) {
		const format = "%s: the lines of a hunk at line %d lack the indentation of the file, " +
			"and so would the new ones; copy it"
		return "", fmt.Errorf(format, path, p.start+1)
	}
	more, less, ok := t.indentation(p)
	if !ok || more == less || !slices.ContainsFunc(p.lines, func(l Line) bool { return l.Op == '+' }) {
		return "", nil
	}
	const format = "note: %s: the file is indented in another way than the patch at line %d; so are the new lines"
	return fmt.Sprintf(format, path, p.start+1), nil
}

// flattened reports whether no line of p has an indentation, though several old ones do
// in the file.
func (t *text) flattened(p place) bool {
	lost, at := 0, p.start
	for _, l := range p.lines {
		if strings.TrimLeft(l.Text, " \t") != l.Text {
			return false
		}
		if l.Op == '+' {
			continue
		}
		if file := t.lines[at].text; strings.TrimSpace(l.Text) != "" && strings.TrimLeft(file, " \t") != file {
			lost++
		}
		at++
	}
	return lost > 1 && slices.ContainsFunc(p.lines, func(l Line) bool { return l.Op == '+' })
}

// changed returns the lines that replace those at p.
func (t *text) changed(p place) []textLine {
	var out []textLine
	var removed []string // line endings of the lines just removed
	at, last := p.start, t.lineEndNear(p.start)
	for _, l := range p.lines {
		switch l.Op {
		case ' ':
			out = append(out, t.lines[at])
			removed, last = nil, t.lineEndNear(at+1)
			at++
		case '-':
			removed = append(removed, t.lineEndNear(at+1))
			last = removed[len(removed)-1]
			at++
		case '+':
			line := textLine{text: l.Text, end: last}
			if len(removed) > 0 {
				line.end, removed = removed[0], removed[1:]
			}
			if p.strict && l.End != "" {
				line.end = strings.TrimPrefix(l.End, NoNewline)
				line.explicitEnd = true
			}
			out = append(out, line)
		}
	}
	return out
}

// lineEndNear returns the line ending of the line before index i, or else of the
// line at i, or else "\n".
func (t *text) lineEndNear(i int) string {
	for _, j := range []int{i - 1, i - 2, i} {
		if j >= 0 && j < len(t.lines) && t.lines[j].end != "" {
			return t.lines[j].end
		}
	}
	return "\n"
}

// fixLineEnds adds missing line endings to all lines of out except the last one.
// A file that did not end in a line ending still does not.
func (t *text) fixLineEnds(out *text) {
	for i := range out.lines {
		l := &out.lines[i]
		isLast := i == len(out.lines)-1
		switch {
		case !isLast && l.end == "":
			out.setEnd(l, t.lineEndNear(len(t.lines)-1))
		case isLast && l.raw == nil && !l.explicitEnd && len(t.lines) > 0 && t.lines[len(t.lines)-1].end == "":
			l.end = ""
		}
	}
}

// withoutBOM returns the hunks without the byte order mark that some have in the
// first line of the file. It removes the one of the file if a hunk does.
func (t *text) withoutBOM(hunks []Hunk) []Hunk {
	if !t.bom {
		return hunks
	}
	out := make([]Hunk, len(hunks))
	for i, h := range hunks {
		out[i] = h
		old, lines := h.oldLines(), without(h.Lines, '-')
		adds := len(lines) > 0 && strings.HasPrefix(lines[0].Text, byteOrderMark)
		switch {
		case len(old) > 0 && strings.HasPrefix(old[0].Text, byteOrderMark):
			t.bom = adds
		case !adds:
			continue
		}
		out[i].Lines = slices.Clone(h.Lines)
		for j := range out[i].Lines {
			l := &out[i].Lines[j]
			l.Text = strings.TrimPrefix(l.Text, byteOrderMark)
		}
	}
	return out
}

// newFile returns the content of a file that consists of the '+' lines of hunks.
func newFile(hunks []Hunk) []byte {
	var b strings.Builder
	for _, h := range hunks {
		for _, l := range h.Lines {
			b.WriteString(l.Text)
			if l.End != NoNewline {
				b.WriteString(cmp.Or(l.End, "\n"))
			}
		}
	}
	return []byte(b.String())
}
