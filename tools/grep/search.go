package grep

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"toolgate/tools"
)

// A searcher searches files one at a time and reuses its buffer. It is for one
// goroutine.
type searcher struct {
	pattern *pattern
	machine *machine
	finder  *finder     // for the literals that the pattern requires; nil if there are none
	spans   *spanFinder // for matches over several lines; nil without them
	buf     []byte
}

// errTooLong reports that a text was searched only in part.
var errTooLong = errors.New("too long")

const (
	bufferSize = 64 << 10
	// maxLine is the maximum length of a line in bytes. A file is not searched
	// beyond a longer line.
	maxLine = 16 << 20
	// maxWhole is the maximum size in bytes of a file to search in multiline mode.
	maxWhole = 64 << 20
)

func newSearcher(ctx context.Context, p *pattern) *searcher {
	stop := func() bool { return ctx.Err() != nil }
	s := &searcher{pattern: p, machine: p.program.machine(stop), buf: make([]byte, bufferSize)}
	if p.required != nil {
		s.finder = p.required.finder()
	}
	if p.multiline {
		s.spans = p.program.spans(stop)
	}
	return s
}

func (s *searcher) matches(ctx context.Context, path string, named bool) (found bool, err error) {
	err = s.read(ctx, path, named, func(block []byte) bool {
		if s.pattern.multiline {
			found = s.inText(block)
		} else {
			start, _ := s.line(block, 0)
			found = start >= 0
		}
		return !found
	})
	return found, err
}

// read calls f with all of the text in the file at path in multiline mode, and
// otherwise with blocks of whole lines until f returns false.
func (s *searcher) read(ctx context.Context, path string, named bool, f func(block []byte) bool) error {
	file, err := tools.OpenNonblocking(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if !s.pattern.multiline {
		return s.blocks(ctx, file, named, f)
	}
	text, err := s.whole(file, named)
	if err == nil {
		f(text)
	}
	return err
}

// blocks reads r and calls f with each block of whole lines until f returns false.
// It removes a byte order mark and converts UTF-16 to UTF-8. A NUL byte ends the
// text before the block that contains it, as in ripgrep. In a file that the caller
// named, it counts as a newline instead.
func (s *searcher) blocks(ctx context.Context, r io.Reader, named bool, f func(block []byte) bool) error {
	r, have, err := s.begin(r)
	fresh := 0 // start of the bytes that were not checked yet
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

// begin reads the first part of r into the buffer. It returns the reader for the rest
// and the size of the first part.
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

// acceptNUL reports whether b is text. If the caller named the file, it replaces NUL
// bytes by newlines.
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

// whole returns all of the text in r, or nothing if it is binary.
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

// lines yields the matching lines of block.
func (s *searcher) lines(block []byte) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		for from := 0; from < len(block); {
			start, end := s.line(block, from)
			if start < 0 || !yield(start, end) {
				return
			}
			from = end + 1
		}
	}
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

// lineAround returns the line of block that contains the position at. A newline
// belongs to the line that it ends.
func lineAround(block []byte, at int) (start, end int) {
	start = bytes.LastIndexByte(block[:at], '\n') + 1
	if n := bytes.IndexByte(block[at:], '\n'); n >= 0 {
		return start, at + n
	}
	return start, len(block)
}

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
