package applypatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// An encoding is a character encoding of a file.
type encoding int

const (
	utf8enc     encoding = iota
	utf16le              // only with a byte order mark
	utf16be              // only with a byte order mark
	latin1               // ISO 8859-1
	windows1252          // Latin-1 with printable characters in 0x80 to 0x9f
	unknown8bit          // a superset of ASCII: other characters can be kept but not written
)

var encodings = [...]struct {
	name, bom string
	charmap   *charmap.Charmap // if it is known and has one byte a character
}{
	utf8enc:     {name: "UTF-8", bom: "\xEF\xBB\xBF"},
	utf16le:     {name: "UTF-16 (little endian)", bom: "\xFF\xFE"},
	utf16be:     {name: "UTF-16 (big endian)", bom: "\xFE\xFF"},
	latin1:      {name: "Latin-1", charmap: charmap.ISO8859_1},
	windows1252: {name: "Windows-1252", charmap: charmap.Windows1252},
	unknown8bit: {name: "an unknown 8-bit encoding"},
}

func (e encoding) String() string { return encodings[e].name }

func (e encoding) bom() []byte { return []byte(encodings[e].bom) }

// width returns the size of the units in which the encoding writes ASCII.
func (e encoding) width() int {
	if e == utf16le || e == utf16be {
		return 2
	}
	return 1
}

func (e encoding) order() binary.ByteOrder {
	if e == utf16le {
		return binary.LittleEndian
	}
	return binary.BigEndian
}

// detect returns the encoding of data and whether data begins with a byte order
// mark, or an error if it is not text that can be edited.
func detect(data []byte) (encoding, bool, error) {
	switch {
	case bytes.HasPrefix(data, []byte{0xFF, 0xFE, 0, 0}), bytes.HasPrefix(data, []byte{0, 0, 0xFE, 0xFF}):
		return 0, false, errors.New("it is written in UTF-32, which is not supported; convert it to UTF-8 first")
	case bytes.HasPrefix(data, utf16le.bom()):
		return utf16le, true, nil
	case bytes.HasPrefix(data, utf16be.bom()):
		return utf16be, true, nil
	}
	head := data[:min(len(data), 8000)] // as in git
	if bytes.IndexByte(head, 0) >= 0 {
		if looksUTF16(head) {
			return 0, false, errors.New("it looks like UTF-16 without a byte order mark; convert it to UTF-8 first")
		}
		return 0, false, errors.New("it is a binary file; only text can be edited")
	}
	if utf8.Valid(data) {
		return utf8enc, bytes.HasPrefix(data, utf8enc.bom()), nil
	}
	return detect8bit(data), false, nil
}

// looksUTF16 reports whether most bytes at odd or even offsets are NUL, as in
// ASCII text in UTF-16.
func looksUTF16(head []byte) bool {
	var nul [2]int
	for i, b := range head {
		if b == 0 {
			nul[i%2]++
		}
	}
	most := max(nul[0], nul[1])
	return min(nul[0], nul[1]) == 0 && most*4 >= len(head)
}

// detect8bit distinguishes Latin-1 from other 8-bit encodings: accented letters
// are usually single bytes between ASCII letters, whereas Cyrillic, Chinese and
// others come in runs.
func detect8bit(data []byte) encoding {
	single, inRuns, c1 := 0, 0, false
	for i := 0; i < len(data); {
		if data[i] < utf8.RuneSelf {
			i++
			continue
		}
		start := i
		for ; i < len(data) && data[i] >= utf8.RuneSelf; i++ {
			c1 = c1 || data[i] < 0xA0
		}
		if i-start == 1 {
			single++
		} else {
			inRuns++
		}
	}
	switch {
	case inRuns > single:
		return unknown8bit
	case c1:
		return windows1252
	}
	return latin1
}

// cutLine returns the length of the text of the first line of s, in bytes, and its
// line ending. end is the line ending of the file.
func (e encoding) cutLine(s, end string) (int, string) {
	at := 0
	for newline := e.ascii(end); ; at++ {
		n := strings.Index(s[at:], newline)
		if n < 0 {
			return len(s), ""
		}
		at += n
		if at%e.width() == 0 {
			break
		}
	}
	if cr := e.ascii("\r"); end == "\n" && strings.HasSuffix(s[:at], cr) {
		return at - len(cr), "\r\n"
	}
	return at, end
}

// decode returns the characters of the bytes in s.
func (e encoding) decode(s string) string {
	switch e {
	case utf8enc:
		return s
	case utf16le, utf16be:
		units := make([]uint16, len(s)/2)
		binary.Decode([]byte(s), e.order(), units)
		return string(utf16.Decode(units))
	}
	var b strings.Builder
	for _, c := range []byte(s) {
		switch cm := encodings[e].charmap; {
		case c < utf8.RuneSelf:
			b.WriteByte(c)
		case cm == nil:
			b.WriteRune(rune(privateUse + int(c)))
		default:
			b.WriteRune(cm.DecodeByte(c))
		}
	}
	return b.String()
}

// privateUse is the offset to which bytes of an unknown encoding are mapped, so
// that they match no character of a patch.
const privateUse = 0xF700

// ascii returns the encoded form of s, which is ASCII.
func (e encoding) ascii(s string) string {
	if e.width() == 1 {
		return s
	}
	raw, _ := e.encode(s)
	return string(raw)
}

func (e encoding) encode(s string) ([]byte, error) {
	switch e {
	case utf8enc:
		return []byte(s), nil
	case utf16le, utf16be:
		return binary.Append(nil, e.order(), utf16.Encode([]rune(s)))
	}
	out := make([]byte, 0, len(s))
	for _, r := range s {
		c, ok := byte(r), r < utf8.RuneSelf
		if cm := encodings[e].charmap; cm != nil && !ok {
			c, ok = cm.EncodeRune(r)
		}
		if !ok {
			return nil, fmt.Errorf("the file is in %s, which cannot take %q; "+
				"use characters it has, or convert it to UTF-8 first", e, r)
		}
		out = append(out, c)
	}
	return out, nil
}
