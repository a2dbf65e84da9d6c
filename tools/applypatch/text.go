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

// A text is a file cut into lines that remember their bytes, so that a line
// nobody changes is written back as it was.
type text struct {
	enc   encoding
	bom   bool // the file begins with a byte order mark
	lines []textLine

	// Per level of matching, made when first needed.
	keys  [levels][]uint64           // of the lines
	where [levels]map[uint64][]int32 // the lines that have a key
	finds [levels]int                // how often lines were looked for
	loose []uint64                   // keys of the bare lines
}

// A textLine is one line of a file.
type textLine struct {
	raw         []byte // as it is in the file, line end included; nil for a new line
	text        string // decoded, without line end
	end         string // "\n", "\r\n", "\r" or "" at the end of the file
	explicitEnd bool   // the patch itself says how the line ends
}

// parseText cuts data into lines.
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
	loneCR := !strings.Contains(s, "\n") // as on the Macs of old
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

// cutLine returns the length of the first line of s and its line end.
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

// bytes returns the file with its changes.
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

// setEnd gives a line of the file another line end and leaves its other bytes.
func (t *text) setEnd(l *textLine, end string) {
	if l.raw != nil {
		was, _ := t.enc.encode(l.end) // line ends are ASCII
		now, _ := t.enc.encode(end)
		l.raw = append(bytes.Clone(l.raw[:len(l.raw)-len(was)]), now...)
	}
	l.end = end
}

// A level is how closely lines must agree.
type level int

const (
	exact       level = iota
	trailing          // but for white space at the end
	surrounding       // but for white space at both ends
	typographic       // as surrounding, with dashes, quotes and spaces of print taken for plain ones
	levels
)

func (l level) String() string {
	return [...]string{"exactly", "but for white space at line ends", "but for white space around lines", "but for typographic characters"}[l]
}

// fold returns what two lines must have in common to agree at this level.
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

// plain turns the characters of print that stand for ASCII ones into those.
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

// key returns a number that agrees when two lines agree at level l.
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

// findsWithoutIndex is how often all lines are looked through before an index
// of them is made.
const findsWithoutIndex = 8

// candidates calls yield with each index from start on of a line that has the
// given key at level l.
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

// looseKeys returns the keys of all lines, bare.
func (t *text) looseKeys() []uint64 {
	if t.loose == nil {
		t.loose = make([]uint64, len(t.lines))
		for i := range t.lines {
			t.loose[i] = looseKey(t.lines[i].text)
		}
	}
	return t.loose
}
