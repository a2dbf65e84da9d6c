package grep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"toolgate/tools"
)

// maxColumn is the maximum number of bytes shown of a line.
const maxColumn = 500

// errFull stops reading files when the result is full.
var errFull = errors.New("result is full")

// A report builds the text of a result in output mode content, in the format of
// ripgrep with headings and line numbers.
type report struct {
	searcher *searcher
	query    query
	matches  *spanFinder // for only_matching; nil without it
	unit     string      // what is counted: matching lines, or matches

	text  strings.Builder
	seen  int // of unit, so far
	shown int // of them

	// State of the current file:
	path  string
	begun bool     // its heading has been written
	last  int      // number of the last line written
	after int      // lines still to be written after the last match
	tail  []string // the last lines before the current block
}

func newReport(ctx context.Context, q query) *report {
	r := &report{searcher: newSearcher(ctx, q.pattern), query: q, unit: "matching lines"}
	if q.matching {
		r.unit = "matches"
		r.matches = q.pattern.program.spans(func() bool { return ctx.Err() != nil })
	}
	return r
}

// file adds the matching lines of the file at path. It returns errFull if they do not
// all fit.
func (r *report) file(ctx context.Context, path, shown string, named bool) error {
	r.path, r.begun, r.last, r.after, r.tail = shown, false, 0, 0, nil
	lines := r.searcher.lines
	if r.searcher.spans != nil {
		lines = r.spanLines
	}
	number := 0 // number of lines before the block
	var full error
	err := r.searcher.read(ctx, path, named, func(block []byte) bool {
		if r.matches != nil {
			full = r.onlyMatches(block, number)
		} else {
			full = r.block(block, number, r.paged(lines(block)))
		}
		number += tools.CountLines(block)
		return full == nil
	})
	return errors.Join(err, full)
}

// spanLines yields the lines of text that the matches span.
func (r *report) spanLines(text []byte) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		from := 0 // start of the first line not yielded yet
		for start, end := range r.searcher.spans.all(text) {
			if end > start && text[end-1] == '\n' {
				end--
			}
			at, _ := lineAround(text, start)
			for at = max(at, from); at <= end && at < len(text); {
				_, stop := lineAround(text, at)
				if !yield(at, stop) {
					return
				}
				at = stop + 1
				from = at
			}
		}
	}
}

// paged leaves out what precedes the page.
func (r *report) paged(found iter.Seq2[int, int]) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		for start, end := range found {
			if r.seen++; r.seen >= r.query.page.first && !yield(start, end) {
				return
			}
		}
	}
}

// onlyMatches writes the matches in block that are not empty, as ripgrep does. number is
// the number of lines before the block.
func (r *report) onlyMatches(block []byte, number int) error {
	at := 0 // what precedes it is counted in number
	for start, end := range r.paged(r.matchesIn(block)) {
		if r.shown == r.query.page.limit {
			return errFull
		}
		number += bytes.Count(block[at:start], []byte{'\n'})
		at = start
		next := number
		for l := range bytes.Lines(block[start:end]) {
			next++
			if err := r.line(next, ':', cutLine(l)); err != nil {
				return err
			}
		}
		r.shown++
	}
	return nil
}

// matchesIn yields the matches in block that are not empty.
func (r *report) matchesIn(block []byte) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		lines := r.searcher.lines
		if r.searcher.spans != nil {
			lines = func(all []byte) iter.Seq2[int, int] {
				return func(yield func(int, int) bool) { yield(0, len(all)) }
			}
		}
		for from, to := range lines(block) {
			for start, end := range r.matches.all(block[from:to]) {
				if start < end && !yield(from+start, from+end) {
					return
				}
			}
		}
	}
}

