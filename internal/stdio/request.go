package stdio

import (
	"bytes"
	"encoding/json"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"toolgate/internal/rawjson"
)

// A Request is a request or notification of the client as the bytes it came in.
// A request that [Transport.Handle] takes must be answered once, by Answer or
// Fail, which write nothing if the client has cancelled it.
type Request struct {
	ID     json.RawMessage // nil for a notification
	Method string
	Params json.RawMessage // nil when there are none

	conn *conn
}

// offer shows the message that r has read to [Transport.Handle], unless it is an
// answer. Handle also does not see a request whose envelope is wrong: the decoder
// refuses it.
func (c *conn) offer(r *Reader) (taken bool, err error) {
	req := &Request{conn: c}
	version := false
	for _, m := range r.Members() {
		switch m.Name() {
		case "jsonrpc":
			version = string(m.Value) == `"2.0"`
		case "id":
			req.ID = m.Value
		case "method":
			req.Method = rawjson.Text(m.Value)
		case "params":
			req.Params = m.Value
		case "result", "error":
			return false, nil
		}
	}
	isID := req.ID == nil || req.ID[0] == '"' || req.ID[0] == '-' || req.ID[0] >= '0' && req.ID[0] <= '9'
	if !version || req.Method == "" || !isID {
		return false, nil
	}
	key := IDKey(req.ID)
	if req.ID != nil {
		if err := c.owe(key); err != nil {
			return false, err
		}
	}
	if req.ID == nil && req.Method == cancelled {
		c.cancel(req.Params)
	}
	r.Keep() // what takes the request may hold on to its bytes
	if c.t.Handle(req) {
		return true, nil
	}
	c.disown(key) // the decoder notes it again
	return false, nil
}

func (c *conn) disown(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.owed, key)
}

// lineBuffers holds buffers for lines that are short enough to be joined.
var lineBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// maxJoined is the length in bytes of the longest result that is copied into one
// buffer with its envelope. A longer one is written by itself.
const maxJoined = 64 << 10

// IDKey returns the id of a request in the form that all its encodings share, "" for
// what is no id. Numbers are compared as float64, as the SDK does.
func IDKey(id json.RawMessage) string {
	if isPlainID(id) {
		return string(id)
	}
	var v any
	if json.Unmarshal(id, &v) != nil {
		return string(id)
	}
	made, err := jsonrpc.MakeID(v)
	if err != nil {
		return ""
	}
	return idKey(made)
}

// isPlainID reports whether id has only one encoding: it is a whole number, or a
// string without characters that an encoder escapes.
func isPlainID(id json.RawMessage) bool {
	if len(id) > 1 && id[0] == '"' {
		return bytes.IndexFunc(id[1:len(id)-1], func(r rune) bool {
			return r < ' ' || r > '~' || r == '\\' || r == '<' || r == '>' || r == '&'
		}) < 0
	}
	return len(id) > 0 && len(id) <= 15 && (id[0] != '0' || len(id) == 1) && len(bytes.Trim(id, "0123456789")) == 0
}

// Answer writes result, a JSON value, as the answer. Its bytes stay as they are,
// unless it spans several lines: then it is compacted.
func (r *Request) Answer(result json.RawMessage) error {
	return r.conn.answer(r.ID, "result", result)
}

// Fail writes err as the answer: a [*jsonrpc.Error], or the message of an internal
// error.
func (r *Request) Fail(err error) error {
	rpc, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		rpc = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	b, merr := json.Marshal(Coded(rpc))
	if merr != nil {
		return merr
	}
	return r.conn.answer(r.ID, "error", b)
}

// answer writes the answer to the request with this id: its result or error.
func (c *conn) answer(id json.RawMessage, member string, value json.RawMessage) error {
	value = rawjson.Line(value)
	if !c.answering(IDKey(id)) {
		return nil
	}
	defer c.answered()
	buf := lineBuffers.Get().(*[]byte)
	defer lineBuffers.Put(buf)
	b := append((*buf)[:0], `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	b = append(append(append(b, `,"`...), member...), `":`...)
	if len(value) > maxJoined {
		return c.writeParts(b, value, []byte("}\n"))
	}
	b = append(b, value...)
	b = append(b, "}\n"...)
	*buf = b
	return c.writeParts(b)
}
