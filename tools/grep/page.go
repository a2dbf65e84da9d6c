package grep

import (
	"fmt"
	"strings"
)

const (
	defaultLimit = 100
	maxLimit     = 2000
	maxOffset    = 1_000_000
)

// A page is a part of a long answer.
type page struct {
	first int // from 1
	limit int // of files, or of lines in output mode content
}

// newPage validates offset and limit, which may be nil.
func newPage(offset, limit *int) (page, error) {
	p := page{first: 1, limit: defaultLimit}
	if limit != nil {
		p.limit = min(*limit, maxLimit)
	}
	if p.limit < 1 {
		return p, fmt.Errorf("limit is %d; it must be from 1 to %d", p.limit, maxLimit)
	}
	if offset != nil {
		p.first = max(*offset, 1) // 0 is what counts from 0 call the first
		if *offset < 0 || *offset > maxOffset {
			return p, fmt.Errorf("offset is %d; it counts from 1 to %d", *offset, maxOffset)
		}
	}
	return p, nil
}

// end returns the number of the last entry of the page.
func (p page) end() int { return p.first - 1 + p.limit }

// files returns the lines of the files of the page, as many as fit, and a note unless
// they are all.
func (p page) files(found *results, line func(match) string) (text string, note []string, err error) {
	list := found.newest()
	if p.first > found.total {
		return "", nil, p.past(found.total, "files")
	}
	var b strings.Builder
	next := p.first
	for _, f := range list[p.first-1:] {
		s := line(f)
		if b.Len()+len(s) > maxOutput {
			break
		}
		b.WriteString(s)
		next++
	}
	switch {
	case next <= found.total:
		note = []string{fmt.Sprintf("files %d to %d of %d shown, the newest first; continue with offset %d, "+
			"or search for less", p.first, next-1, found.total, next)}
	case p.first > 1:
		note = []string{fmt.Sprintf("files %d to %d of %d shown, these are the last", p.first, next-1, found.total)}
	}
	return b.String(), note, nil
}

// past returns the error for a page past all entries.
func (p page) past(all int, what string) error {
	return fmt.Errorf("offset %d is past the end, there are %d %s", p.first, all, what)
}
