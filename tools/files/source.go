package files

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
	"golang.org/x/text/transform"
)

// A source gives a text file line by line, in UTF-8, in memory that does not
// grow with the file or its lines.
type source struct {
	path string
	ctx  context.Context // of the one call that the source lives for
	r    *bufio.Reader

	encoding string            // told to the model unless it is plain UTF-8
	perLine  *encoding.Decoder // for encodings whose line ends are those of ASCII
	invalid  int               // lines that are not valid in the encoding
}

const bufferSize = 256 << 10

// newSource looks at the start of r and returns the source for what it holds,
// or an error that says what it holds instead of text.
func newSource(ctx context.Context, r io.Reader, path string, size int64) (*source, error) {
	raw := bufio.NewReaderSize(contextReader{ctx, r}, bufferSize)
	s := &source{path: path, ctx: ctx, r: raw}
	sample, err := raw.Peek(sampleSize)
	if err != nil && err != io.EOF {
		return nil, s.fault(err)
	}
	switch {
	case bytes.HasPrefix(sample, []byte("\xef\xbb\xbf")):
		s.encoding = "UTF-8 with a byte order mark"
		_, err = raw.Discard(3)
	case bytes.HasPrefix(sample, []byte("\xff\xfe\x00\x00")):
		s.transcode("UTF-32LE", utf32.UTF32(utf32.LittleEndian, utf32.ExpectBOM))
	case bytes.HasPrefix(sample, []byte("\x00\x00\xfe\xff")):
		s.transcode("UTF-32BE", utf32.UTF32(utf32.BigEndian, utf32.ExpectBOM))
	case bytes.HasPrefix(sample, []byte("\xff\xfe")):
		s.transcode("UTF-16LE", unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM))
	case bytes.HasPrefix(sample, []byte("\xfe\xff")):
		s.transcode("UTF-16BE", unicode.UTF16(unicode.BigEndian, unicode.ExpectBOM))
	case bytes.IndexByte(sample, 0) >= 0, bytes.HasPrefix(sample, []byte("%PDF-")):
		return nil, binaryError(path, sample, size)
	case !mostlyUTF8(sample) && !textual(contentType(sample)):
		return nil, binaryError(path, sample, size)
	case !mostlyUTF8(sample):
		s.encoding = "Windows-1252 (Latin-1), which is a guess: it is not valid UTF-8"
		s.perLine = charmap.Windows1252.NewDecoder()
	}
	if err != nil && err != io.EOF {
		return nil, s.fault(err)
	}
	return s, nil
}

// textual reports whether what has this content type, and no NUL in it, can be
// text in a one-byte encoding.
func textual(contentType string) bool {
	return strings.HasPrefix(contentType, "text/") || contentType == "application/octet-stream" || contentType == "application/postscript"
}

func (s *source) transcode(name string, e encoding.Encoding) {
	s.encoding = name
	s.r = bufio.NewReaderSize(transform.NewReader(s.r, e.NewDecoder()), bufferSize)
}

// mostlyUTF8 reports whether b is UTF-8, perhaps cut off at its end, or UTF-8
// with some faults in it. Text in a one-byte encoding is not: hardly any of its
// non-ASCII bytes stand as UTF-8 wants them.
func mostlyUTF8(b []byte) bool {
	good, bad := 0, 0
	for len(b) > 0 {
		if b[0] < utf8.RuneSelf {
			b = b[1:]
			continue
		}
		_, n := utf8.DecodeRune(b)
		switch {
		case n > 1:
			good++
		case utf8.FullRune(b):
			bad++
		}
		b = b[n:]
	}
	return bad == 0 || good > bad
}

// notes returns what the model should know about how the file was read.
func (s *source) notes() []string {
	var notes []string
	if s.encoding != "" {
		notes = append(notes, "read as "+s.encoding)
	}
	switch {
	case s.invalid == 1:
		notes = append(notes, "1 line shown is not valid UTF-8; what is wrong in it is shown as \uFFFD")
	case s.invalid > 1:
		notes = append(notes, fmt.Sprintf("%d lines shown are not valid UTF-8; what is wrong in them is shown as \uFFFD", s.invalid))
	}
	return notes
}

// skip passes over n lines and returns how many there were.
func (s *source) skip(n int) (int, error) {
	skipped := 0
	open := false // a line was begun that no line end closed yet
	for skipped < n {
		buf, err := s.window()
		if err == io.EOF {
			if open {
				skipped++
			}
			return skipped, nil
		}
		if err != nil {
			return skipped, err
		}
		if ends := bytes.Count(buf, []byte{'\n'}); skipped+ends < n {
			skipped += ends
			open = buf[len(buf)-1] != '\n'
			s.r.Discard(len(buf))
			continue
		}
		used := 0
		for skipped < n {
			used += bytes.IndexByte(buf[used:], '\n') + 1
			skipped++
		}
		s.r.Discard(used)
	}
	return skipped, nil
}

// window returns what is buffered, reading when nothing is.
func (s *source) window() ([]byte, error) {
	if s.r.Buffered() == 0 {
		if _, err := s.r.Peek(1); err != nil {
			return nil, s.fault(err)
		}
	}
	return s.r.Peek(s.r.Buffered())
}

// next returns the next line. After the last one it returns io.EOF.
func (s *source) next() (line, error) {
	var start []byte
	var length int64
	for {
		piece, err := s.r.ReadSlice('\n')
		length += int64(len(piece))
		// One byte more than is shown, to see a CR, and a character more, to
		// cut where one ends.
		if room := maxColumn + 2*utf8.UTFMax - len(start); room > 0 {
			start = append(start, piece[:min(room, len(piece))]...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == io.EOF && length > 0 {
			return s.line(start, length, ""), nil
		}
		if err != nil {
			return line{}, s.fault(err)
		}
		return s.line(start, length, "\n"), nil
	}
}

// line decodes a line that has length bytes, line end included, and begins
// with start.
func (s *source) line(start []byte, length int64, end string) line {
	whole := int64(len(start)) == length
	length -= int64(len(end))
	if whole {
		start = bytes.TrimSuffix(start, []byte(end))
		if n := len(start); n > 0 && start[n-1] == '\r' {
			start = start[:n-1]
			length--
		}
	}
	if s.perLine != nil {
		if decoded, err := s.perLine.Bytes(start); err == nil {
			start = decoded
		}
	}
	text := cut(string(start), maxColumn)
	if !utf8.ValidString(text) {
		s.invalid++
	}
	return line{text: text, length: length, cut: !whole || len(text) < len(start)}
}

// more reports whether another line follows.
func (s *source) more() (bool, error) {
	_, err := s.r.Peek(1)
	if err == io.EOF {
		return false, nil
	}
	return err == nil, s.fault(err)
}

// fault puts a read error into words for the model.
func (s *source) fault(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if s.ctx.Err() != nil {
		return fmt.Errorf("%s: %w", s.path, errStopped)
	}
	return explain(s.path, err, "")
}

// A contextReader ends with its context, so that a long read can be given up.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
