package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// A Member is one member of a JSON object, as the bytes it is written in.
type Member struct {
	Key   []byte // between its quotes, escapes included
	Value []byte
}

// Name returns the key without its escapes.
func (m Member) Name() string { return string(unescaped(m.Key)) }

// Members appends the members of the JSON object b to into. It checks that b is
// one JSON object, valid UTF-8, and nested at most depth deep. The parts are
// slices of b.
func Members(b []byte, depth int, into []Member) ([]Member, error) {
	s := Scanner{Depth: depth}
	return s.Members(b, into)
}

// DefaultDepth is how deep a value may nest where the caller does not say.
const DefaultDepth = 512

// Unique checks that b is one JSON value in which no object has a name twice, at
// any depth and however the name is escaped: readers would disagree about its
// value. Its error for a repeated name is a *[DuplicateNameError]. The value may
// nest [DefaultDepth] deep.
func Unique(b []byte) error {
	s := Scanner{Depth: DefaultDepth, Unique: true}
	s.begin(b)
	if err := s.value(); err != nil {
		return err
	}
	return s.end()
}

// A Scanner is [Members] for one object after the other. It reuses its memory.
type Scanner struct {
	Depth  int  // how deep an object may nest
	Unique bool // refuse an object that has a name twice, as [Unique] does

	b     []byte
	at    int
	depth int
	names [][]byte // if Unique: those of the objects being read, unescaped, the outermost first
}

// maxNamesKept is how many names of one object there is room for in the next.
const maxNamesKept = 1 << 10

// Members appends the members of the JSON object b to into.
func (s *Scanner) Members(b []byte, into []Member) ([]Member, error) {
	s.begin(b)
	if s.peek() != '{' {
		return into, errors.New("not a JSON object")
	}
	err := s.object(func(m Member) { into = append(into, m) })
	if cap(s.names) > maxNamesKept {
		s.names = nil // give the memory back
	}
	if err != nil {
		return into, err
	}
	return into, s.end()
}

// begin makes b what is read, from its first value on.
func (s *Scanner) begin(b []byte) {
	s.b, s.at, s.depth, s.names = b, 0, 0, s.names[:0]
	s.space()
}

// maxName is how many bytes of a name an error repeats.
const maxName = 200

// A DuplicateNameError is a JSON object that has a name twice.
type DuplicateNameError struct{ Name string }

func (e *DuplicateNameError) Error() string {
	return fmt.Sprintf("duplicate name %q in a JSON object; give each name once", e.Name[:min(len(e.Name), maxName)])
}

// ErrDeep is the error for a value that nests deeper than allowed.
var ErrDeep = errors.New("nested too deep")

// end checks that nothing follows, and that what was read is UTF-8.
func (s *Scanner) end() error {
	if s.space(); s.at < len(s.b) {
		return s.unexpected()
	}
	if !utf8.Valid(s.b) {
		return errors.New("not valid UTF-8")
	}
	return nil
}

func (s *Scanner) unexpected() error {
	if s.at >= len(s.b) {
		return errors.New("JSON ends too early")
	}
	return fmt.Errorf("JSON has an unexpected %q", s.b[s.at])
}

// peek returns the next byte, 0 at the end.
func (s *Scanner) peek() byte {
	if s.at < len(s.b) {
		return s.b[s.at]
	}
	return 0
}

