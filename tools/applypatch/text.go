package applypatch

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A text is a file split into lines. Lines keep their bytes, so that unchanged
// lines are written back exactly.
type text struct {
	enc   encoding
	bom   bool // the file begins with a byte order mark
	lines []textLine

	// Per matching level, computed on first use.
	keys  [levels][]uint64           // of the lines
	where [levels]map[uint64][]int32 // the lines with each key
	finds [levels]int                // number of searches
	loose []uint64                   // see looseKeys
}

// A textLine is one line of a file.
type textLine struct {
	raw         []byte // the bytes in the file, including the line ending; nil for a new line
	text        string // decoded, without the line ending
	end         string // "\n", "\r\n", "\r" or "" at the end of the file
	explicitEnd bool   // the patch specifies the line ending
}

// parseText splits data into lines.
func parseText(data []byte) (*text, error) {
	enc, bom, err := detect(data)
	if err != nil {
		return nil, err
	}
	t := &text{enc: enc, bom: bom}
	if bom {
		data = data[len(enc.bom()):]
	}
	if enc == utf16le || enc == utf16be {
		t.lines, err = splitUTF16(data, enc)
		return t, err
	}
	s := string(data)
	loneCR := !strings.Contains(s, "\n") // as on classic Mac OS
	t.lines = make([]textLine, 0, strings.Count(s, "\n")+1)
	for off := 0; off < len(s); {
		n, end := cutLine(s[off:], loneCR)
		line := textLine{raw: data[off : off+n+len(end)], text: s[off : off+n], end: end}
		if enc == latin1 || enc == windows1252 || enc == unknown8bit {
			line.text = enc.decode(line.raw[:n])
		}
		t.lines = append(t.lines, line)
		off += n + len(end)
	}
	return t, nil
}

// cutLine returns the length of the first line of s and its line ending.
func cutLine(s string, loneCR bool) (int, string) {
	if loneCR {
		if n := strings.IndexByte(s, '\r'); n >= 0 {
			return n, "\r"
		}
		return len(s), ""
	}
	n := strings.IndexByte(s, '\n')
	switch {
	case n < 0:
		return len(s), ""
	case n > 0 && s[n-1] == '\r':
		return n - 1, "\r\n"
	}
	return n, "\n"
}

// bytes returns the content of the file.
func (t *text) bytes() ([]byte, error) {
	var b bytes.Buffer
	if t.bom {
		b.Write(t.enc.bom())
	}
	for i := range t.lines {
		l := &t.lines[i]
		if l.raw != nil {
			b.Write(l.raw)
			continue
		}
		raw, err := t.enc.encode(l.text + l.end)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		b.Write(raw)
	}
	return b.Bytes(), nil
}

// setEnd changes the line ending of a line and keeps its other bytes.
func (t *text) setEnd(l *textLine, end string) {
	if l.raw != nil {
		was, _ := t.enc.encode(l.end) // line ends are ASCII
		now, _ := t.enc.encode(end)
		l.raw = append(bytes.Clone(l.raw[:len(l.raw)-len(was)]), now...)
	}
	l.end = end
}

// A level is how closely lines must match.
type level int

const (
	exact       level = iota
	trailing          // except for trailing white space
	surrounding       // except for leading and trailing white space
	typographic       // as surrounding, and except for typographic dashes, quotes and spaces
	levels
)

func (l level) String() string {
	return [...]string{
		"exactly", "but for white space at line ends",
		"but for white space around lines", "but for typographic characters",
	}[l]
}

// fold returns the form of s that is equal for lines that match at this level.
func (l level) fold(s string) string {
	switch l {
	case exact:
		return s
	case trailing:
		return strings.TrimRightFunc(s, unicode.IsSpace)
	case surrounding:
		return strings.TrimSpace(s)
	}
	return plain(strings.TrimSpace(s))
}

// plain replaces typographic characters by their ASCII equivalents.
func plain(s string) string {
	if isASCII(s) {
		return s
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r >= 0x2010 && r <= 0x2015, r == 0x2212:
			return '-'
		case r >= 0x2018 && r <= 0x201B:
			return '\''
		case r >= 0x201C && r <= 0x201F:
			return '"'
		case r == 0xA0, r >= 0x2002 && r <= 0x200A, r == 0x202F, r == 0x205F, r == 0x3000:
			return ' '
		}
		return r
	}, s))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

var seed = maphash.MakeSeed()

// key returns a hash that is equal for lines that match at level l.
func (l level) key(s string) uint64 { return maphash.String(seed, l.fold(s)) }

// keysAt returns the keys of all lines at level l.
func (t *text) keysAt(l level) []uint64 {
	if t.keys[l] == nil {
		t.keys[l] = make([]uint64, len(t.lines))
		for i := range t.lines {
			t.keys[l][i] = l.key(t.lines[i].text)
		}
	}
	return t.keys[l]
}

// findsWithoutIndex is the number of linear searches before an index is built.
const findsWithoutIndex = 8

// candidates yields the index of each line at or after start that has the given
// key at level l.
func (t *text) candidates(l level, key uint64, start int) iter.Seq[int] {
	keys := t.keysAt(l)
	if t.finds[l]++; t.finds[l] > findsWithoutIndex && t.where[l] == nil {
		t.where[l] = make(map[uint64][]int32, len(keys))
		for i, k := range keys {
			t.where[l][k] = append(t.where[l][k], int32(i))
		}
	}
	return func(yield func(int) bool) {
		if t.where[l] == nil {
			for i := start; i < len(keys); i++ {
				if keys[i] == key && !yield(i) {
					return
				}
			}
			return
		}
		at := t.where[l][key]
		first, _ := slices.BinarySearch(at, int32(start))
		for _, i := range at[first:] {
			if !yield(int(i)) {
				return
			}
		}
	}
}

// looseKeys returns the [looseKey] of each line.
func (t *text) looseKeys() []uint64 {
	if t.loose == nil {
		t.loose = make([]uint64, len(t.lines))
		for i := range t.lines {
			t.loose[i] = looseKey(t.lines[i].text)
		}
	}
	return t.loose
}
