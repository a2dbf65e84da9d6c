package applypatch

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// excerptLines is the most that is shown of one place.
const excerptLines = 24

// explain returns what is wrong with a hunk of the file at path, for the model.
func (t *text) explain(path string, h *Hunk, m mismatch) string {
	at := fmt.Sprintf("%s: hunk %d (line %d of the patch) ", path, m.hunk+1, h.Line)
	switch m.reason {
	case noContext:
		return at + fmt.Sprintf("does not match: no line of the file is %q%s", m.want, t.nearestTo([]Line{{Op: ' ', Text: m.want}}))
	case manyContexts:
		return at + fmt.Sprintf("is ambiguous: the line %q is there %d times, %s; add lines of context", m.want, len(m.places), t.listed(m.places))
	case manyLines:
		return at + fmt.Sprintf("is ambiguous: its lines are there %d times, %s; add lines of context", len(m.places), t.listed(m.places))
	case overlap:
		return at + "overlaps another hunk; make them one"
	case noSuchLine:
		return at + fmt.Sprintf("begins at line %d, but the file has %d lines", h.OldStart, len(t.lines))
	case notAtEnd:
		return at + "does not match: its lines are not the last ones of the file" + t.nearestTo(h.oldLines())
	}
	return at + "does not match" + t.nearestTo(h.oldLines())
}

// alsoAt says that the lines of a hunk are in the file more than once.
func (t *text) alsoAt(path string, p place) string {
	return fmt.Sprintf("note: %s: the lines of a hunk are there %d times, %s; the change was made at line %d", path, len(p.others)+1, t.listed(append([]int{p.start}, p.others...)), p.start+1)
}

// listed returns the numbers of the lines at places.
func (t *text) listed(places []int) string {
	const most = 10
	var b strings.Builder
	b.WriteString("at line ")
	for i, p := range places {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(places)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, p+1)
	}
	return b.String()
}

// nearestTo shows where most lines of old are, and what differs there.
func (t *text) nearestTo(old []Line) string {
	start, ok := t.nearestPlace(old)
	if !ok {
		return "; nothing like it is in the file"
	}
	end := min(len(t.lines), start+len(old))
	var want, have bytes.Buffer
	for _, l := range old {
		want.WriteString(l.Text + "\n")
	}
	for _, l := range t.lines[start:end] {
		have.WriteString(l.text + "\n")
	}
	return fmt.Sprintf("; nearest is line %d to %d (- the patch, + the file):\n%s", start+1, end, excerpt(want.Bytes(), have.Bytes()))
}

// excerpt returns a short diff of two texts.
func excerpt(old, new []byte) string { return hunksOnly(string(diff.Diff("old", old, "new", new))) }

// hunksOnly returns the lines of a diff without its headers, indented.
func hunksOnly(d string) string {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(d) {
		switch {
		case strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "@@"):
			continue
		}
		if n++; n > excerptLines {
			b.WriteString("    …\n")
			break
		}
		b.WriteString("    " + short(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// nearestPlace returns where most lines of old agree with the file in the same
// order.
func (t *text) nearestPlace(old []Line) (int, bool) {
	where := map[uint64][]int{}
	for i, l := range old {
		if strings.TrimSpace(l.Text) != "" {
			k := typographic.key(l.Text)
			where[k] = append(where[k], i)
		}
	}
	votes := map[int]int{}
	best, most := 0, 0
	for i, k := range t.keysAt(typographic) {
		for _, j := range where[k] {
			start := i - j
			if start < 0 {
				continue
			}
			votes[start]++
			if v := votes[start]; v > most || v == most && start < best {
				best, most = start, v
			}
		}
	}
	return best, most > 0
}