func (s *Scanner) space() {
	for s.at < len(s.b) {
		switch s.b[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

func (s *Scanner) enter() error {
	s.at++
	if s.depth++; s.depth > s.Depth {
		return ErrDeep
	}
	return nil
}

// object reads an object and passes its members to each, unless that is nil.
func (s *Scanner) object(each func(Member)) error {
	if err := s.enter(); err != nil {
		return err
	}
	outer := len(s.names)
	for first := true; ; first = false {
		s.space()
		switch {
		case first && s.peek() == '}':
			return s.leave()
		case s.peek() != '"':
			return s.unexpected()
		}
		start := s.at + 1
		if err := s.text(); err != nil {
			return err
		}
		key := s.b[start : s.at-1]
		if s.Unique {
			s.names = append(s.names, unescaped(key))
		}
		if s.space(); s.peek() != ':' {
			return s.unexpected()
		}
		s.at++
		s.space()
		start = s.at
		if err := s.value(); err != nil {
			return err
		}
		if each != nil {
			each(Member{key, s.b[start:s.at:s.at]})
		}
		s.space()
		switch s.peek() {
		case ',':
			s.at++
		case '}':
			if err := distinct(s.names[outer:]); err != nil {
				return err
			}
			s.names = s.names[:outer]
			return s.leave()
		default:
			return s.unexpected()
		}
	}
}

// unescaped returns the name that is written as key between quotes.
func unescaped(key []byte) []byte {
	if bytes.IndexByte(key, '\\') < 0 {
		return key
	}
	var name string
	_ = json.Unmarshal(slices.Concat([]byte{'"'}, key, []byte{'"'}), &name) // the scanner has checked it
	return []byte(name)
}

// fewNames is up to how many names are compared each with each.
const fewNames = 16

// distinct returns a *[DuplicateNameError] for a name that is there twice. It
// sorts names that are many.
func distinct(names [][]byte) error {
	if len(names) > fewNames {
		slices.SortFunc(names, bytes.Compare)
	}
	for i, name := range names {
		others := names[:i]
		if len(names) > fewNames {
			others = names[max(i-1, 0):i]
		}
		for _, other := range others {
			if bytes.Equal(name, other) {
				return &DuplicateNameError{string(name)}
			}
		}
	}
	return nil
}

// array reads an array and passes its elements to each, unless that is nil.
func (s *Scanner) array(each func(json.RawMessage)) error {
	if err := s.enter(); err != nil {
		return err
	}
	for first := true; ; first = false {
		s.space()
		if first && s.peek() == ']' {
			return s.leave()
		}
		start := s.at
		if err := s.value(); err != nil {
			return err
		}
		if each != nil {
			each(s.b[start:s.at:s.at])
		}
		s.space()
		switch s.peek() {
		case ',':
			s.at++
		case ']':
			return s.leave()
		default:
			return s.unexpected()
		}
	}
}

func (s *Scanner) leave() error {
	s.at++
	s.depth--
	return nil
}

func (s *Scanner) value() error {
	switch c := s.peek(); {
	case c == '{':
		return s.object(nil)
	case c == '[':
		return s.array(nil)
	case c == '"':
		return s.text()
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return s.unexpected()
}

func (s *Scanner) word(w string) error {
	if !bytes.HasPrefix(s.b[s.at:], []byte(w)) {
		return s.unexpected()
	}
	s.at += len(w)
	return nil
}

// plain holds the bytes without a special meaning in a string.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return t
}()

func (s *Scanner) text() error {
	b := s.b
	for i := s.at + 1; i < len(b); i++ {
		if plain[b[i]] {
			continue
		}
		s.at = i
		switch b[i] {
		case '"':
			s.at++
			return nil
		case '\\':
			n := escape(b[i+1:])
			if n == 0 {
				return s.unexpected()
			}
			i += n
		default:
			return s.unexpected()
		}
	}
	s.at = len(b)
	return s.unexpected()
}

// escape returns how many bytes behind a backslash belong to it, 0 for none
// that are right.
func escape(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(b) < 5 {
			return 0
		}
		for _, c := range b[1:5] {
			if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
				return 0
			}
		}
		return 5
	}
	return 0
}

func (s *Scanner) number() error {
	if s.peek() == '-' {
		s.at++
	}
	if s.peek() == '0' {
		s.at++
	} else if !s.digits() {
		return s.unexpected()
	}
	if s.peek() == '.' {
		if s.at++; !s.digits() {
			return s.unexpected()
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		if !s.digits() {
			return s.unexpected()
		}
	}
	return nil
}

func (s *Scanner) digits() bool {
	start := s.at
	for s.at < len(s.b) && s.b[s.at] >= '0' && s.b[s.at] <= '9' {
		s.at++
	}
	return s.at > start
}
