package grep

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"toolgate/internal/lazyregexp"
	"toolgate/tools"
)

// answer returns the text of the result. named means that the path of the query is a
// file.
func answer(ctx context.Context, q query, found *results, named bool) (string, error) {
	if found.total == 0 {
		return withNotes("No matches found.", append(doubtsAbout(q.expr), notesOf(found)...)), nil
	}
	var text string
	var note []string
	var err error
	switch q.output {
	case outputContent:
		text, note, err = contentOf(ctx, q, found, named)
	case outputCount:
		text, note, err = countsOf(ctx, q, found, named)
	default:
		text, note, err = q.page.files(found, match.line)
	}
	return withNotes(text, append(note, notesOf(found)...)), err
}

// line returns the line of the result for m.
func (m match) line() string { return tools.OneLine(m.shown) + "\n" }

// doubtsAbout returns what expr may have been meant to say.
func doubtsAbout(expr string) (notes []string) {
	if strings.Contains(expr, `\|`) {
		notes = append(notes, `\| is the character |; alternatives have | alone between them`)
	}
	if dollarBeforeText.MatchString(expr) {
		notes = append(notes, `$ is the end of a line; write \$ for the character`)
	}
	return notes
}

var dollarBeforeText = lazyregexp.New(`(?:^|[^\\])\$[\w{]`)

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

func contentOf(ctx context.Context, q query, found *results, named bool) (text string, note []string, err error) {
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
	switch {
	case r.shown == 0 && !full && r.seen > 0:
		return "", nil, q.page.past(r.seen, r.unit)
	case r.shown == 0 && !full && q.matching:
		return "No matches found that are not empty.", nil, nil
	case full || q.page.end() < found.total:
		const format = "%d %s shown, from %d of %d files; continue with offset %d, or search for less"
		note = []string{fmt.Sprintf(format, r.shown, r.unit, files, found.total, q.page.first+r.shown)}
	}
	return r.text.String(), note, nil
}

func countsOf(ctx context.Context, q query, found *results, named bool) (text string, note []string, err error) {
	s := newSearcher(ctx, q.pattern)
	return q.page.files(found, func(f match) string {
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
