// Package stdio implements the stdio transport of MCP: one JSON-RPC message per
// line. The SDK's transport ends the session at the first line that it cannot
// parse. Here a bad line gets an error of its own and the next line is read.
//
//	r := stdio.NewReader(os.Stdin, stdio.Limits{})
//	for {
//		line, err := r.Next()
//		if bad, ok := errors.AsType[*stdio.LineError](err); ok { … answer bad … ; continue }
//		if err != nil { return err } // io.EOF: the stream ended
//	}
//
// [Transport] does that for an [mcp.Server], and delays the end of the stream
// until the pending requests are answered.
package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"toolgate/internal/rawjson"
)

// Limits bound the size of a message. A zero field means its default.
type Limits struct {
	Line  int // bytes in a line, default 32 MiB
	Depth int // nested arrays and objects, default 512

	// Unique rejects a line in which an object has a name twice, at any depth.
	Unique bool
}

const (
	defaultLine  = 32 << 20
	defaultDepth = rawjson.DefaultDepth
)

// A LineError reports a line that is not a usable JSON-RPC message. Reading
// continues with the next line.
type LineError struct {
	Code int64           // JSON-RPC error code
	Msg  string          // what is wrong, for the peer
	ID   json.RawMessage // the id of the request in the line, nil if unknown
	Text string          // the beginning of the line, for a log
}

func (e *LineError) Error() string { return e.Msg }

// A Reader splits a stream into messages. It holds one line in memory at a
// time and never more than Limits.Line bytes of it. Not safe for concurrent
// use.
type Reader struct {
	in      *bufio.Reader
	limits  Limits
	line    []byte
	scanner rawjson.Scanner
	members []rawjson.Member
}

// NewReader returns a Reader over in.
func NewReader(in io.Reader, l Limits) *Reader {
	if l.Line == 0 {
		l.Line = defaultLine
	}
	if l.Depth == 0 {
		l.Depth = defaultDepth
	}
	return &Reader{
		in:      bufio.NewReaderSize(in, 64<<10),
		limits:  l,
		scanner: rawjson.Scanner{Depth: l.Depth, Unique: l.Unique},
	}
}

// byteOrderMark begins the streams of some programs on Windows.
var byteOrderMark = []byte("\xef\xbb\xbf")

// Next returns the next message without its line end, and skips blank lines. The
// bytes are valid until the next call.
// Its errors are a *[LineError], after which Next may be called again, or the
// stream's own. A last line without a line end is returned before [io.EOF].
func (r *Reader) Next() ([]byte, error) {
	for {
		line, err := r.read()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(bytes.TrimPrefix(line, byteOrderMark)); len(line) == 0 {
			continue
		}
		if r.members, err = r.scanner.Members(line, r.members[:0]); err != nil {
			return nil, refusal(line, r.limits.Depth, err)
		}
		return line, nil
	}
}

// Members returns the members of the message that Next returned last. They
// are valid as long as it is.
func (r *Reader) Members() []rawjson.Member { return r.members }

// Keep makes the bytes of the message that Next returned last stay valid after
// the next call.
func (r *Reader) Keep() { r.line = nil }

