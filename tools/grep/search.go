package grep

import (
	"bytes"
	"context"
	"errors"
	"io"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// A searcher searches one file after the other, in the same memory. It is for
// one goroutine.
type searcher struct {
	pattern *pattern
	machine *machine
	finder  *finder // of the literals that the pattern requires; nil without
	buf     []byte
}

// errTooLong says that a text was not searched to its end.
var errTooLong = errors.New("too long")

const (
	bufferSize = 64 << 10
	// maxLine is how long a line may be in bytes. The rest of a file is not
	// searched from a longer one on.
	maxLine = 16 << 20
	// maxWhole is how long a file may be in bytes that is searched for matches
	// over several lines.
	maxWhole = 64 << 20
)

// newSearcher returns a searcher for p that ends when ctx does.
func newSearcher(ctx context.Context, p *pattern) *searcher {
	s := &searcher{pattern: p, machine: p.program.machine(func() bool { return ctx.Err() != nil }), buf: make([]byte, bufferSize)}
	if p.required != nil {
		s.finder = p.required.finder()
	}
	return s
}

// matches reports whether the text in r matches.
func (s *searcher) matches(ctx context.Context, r io.Reader, named bool) (bool, error) {
	if s.pattern.multiline {
		text, err := s.whole(r, named)
		return err == nil && s.inText(text), err
	}
	found := false
	err := s.blocks(ctx, r, named, func(block []byte) bool {
		start, _ := s.line(block, 0)
		found = start >= 0
		return !found
	})
	return found, err
}

// blocks reads r and calls f with one block of whole lines after the other,
// until f returns false. A byte order mark is taken off, and UTF-16 with one
// turned into UTF-8. A NUL ends the text, and takes with it the block that it
// stands in, as ripgrep has it; in a file that the caller named it counts as a
// line end.
func (s *searcher) blocks(ctx context.Context, r io.Reader, named bool, f func(block []byte) bool) error {
	r, have, err := s.begin(r)
	fresh := 0 // start of what was not looked at yet
	for {
		if ctxErr := ctx.Err(); ctxErr != nil {
			return ctxErr
		}
		if err != nil && err != io.EOF {
			return err
		}
		if !acceptNUL(s.buf[fresh:have], named) {
			return nil
		}
		whole := have
		if err == nil {
			whole = bytes.LastIndexByte(s.buf[:have], '\n') + 1
		}
		if whole > 0 && !f(s.buf[:whole]) || err == io.EOF {
			return nil
		}
		have = copy(s.buf, s.buf[whole:have])
		if have == len(s.buf) {
			if have >= maxLine {
				return errTooLong
			}
			s.buf = append(s.buf, make([]byte, len(s.buf))...)
		}
		fresh = have
		var n int
		n, err = r.Read(s.buf[have:])
		have += n
	}
}

// begin reads the first part of r into the buffer and returns how long it is
// and where the rest is to be read from.
func (s *searcher) begin(r io.Reader) (io.Reader, int, error) {
	n, err := io.ReadAtLeast(r, s.buf, 3)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	start := s.buf[:n]
	switch {
	case bytes.HasPrefix(start, []byte("\xef\xbb\xbf")):
		return r, copy(s.buf, start[3:]), err
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		rest := io.MultiReader(bytes.NewReader(bytes.Clone(start)), r)
		r = transform.NewReader(rest, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder())
		n, err = r.Read(s.buf)
	}
	return r, n, err
}

// acceptNUL reports whether b is text. In a file that the caller named it is
// made text.
func acceptNUL(b []byte, named bool) bool {
	at := bytes.IndexByte(b, 0)
	if at >= 0 && !named {
		return false
	}
	for ; at >= 0; at = bytes.IndexByte(b, 0) {
		b[at] = '\n'
	}
	return true
}

// whole returns all of the text in r, nothing when it is binary.
func (s *searcher) whole(r io.Reader, named bool) ([]byte, error) {
	r, n, err := s.begin(r)
	for err == nil && n <= maxWhole {
		if n == len(s.buf) {
			s.buf = append(s.buf, make([]byte, len(s.buf))...)
		}
		var more int
		more, err = r.Read(s.buf[n:])
		n += more
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	text := s.buf[:n]
	if n > maxWhole {
		return nil, errTooLong
	}
	if !acceptNUL(text[:min(n, bufferSize)], named) {
		return nil, nil
	}
	return text, nil
}

// line returns where the first line of block at from or later that matches
// starts and ends, -1 when there is none. From is the start of a line. The end
// is that of its text.
func (s *searcher) line(block []byte, from int) (start, end int) {
	if s.finder == nil {
		at := s.machine.find(block[from:])
		if at < 0 {
			return -1, -1
		}
		return lineAround(block, from+at)
	}
	s.finder.reset(block)
	for from < len(block) {
		at := s.finder.next(from)
		if at < 0 {
			break
		}
		start, end := lineAround(block, at)
		if s.pattern.literal || s.machine.find(block[start:end]) >= 0 {
			return start, end
		}
		from = end + 1
	}
	return -1, -1
}

// lineAround returns the line of block that the place at belongs to; a line
// end belongs to the line it ends.
func lineAround(block []byte, at int) (start, end int) {
	start = bytes.LastIndexByte(block[:at], '\n') + 1
	if n := bytes.IndexByte(block[at:], '\n'); n >= 0 {
		return start, at + n
	}
	return start, len(block)
}

// inText reports whether a match lies anywhere in text.
func (s *searcher) inText(text []byte) bool {
	if len(text) == 0 {
		return false
	}
	if s.finder != nil {
		s.finder.reset(text)
		if at := s.finder.next(0); at < 0 || s.pattern.literal {
			return at >= 0
		}
	}
	return s.machine.find(text) >= 0
}
