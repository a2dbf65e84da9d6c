package applypatch

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"unicode"
)

// A text is a file split into lines. Lines keep their bytes, so that unchanged
// lines are written back exactly.
type text struct {
	enc   encoding
	bom   bool // the file begins with a byte order mark
	lines []textLine

	// Per matching level, computed on first use.
	folded [levels][]string           // see foldedAt
	where  [levels]map[uint64][]int32 // the lines with each hash of the folded form
	finds  [levels]int                // number of searches
	loose  []string                   // see looseLines
}

// A textLine is one line of a file.
type textLine struct {
	raw         []byte // the bytes in the file, including the line ending; nil for a new line
	text        string // decoded, without the line ending
	end         string // "\n", "\r\n", "\r" or "" at the end of the file
	explicitEnd bool   // the patch specifies the line ending
}

func parseText(data []byte) (*text, error) {
	enc, bom, err := detect(data)
	if err != nil {
		return nil, err
	}
	t := &text{enc: enc, bom: bom}
	if bom {
		data = data[len(enc.bom()):]
	}
	if len(data)%enc.width() != 0 {
		return nil, errors.New("it is UTF-16 with half a character at its end; mend it first")
	}
	s := string(data)
	end := "\n"
	if enc.width() == 1 && !strings.Contains(s, end) {
		end = "\r" // as on classic Mac OS
	}
	t.lines = make([]textLine, 0, strings.Count(s, end)+1)
	for off := 0; off < len(s); {
		n, end := enc.cutLine(s[off:], end)
		size := n + len(end)*enc.width()
		t.lines = append(t.lines, textLine{raw: data[off : off+size], text: enc.decode(s[off : off+n]), end: end})
		off += size
	}
	return t, nil
}

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
		text := l.raw[:len(l.raw)-len(t.enc.ascii(l.end))]
		l.raw = append(bytes.Clone(text), t.enc.ascii(end)...)
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
	return strings.TrimSpace(strings.Map(plain, s))
}

// plain returns the ASCII equivalent of a typographic character.
func plain(r rune) rune {
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
}

// foldedAt returns the lines in the form that is equal for lines that match at level l.
func (t *text) foldedAt(l level) []string {
	if t.folded[l] == nil {
		t.folded[l] = make([]string, len(t.lines))
		for i := range t.lines {
			t.folded[l][i] = l.fold(t.lines[i].text)
		}
	}
	return t.folded[l]
}

var seed = maphash.MakeSeed()

// candidates yields the index of each line at or after start with the given form at
// level l, and few others.
func (t *text) candidates(l level, want string, start int) iter.Seq[int] {
	const withoutIndex = 8 // linear searches
	lines := t.foldedAt(l)
	if t.finds[l]++; t.finds[l] > withoutIndex && t.where[l] == nil {
		t.where[l] = make(map[uint64][]int32, len(lines))
		for i, line := range lines {
			hash := maphash.String(seed, line)
			t.where[l][hash] = append(t.where[l][hash], int32(i))
		}
	}
	return func(yield func(int) bool) {
		if t.where[l] == nil {
			for i := start; i < len(lines); i++ {
				if lines[i] == want && !yield(i) {
					return
				}
			}
			return
		}
		at := t.where[l][maphash.String(seed, want)]
		first, _ := slices.BinarySearch(at, int32(start))
		for _, i := range at[first:] {
			if !yield(int(i)) {
				return
			}
		}
	}
}

// looseLines returns the letters and digits of each line.
func (t *text) looseLines() []string {
	if t.loose == nil {
		t.loose = make([]string, len(t.lines))
		for i := range t.lines {
			t.loose[i] = lettersAndDigits(t.lines[i].text)
		}
	}
	return t.loose
}