func (r *Reader) read() ([]byte, error) {
	r.line = r.line[:0]
	var over *idScanner // set once the line is too long
	for {
		part, err := r.in.ReadSlice('\n')
		switch {
		case over != nil:
			over.scan(part)
		case len(r.line)+len(part) > r.limits.Line:
			over = &idScanner{}
			over.scan(r.line)
			over.scan(part)
			r.line = nil // give the memory back
		default:
			if len(r.line)+len(part) > cap(r.line) { // doubled, where append would grow by a quarter
				r.line = slices.Grow(r.line, max(len(part), len(r.line)))
			}
			r.line = append(r.line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if over != nil && (err == nil || errors.Is(err, io.EOF)) {
			return nil, &LineError{
				Code: jsonrpc.CodeInvalidRequest,
				Msg:  fmt.Sprintf("message longer than %d bytes; send less in one call", r.limits.Line),
				ID:   over.id(),
				Text: string(part[:min(len(part), maxText)]),
			}
		}
		if errors.Is(err, io.EOF) && len(r.line) > 0 {
			return r.line, nil
		}
		return r.line, err
	}
}

// Check checks a message that was not read from a stream of lines: it must be a
// JSON object that does not nest too deep, and in which no object has a name
// twice, because decoders disagree about its value. Its errors are *[LineError].
func Check(message []byte, l Limits) error {
	if l.Depth == 0 {
		l.Depth = defaultDepth
	}
	if message = bytes.TrimSpace(message); len(message) == 0 {
		return &LineError{Code: jsonrpc.CodeInvalidRequest, Msg: "there is no message"}
	}
	s := rawjson.Scanner{Depth: l.Depth, Unique: true}
	if _, err := s.Members(message, nil); err != nil {
		return refusal(message, l.Depth, err)
	}
	return nil
}

// refusal returns the error for a line that is not a JSON object or that repeats
// a name.
func refusal(line []byte, depth int, why error) *LineError {
	bad := func(code int64, format string, args ...any) *LineError {
		var s idScanner
		s.scan(line)
		return &LineError{
			Code: code,
			Msg:  fmt.Sprintf(format, args...),
			ID:   s.id(),
			Text: string(line[:min(len(line), maxText)]),
		}
	}
	twice, isTwice := errors.AsType[*rawjson.DuplicateNameError](why)
	switch {
	case !utf8.Valid(line):
		return bad(jsonrpc.CodeParseError, "message is not valid UTF-8")
	case errors.Is(why, rawjson.ErrDeep):
		return bad(jsonrpc.CodeInvalidRequest, "message nested more than %d deep", depth)
	case !json.Valid(line):
		return bad(jsonrpc.CodeParseError, "message is not valid JSON")
	case isTwice:
		e := bad(jsonrpc.CodeInvalidRequest, "%v", twice)
		e.ID = requestID(line, depth)
		return e
	case line[0] == '[':
		return bad(jsonrpc.CodeInvalidRequest, "batches are not supported; send each message by itself")
	}
	return bad(jsonrpc.CodeInvalidRequest, "message is not a JSON object")
}

// requestID returns the id of the request in line, a JSON object. It is nil for
// an answer, whose id is ours, and if there are two ids.
func requestID(line []byte, depth int) json.RawMessage {
	var found idScanner
	isRequest := false
	members, _ := rawjson.Members(line, depth, nil) // the line is valid
	for _, m := range members {
		switch m.Name() {
		case "id":
			if found.found != nil {
				return nil
			}
			found.found = m.Value
		case "method":
			isRequest = true
		}
	}
	if !isRequest {
		return nil
	}
	return found.id()
}

// An idScanner finds the value of the top-level "id" in a message that is too
// long to keep or not valid, so that the peer gets an answer to its request. It
// keeps only a few bytes.
type idScanner struct {
	depth    int
	inString bool
	escaped  bool
	value    bool   // after a colon at depth 1
	key      []byte // the last string at depth 1 that could be a key
	found    []byte // the bytes of the id's value
}

const (
	maxID   = 256
	maxText = 200
)

func (s *idScanner) scan(p []byte) {
	for _, c := range p {
		s.step(c)
	}
}

func (s *idScanner) step(c byte) {
	if s.inString {
		s.keep(c)
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.inString = false
		}
		return
	}
	switch c {
	case '"':
		s.inString = true
		if s.depth == 1 && !s.value {
			s.key = s.key[:0]
		}
		s.keep(c)
	case '{', '[':
		s.keep(c)
		s.depth++
	case '}', ']':
		s.depth--
		if s.depth > 0 {
			s.keep(c)
		}
	case ':':
		if s.depth == 1 && !s.value {
			s.value = true
			if string(s.key) == `"id"` && len(s.found) > 0 {
				s.found = append(s.found, ',') // two ids are none
			}
			return
		}
		s.keep(c)
	case ',':
		if s.depth == 1 {
			s.value = false
			return
		}
		s.keep(c)
	default:
		s.keep(c)
	}
}

// keep appends c to the key being read, or to the id.
func (s *idScanner) keep(c byte) {
	switch {
	case s.depth == 1 && !s.value && len(s.key) < 8:
		if c > ' ' {
			s.key = append(s.key, c)
		}
	case s.value && string(s.key) == `"id"` && len(s.found) <= maxID:
		s.found = append(s.found, c)
	}
}

// id returns the id found, nil if there is none that JSON-RPC allows.
func (s *idScanner) id() json.RawMessage {
	v := bytes.TrimSpace(s.found)
	if len(v) == 0 || len(v) > maxID || !json.Valid(v) || !utf8.Valid(v) {
		return nil
	}
	if v[0] == '"' || v[0] == '-' || v[0] >= '0' && v[0] <= '9' {
		return v
	}
	return nil
}
