package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"toolgate/internal/rawjson"
)

// A Request is a request or notification of the client as the bytes it came in.
// A request that [Transport.Handle] takes must be answered once, by Answer or
// Fail.
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
	key := string(req.ID)
	if req.ID != nil {
		if err := c.owe(key); err != nil {
			return false, err
		}
	}
	r.Keep() // what takes the request may hold on to its bytes
	if c.t.Handle(req) {
		return true, nil
	}
	c.disown(key) // the decoder has its own form of the id
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
