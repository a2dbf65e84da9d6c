package grep

import (
	"bytes"
	"context"
	"io"
	"os"
)

// A searcher searches one file after the other in the same buffer.
type searcher struct {
	pattern *pattern
	buf     []byte
}

const (
	bufferSize = 64 << 10
	// maxLine is how long a line may be in bytes. A file with a longer one is
	// searched up to it.
	maxLine = 16 << 20
)

func newSearcher(p *pattern) *searcher { return &searcher{p, make([]byte, bufferSize)} }

// file adds the file at path to found when it matches. A binary file does not
// match, unless it was named by the caller.
func (s *searcher) file(ctx context.Context, found *results, path, shown string, named bool) {
	f, err := openRegular(path)
	if err != nil {
		found.failed()
		return
	}
	defer f.Close()
	ok, err := s.matches(ctx, f, named)
	if err != nil && ctx.Err() == nil {
		found.failed()
	}
	if ok {
		found.add(path, shown)
	}
}

// matches reports whether a line of r matches. A NUL ends the search, and
// makes what was read together with it no match, as ripgrep has it; in a named
// file it counts as a line end.
func (s *searcher) matches(ctx context.Context, r io.Reader, named bool) (bool, error) {
	have := 0 // bytes of a line not yet complete, at the start of the buffer
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if have == len(s.buf) {
			if have >= maxLine {
				return false, nil
			}
			s.buf = append(s.buf, make([]byte, len(s.buf))...)
		}
		n, err := r.Read(s.buf[have:])
		if err != nil && err != io.EOF {
			return false, err
		}
		fresh := s.buf[have : have+n]
		if named {
			for i := bytes.IndexByte(fresh, 0); i >= 0; i = bytes.IndexByte(fresh, 0) {
				fresh[i] = '\n'
			}
		} else if bytes.IndexByte(fresh, 0) >= 0 {
			return false, nil
		}
		have += n
		whole := have
		if err == nil {
			whole = bytes.LastIndexByte(s.buf[:have], '\n') + 1
		}
		if s.pattern.in(s.buf[:whole]) {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		have = copy(s.buf, s.buf[whole:have])
	}
}

// in reports whether one of the lines matches.
func (p *pattern) in(lines []byte) bool {
	if len(lines) == 0 {
		return false
	}
	return p.re.Match(bytes.TrimSuffix(lines, []byte{'\n'}))
}

// openRegular opens the regular file at path.
func openRegular(path string) (*os.File, error) {
	f, err := openNonblocking(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}
