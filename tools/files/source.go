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

	"toolgate/tools"
)

// A source reads a text file line by line and converts it to UTF-8. Memory use does not
// depend on the size of the file or its lines.
type source struct {
	path string
	ctx  context.Context // of the call that the source serves
	r    *bufio.Reader

	rendered string            // for the model, if r is not the file itself
	encoding string            // for the model; "" for plain UTF-8
	perLine  *encoding.Decoder // for encodings with the line endings of ASCII
	invalid  int               // lines that are not valid in the encoding
}

const bufferSize = 256 << 10

// newSource detects the encoding of r and returns a source for it. It returns an error
// that names the type of the file if it is not text.
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

// textual reports whether a file of this content type without NUL bytes can be text in
// an 8-bit encoding.
func textual(contentType string) bool {
	return strings.HasPrefix(contentType, "text/") || contentType == "application/octet-stream" ||
		contentType == "application/postscript"
}

func (s *source) transcode(name string, e encoding.Encoding) {
	s.encoding = name
	s.r = bufio.NewReaderSize(transform.NewReader(s.r, e.NewDecoder()), bufferSize)
}

// mostlyUTF8 reports whether b is UTF-8, possibly truncated or with some errors. Text in
// an 8-bit encoding is not: hardly any of its non-ASCII bytes are valid UTF-8.
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

// notes returns notes for the model about the encoding of the file.
func (s *source) notes() []string {
	var notes []string
	if s.rendered != "" {
		notes = append(notes, s.rendered)
	}
	if s.encoding != "" {
		notes = append(notes, "read as "+s.encoding)
	}
	switch {
	case s.invalid == 1:
		notes = append(notes, "1 line shown is not valid UTF-8; what is wrong in it is shown as \uFFFD")
	case s.invalid > 1:
		const format = "%d lines shown are not valid UTF-8; what is wrong in them is shown as \uFFFD"
		notes = append(notes, fmt.Sprintf(format, s.invalid))
	}
	return notes
}

// skip skips up to n lines and returns the number of lines skipped.
func (s *source) skip(n int) (int, error) {
	skipped := 0
	open := false // the last line read is incomplete
	for skipped < n {
		_, err := s.r.Peek(1)
		if err == io.EOF {
			if open {
				skipped++
			}
			return skipped, nil
		}
		if err != nil {
			return skipped, s.fault(err)
		}
		buf, _ := s.r.Peek(s.r.Buffered())
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

// next returns the next line. After the last one it returns io.EOF.
func (s *source) next() (line, error) {
	var start []byte
	var length int64
	for {
		piece, err := s.r.ReadSlice('\n')
		length += int64(len(piece))
		// Keep more than is shown, to detect a CR and to cut at the end of a
		// character.
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

// line decodes a line that begins with start and has length bytes, including its line
// ending.
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
	all := s.decoded(start)
	text := tools.Cut(all, maxColumn)
	if !utf8.ValidString(text) {
		s.invalid++
	}
	l := line{text: text, length: length, cut: !whole || len(text) < len(all)}
	if l.shown = len(text); s.perLine != nil {
		l.shown = utf8.RuneCountInString(text) // a byte each
	}
	return l
}

// decoded returns the characters of part of a line.
func (s *source) decoded(part []byte) string {
	if s.perLine != nil {
		if decoded, err := s.perLine.Bytes(part); err == nil {
			part = decoded
		}
	}
	return string(part)
}

// columns returns up to n bytes of the next line from column on, which counts from 1,
// up to the end of a character, and the length of the line in bytes. After the last line
// it returns io.EOF.
func (s *source) columns(column int64, n int) (text []byte, length int64, err error) {
	var end []byte // the last bytes of the line
	for {
		piece, err := s.r.ReadSlice('\n')
		skip := min(max(column-1-length, 0), int64(len(piece)))
		if room := n - len(text); room > 0 {
			rest := piece[skip:]
			text = append(text, rest[:min(room, len(rest))]...)
		}
		length += int64(len(piece))
		end = append(end, piece[max(0, len(piece)-2):]...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil && (err != io.EOF || length == 0) {
			return nil, 0, s.fault(err)
		}
		break
	}
	ending := len(end) - len(bytes.TrimSuffix(bytes.TrimSuffix(end, []byte("\n")), []byte("\r")))
	if !bytes.HasSuffix(end, []byte("\n")) {
		ending = 0
	}
	length -= int64(ending)
	text = text[:max(0, min(int64(len(text)), length-column+1))]
	if s.perLine == nil && int64(len(text)) < length-column+1 {
		text = tools.WholeRunes(text)
	}
	return text, length, nil
}

func (s *source) more() (bool, error) {
	_, err := s.r.Peek(1)
	if err == io.EOF {
		return false, nil
	}
	return err == nil, s.fault(err)
}

// fault returns a read error in a form for the model.
func (s *source) fault(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if s.ctx.Err() != nil {
		return fmt.Errorf("%s: %w", s.path, errStopped)
	}
	return explain(s.path, false, err, "")
}

// A contextReader fails when its context ends, so that a long read can be cancelled.
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
