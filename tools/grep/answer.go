package grep

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"toolgate/tools"
)

// answer returns the text of the result. named means that the path of the query is a
// file.
func answer(ctx context.Context, q query, found *results, named bool) string {
	if found.total == 0 {
		return withNotes("No matches found.", notesOf(found))
	}
	var text, note string
	switch q.output {
	case outputContent:
		text, note = contentOf(ctx, q, found, named)
	case outputCount:
		text, note = countsOf(ctx, q, found, named)
	default:
		text, note = filesOf(q, found, func(f match) string { return tools.OneLine(f.shown) + "\n" })
	}
	notes := notesOf(found)
	if note != "" {
		notes = append([]string{note}, notes...)
	}
	return withNotes(text, notes)
}

func withNotes(text string, notes []string) string {
	text = strings.TrimSuffix(text, "\n")
	if len(notes) == 0 {
		return text
	}
	return text + "\n\nNote: " + strings.Join(notes, ".\nNote: ") + "."
}

// notesOf returns the reasons why the answer is incomplete.
func notesOf(found *results) []string {
	var notes []string
	if found.stopped {
		const format = "stopped after %d seconds, so files are missing here; search a smaller path or use include"
		notes = append(notes, fmt.Sprintf(format, int(maxTime.Seconds())))
	}
	add := func(n int64, one, many string) {
		switch {
		case n == 1:
			notes = append(notes, one)
		case n > 1:
			notes = append(notes, fmt.Sprintf(many, n))
		}
	}
	add(found.unreadable.Load(), "1 file or folder could not be read", "%d files or folders could not be read")
	add(found.tooLong.Load(), "1 file was not searched to its end, it is too long or has a line that is",
		"%d files were not searched to their end, they are too long or have a line that is")
	return notes
}

// filesOf returns the lines of the newest files, as many as fit.
func filesOf(q query, found *results, line func(match) string) (text, note string) {
	var b strings.Builder
	shown := 0
	for _, f := range found.newest() {
		s := line(f)
		if b.Len()+len(s) > maxOutput {
			break
		}
		if s != "" {
			b.WriteString(s)
			shown++
		}
	}
	return b.String(), filesLeft(shown, q, found)
}

// filesLeft returns a note if not all files are shown, or "".
func filesLeft(shown int, q query, found *results) string {
	switch {
	case shown == found.total:
		return ""
	case shown == q.limit && shown < maxLimit:
		return fmt.Sprintf("%d of %d files shown, the newest; raise limit, search a smaller path or use include",
			shown, found.total)
	}
	return fmt.Sprintf("%d of %d files shown, the newest, more do not fit; search a smaller path or use include",
		shown, found.total)
}

func contentOf(ctx context.Context, q query, found *results, named bool) (text, note string) {
	r := &report{searcher: newSearcher(ctx, q.pattern), context: q.context, limit: q.limit}
	files := 0
	full := false
	for _, f := range found.newest() {
		err := r.file(ctx, f.path, f.shown, named)
		if r.begun {
			files++
		}
		if full = errors.Is(err, errFull); full {
			break
		}
		if err != nil && ctx.Err() != nil {
			found.stopped = true
			break
		}
		if err != nil && !errors.Is(err, errTooLong) {
			found.unreadable.Add(1)
		}
	}
	if full || files < found.total {
		format := "the first %d matching lines shown, from %d of %d files; " +
			"raise limit, search a smaller path or use include"
		if full && r.lines < q.limit {
			format = "%d matching lines shown, from %d of %d files, more do not fit; " +
				"search a smaller path or use include"
		}
		note = fmt.Sprintf(format, r.lines, files, found.total)
	}
	return r.text.String(), note
}

func countsOf(ctx context.Context, q query, found *results, named bool) (text, note string) {
	s := newSearcher(ctx, q.pattern)
	return filesOf(q, found, func(f match) string {
		n, err := s.countFile(ctx, f.path, named)
		switch {
		case err != nil && ctx.Err() != nil:
			found.stopped = true
			return ""
		case err != nil && !errors.Is(err, errTooLong):
			found.unreadable.Add(1)
			return ""
		}
		return fmt.Sprintf("%s:%d\n", tools.OneLine(f.shown), n)
	})
}
