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
func answer(ctx context.Context, q query, found *results, named bool) (string, error) {
	if found.total == 0 {
		return withNotes("No matches found.", notesOf(found)), nil
	}
	var text, note string
	var err error
	switch q.output {
	case outputContent:
		text, note, err = contentOf(ctx, q, found, named)
	case outputCount:
		text, note, err = countsOf(ctx, q, found, named)
	default:
		text, note = pathsOf(q, found)
	}
	if err != nil {
		return "", err
	}
	notes := notesOf(found)
	if note != "" {
		notes = append([]string{note}, notes...)
	}
	return withNotes(text, notes), nil
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
	for _, c := range []struct {
		n         int64
		one, many string
	}{
		{found.unreadable.Load(), "1 file or folder could not be read", "%d files or folders could not be read"},
		{
			found.tooLong.Load(), "1 file was not searched to its end, it is too long or has a line that is",
			"%d files were not searched to their end, they are too long or have a line that is",
		},
	} {
		switch {
		case c.n == 1:
			notes = append(notes, c.one)
		case c.n > 1:
			notes = append(notes, fmt.Sprintf(c.many, c.n))
		}
	}
	return notes
}

func pathsOf(q query, found *results) (text, note string) {
	var b strings.Builder
	shown := 0
	for _, f := range found.newest() {
		s := tools.OneLine(f.shown) + "\n"
		if b.Len()+len(s) > maxOutput {
			break
		}
		b.WriteString(s)
		shown++
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

func contentOf(ctx context.Context, q query, found *results, named bool) (text, note string, err error) {
	r := newReport(ctx, q)
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
	return r.text.String(), note, nil
}

func countsOf(ctx context.Context, q query, found *results, named bool) (text, note string, err error) {
	s := newSearcher(ctx, q.pattern)
	var b strings.Builder
	shown := 0
	for _, f := range found.newest() {
		n, err := s.countFile(ctx, f.path, named)
		if err != nil && ctx.Err() != nil {
			found.stopped = true
			break
		}
		if err != nil && !errors.Is(err, errTooLong) {
			found.unreadable.Add(1)
			continue
		}
		line := fmt.Sprintf("%s:%d\n", tools.OneLine(f.shown), n)
		if b.Len()+len(line) > maxOutput {
			break
		}
		b.WriteString(line)
		shown++
	}
	return b.String(), filesLeft(shown, q, found), nil
}
