package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A Request is a request or notification of the client as the bytes it came in.
// A request that [Transport.Direct] takes must be answered once, by Answer or
// Fail.
type Request struct {
	ID     json.RawMessage // nil for a notification
	Method string
	Params json.RawMessage // nil when there are none

	conn *conn
}

// direct offers the message that r has read to [Transport.Direct]. Where that
// does not take a request, its answer is owed under the key owed. A message
// with an unusual envelope is not offered: the decoder sees it instead.
func (c *conn) direct(r *Reader) (taken bool, owed string, err error) {
	req := &Request{conn: c}
	version := false
	for _, m := range r.Members() {
		switch string(m.Key) {
		case "jsonrpc":
			if version || string(m.Value) != `"2.0"` {
				return false, "", nil
			}
			version = true
		case "id":
			if req.ID != nil || !plainID(m.Value) {
				return false, "", nil
			}
			req.ID = m.Value
		case "method":
			if req.Method != "" || m.Value[0] != '"' || bytes.IndexByte(m.Value, '\\') >= 0 {
				return false, "", nil
			}
			req.Method = string(m.Value[1 : len(m.Value)-1])
		case "params":
			if req.Params != nil {
				return false, "", nil
			}
			req.Params = m.Value
		default:
			return false, "", nil
		}
	}
	if !version || req.Method == "" {
		return false, "", nil
	}
	if req.ID != nil {
		if err := c.owe(string(req.ID)); err != nil {
			return false, "", err
		}
	}
	r.Keep() // what takes the request may hold on to its bytes
	return c.t.Direct(req), string(req.ID), nil
}

func (c *conn) disown(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.owed, key)
}

// plainID reports whether id is in a form that has only one encoding, so that its
// bytes identify it: a whole number, or a string without characters that an
// encoder escapes.
func plainID(id []byte) bool {
	if id[0] == '"' {
		return bytes.IndexFunc(id[1:len(id)-1], func(r rune) bool {
			return r <= ' ' || r > '~' || r == '\\' || r == '<' || r == '>' || r == '&'
		}) < 0
	}
	return len(id) <= 15 && id[0] != '0' && len(bytes.Trim(id, "0123456789")) == 0 || string(id) == "0"
}

// lineBuffers holds buffers for lines that are short enough to be joined.
var lineBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// maxJoined is the length in bytes of the longest result that is copied into one
// buffer with its envelope. A longer one is written by itself.
const maxJoined = 64 << 10

// Answer writes result, a JSON value, as the answer. Its bytes stay as they are,
// unless it spans several lines: then it is compacted.
func (r *Request) Answer(result json.RawMessage) error {
	return r.conn.answer(r.ID, string(r.ID), result)
}

// answer writes a result, as [Request.Answer] does. The id is owed under key.
func (c *conn) answer(id []byte, key string, result json.RawMessage) error {
	if bytes.IndexByte(result, '\n') >= 0 {
		var line bytes.Buffer
		if err := json.Compact(&line, result); err != nil {
			return err
		}
		result = line.Bytes()
	}
	c.answering(key)
	defer c.answered()
	buf := lineBuffers.Get().(*[]byte)
	defer lineBuffers.Put(buf)
	b := append((*buf)[:0], `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	b = append(b, `,"result":`...)
	if len(result) > maxJoined {
		return c.writeParts(b, result, []byte("}\n"))
	}
	b = append(b, result...)
	b = append(b, "}\n"...)
	*buf = b
	return c.writeParts(b)
}

// Fail writes err as the answer.
func (r *Request) Fail(err error) error {
	var id any
	if uerr := json.Unmarshal(r.ID, &id); uerr != nil {
		return uerr
	}
	made, merr := jsonrpc.MakeID(id)
	if merr != nil {
		return merr
	}
	return r.conn.Write(context.Background(), &jsonrpc.Response{ID: made, Error: err})
}