// block writes the matching lines of block and the lines around them. number is the
// number of lines before the block.
func (r *report) block(block []byte, number int, lines iter.Seq2[int, int]) error {
	at := 0 // start of the first line not counted in number yet
	for start, end := range lines {
		if err := r.trailing(block[at:start], number); err != nil {
			return err
		}
		before := tools.CountLines(block[at:start])
		if err := r.leading(block[:start], number+before); err != nil {
			return err
		}
		number += before + 1
		if r.shown == r.query.page.limit {
			return errFull
		}
		if err := r.line(number, ':', r.shorten(block[start:end])); err != nil {
			return err
		}
		r.shown++
		r.after = r.query.after
		at = min(end+1, len(block))
	}
	if err := r.trailing(block[at:], number); err != nil {
		return err
	}
	r.tail = lastLines(r.tail, block, r.query.before)
	return nil
}

// trailing writes the lines of text that are context of the last match. number is
// the number of lines before text.
func (r *report) trailing(text []byte, number int) error {
	for l := range bytes.Lines(text) {
		if r.after == 0 {
			return nil
		}
		number++
		if err := r.line(number, '-', cutLine(l)); err != nil {
			return err
		}
		r.after--
	}
	return nil
}

// leading writes the context before a match that was not written yet: the last lines
// of text, and of the block before it. number is the number of the last of them.
func (r *report) leading(text []byte, number int) error {
	wanted := min(r.query.before, number-r.last)
	if wanted <= 0 {
		return nil
	}
	lines := lastLines(r.tail, text, wanted)
	for i, l := range lines {
		if err := r.line(number-len(lines)+i+1, '-', l); err != nil {
			return err
		}
	}
	return nil
}

// lastLines returns the last n of the lines in tail and in text, which follows it.
func lastLines(tail []string, text []byte, n int) []string {
	var lines []string
	for len(lines) < n && len(text) > 0 {
		start := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
		lines = append(lines, cutLine(text[start:]))
		text = text[:start]
	}
	slices.Reverse(lines)
	more := min(n-len(lines), len(tail))
	return slices.Concat(tail[len(tail)-more:], lines)
}

// line writes one line, below the heading of its file.
func (r *report) line(number int, sign byte, text string) error {
	var s string
	switch {
	case !r.begun && r.text.Len() > 0:
		s = "\n" + tools.OneLine(r.path) + "\n"
	case !r.begun:
		s = tools.OneLine(r.path) + "\n"
	case r.query.before+r.query.after > 0 && number != r.last+1:
		s = "--\n"
	}
	s += fmt.Sprintf("%d%c%s\n", number, sign, text)
	if r.text.Len()+len(s) > maxOutput {
		return errFull
	}
	r.text.WriteString(s)
	r.begun, r.last = true, number
	return nil
}

// shorten returns a matching line, or the part of it around the match.
func (r *report) shorten(l []byte) string {
	if len(l) <= maxColumn {
		return cutLine(l)
	}
	start := 0
	if at := r.searcher.machine.find(l); at > maxColumn {
		start = at - maxColumn*4/5
		for start < at && !utf8.RuneStart(l[start]) {
			start++
		}
	}
	if start == 0 {
		return cutLine(l)
	}
	return fmt.Sprintf("(%d bytes) … %s", start, cutLine(l[start:]))
}

// cutLine returns a line without its line ending, truncated to [maxColumn].
func cutLine(l []byte) string {
	l = bytes.TrimSuffix(l, []byte{'\n'})
	l = bytes.TrimSuffix(l, []byte{'\r'})
	if len(l) <= maxColumn {
		return string(l)
	}
	start := tools.Cut(string(l), maxColumn)
	return fmt.Sprintf("%s … (%d more bytes)", start, len(l)-len(start))
}

// countFile returns the number of matching lines in the file at path or, in multiline
// mode, the number of matches.
func (s *searcher) countFile(ctx context.Context, path string, named bool) (n int, err error) {
	matches := s.lines
	if s.spans != nil {
		matches = s.spans.all
	}
	err = s.read(ctx, path, named, func(block []byte) bool {
		for range matches(block) {
			n++
		}
		return true
	})
	return n, err
}
