// Package aggregator starts and keeps the backends that do the work, the
// worker with the built-in tools and downstream MCP servers alike, and speaks
// MCP to them.
//
// To the gate they are all the same: a process or an address that answers
// tools/call. [Workers] keeps the built-in ones, [Downstreams] the servers from
// the config. Results are passed on as the bytes they came in.
package aggregator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
	"toolgate/internal/stdio"
)

// A stdioLink is a connection over two streams, one message per line. Nothing is
// decoded but the envelope. Close ends it; it does not close the streams.
type stdioLink struct {
	out     io.Writer
	session *session // receives what comes unasked; nil: drop it

	mu      sync.Mutex
	last    int64
	pending map[string]*pendingCall // by id
	queue   []outgoing              // lines yet to be written
	queued  sync.Cond               // signalled when queue grows or err is set
	writing string                  // the id of the request that is being written, or ""
	err     error                   // why the connection ended
	done    chan struct{}
}

// A pendingCall is a request that has no answer yet.
type pendingCall struct {
	*request
	answer chan response // holds one
}

type response struct {
	result json.RawMessage
	err    error
}

// An outgoing is a line to be written.
type outgoing struct {
	line []byte
	id   string // of the request in it, "" for what has no answer
}

// ErrClosed is wrapped by the errors of calls on a connection that has ended.
var ErrClosed = errors.New("connection closed")

// errNotSent is wrapped beside [ErrClosed] when nothing of the request can
// have reached the other side, so that it may be sent again elsewhere.
var errNotSent = errors.New("request not sent")

// An RPCError is a JSON-RPC error that the other side answered with.
type RPCError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *RPCError) Error() string { return e.Message }

type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *RPCError       `json:"error"`
}

// answer returns the result or error in an answer.
func (m envelope) answer() (json.RawMessage, error) {
	if m.Error != nil {
		return nil, m.Error
	}
	return m.Result, nil
}

// parseEnvelope returns the message b, as slices of b.
func parseEnvelope(b []byte) (envelope, error) {
	members, err := rawjson.Members(b, rawjson.DefaultDepth, nil)
	if err != nil {
		return envelope{}, err
	}
	m, ok := envelopeOf(members)
	if !ok {
		return envelope{}, errors.New("method is not a string")
	}
	return m, nil
}

// envelopeOf returns the message with these members, as slices of the line.
// ok is false for what is no message.
func envelopeOf(members []rawjson.Member) (m envelope, ok bool) {
	for _, f := range members {
		switch string(f.Key) {
		case "id":
			m.ID = f.Value
		case "method":
			if json.Unmarshal(f.Value, &m.Method) != nil {
				return m, false
			}
		case "params":
			m.Params = f.Value
		case "result":
			m.Result = f.Value
		case "error":
			if rawjson.Kind(f.Value) != 'n' { // many results have "error": null
				m.Error = rpcErrorOf(f.Value)
			}
		}
	}
	return m, true
}

// handleUnasked handles a message that is no answer, for a session that may be nil. cause
// is the request on whose behalf it came, if the transport tells; send sends the reply to
// a request.
func (s *session) handleUnasked(cause *request, m envelope, send func(envelope) error) {
	if len(m.ID) > 0 && string(m.ID) != "null" {
		reply := func(result json.RawMessage, err *RPCError) {
			send(envelope{ID: m.ID, Result: result, Error: err})
		}
		if s != nil && s.onRequest(cause, m.Method, m.Params, reply) {
			return
		}
		go reply(nil, &RPCError{Code: -32601, Message: m.Method + " is not supported here"}) // ends when it is written
	}
	if s != nil {
		s.onNotify(cause, m.Method, m.Params)
	}
}

// newStdioLink returns a connection that reads in until it ends and writes to out.
func newStdioLink(in io.Reader, out io.Writer, s *session) *stdioLink {
	c := &stdioLink{out: out, session: s, pending: map[string]*pendingCall{}, done: make(chan struct{})}
	c.queued.L = &c.mu
	go c.writeLoop()                                                   // ends with Close, as readLoop calls it
	go c.readLoop(stdio.NewReader(in, stdio.Limits{Line: maxMessage})) // ends when in ends
	return c
}

// Done is closed when the connection has ended.
func (c *stdioLink) Done() <-chan struct{} { return c.done }

// Close ends the connection: pending calls fail with cause. The one whose request is
// being written fails when that has ended.
func (c *stdioLink) Close(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = cause
	for _, o := range c.queue {
		c.fail(o.id, errNotSent)
	}
	c.queue = nil
	c.queued.Signal()
	for id := range c.pending {
		if id != c.writing {
			c.fail(id, cause)
		}
	}
	close(c.done)
}

// fail ends the pending call with that id, if there is one. The caller holds c.mu.
func (c *stdioLink) fail(id string, cause error) {
	if call := c.pending[id]; call != nil {
		delete(c.pending, id)
		call.answer <- response{err: fmt.Errorf("%w: %w", ErrClosed, cause)}
	}
}

// readLoop reads until in ends.
func (c *stdioLink) readLoop(r *stdio.Reader) {
	for {
		_, err := r.Next()
		if bad, ok := errors.AsType[*stdio.LineError](err); ok {
			c.session.onInvalidLine(bad) // such as a banner or a stack trace
			c.onBadAnswer(bad)
			continue
		}
		if err != nil {
			c.Close(err)
			return
		}
		m, ok := envelopeOf(r.Members())
		if !ok {
			continue
		}
		r.Keep() // it is passed on
		switch {
		case m.Method == "notifications/progress":
			c.onProgress(m.Params)
		case m.Method != "":
			c.session.handleUnasked(nil, m, c.send)
		default:
			id := string(bytes.Trim(m.ID, `"`)) // some servers answer to a number with a string
			if call := c.remove(id); call != nil {
				result, err := m.answer()
				call.answer <- response{result, err}
			}
		}
	}
}

// writeLoop writes what is queued, in order, until the connection has ended.
func (c *stdioLink) writeLoop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for len(c.queue) == 0 && c.err == nil {
			c.queued.Wait()
		}
		if c.err != nil {
			return
		}
		next := c.queue[0]
		c.queue = slices.Delete(c.queue, 0, 1)
		c.writing = next.id
		c.mu.Unlock()
		n, err := c.out.Write(next.line)
		c.mu.Lock()
		c.writing = ""
		if err != nil && n == 0 {
			err = fmt.Errorf("%w: %w", errNotSent, err)
		}
		if err = cmp.Or(err, c.err); err != nil {
			c.fail(next.id, err)
		}
	}
}

// remove removes and returns the pending call with that id, nil if there is none. What
// still comes for it is dropped: "progress MUST stop after completion".
func (c *stdioLink) remove(id string) *pendingCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.pending[id]
	delete(c.pending, id)
	if call != nil && call.Log != nil {
		call.answered.Store(true)
	}
	return call
}

// onBadAnswer fails the call that an invalid line was to answer, such as one with NaN or
// beyond the limit.
func (c *stdioLink) onBadAnswer(bad *stdio.LineError) {
	if len(bad.ID) == 0 || strings.Contains(bad.Text, `"method"`) {
		return // a request's id is not one of ours
	}
	if call := c.remove(string(bytes.Trim(bad.ID, `"`))); call != nil {
		call.answer <- response{err: fmt.Errorf("the server's answer is of no use: %s", bad.Msg)}
	}
}

// rpcErrorOf reads an error, which may be incomplete.
func rpcErrorOf(raw json.RawMessage) *RPCError {
	e := &RPCError{}
	if rawjson.Unmarshal(raw, e) == nil && e.Message != "" {
		return e
	}
	o, _ := rawjson.Parse(raw)
	e = &RPCError{Code: -32603, Message: o.Text("message"), Data: slices.Clone(o.Get("data"))}
	var code float64
	if json.Unmarshal(o.Get("code"), &code) == nil && code == float64(int64(code)) && code != 0 {
		e.Code = int64(code)
	}
	if e.Message == "" {
		e.Message = "the server answered with an error that says nothing: " + cutMiddle(string(raw), 300)
	}
	return e
}

func (c *stdioLink) onProgress(params json.RawMessage) {
	p, _ := rawjson.Parse(params)
	c.mu.Lock()
	call := c.pending[string(bytes.Trim(p.Get("progressToken"), `"`))]
	c.mu.Unlock()
	if call != nil && call.Progress != nil {
		call.Progress(params)
	}
}

// A request is one request on its way to a backend: a [gate.Call], if a caller made it.
type request struct {
	gate.Call

	method  string
	body    rawjson.Object // its params, without _meta
	meta    rawjson.Object
	headers map[string]string // Mcp-Param-… of a stateless request over HTTP
	task    string            // the server's id of the task that it waits for

	timeout    time.Duration // of the server to make progress; 0: none
	repeatable bool          // to be sent again although the server may have received it

	answered *atomic.Bool // set with Log: the answer is there

	// Guarded by the session's lock.
	number int // in the order of calls
	asked  int // questions attributed to it by inferCause
}

// params returns the request's params. Progress is asked for under token.
func (r *request) params(token string) json.RawMessage {
	meta := r.meta
	if r.Progress != nil {
		meta = slices.Clone(meta)
		meta.Set("progressToken", json.RawMessage(token))
	}
	body := r.body
	if len(meta) > 0 {
		body = slices.Clone(body)
		body.Set("_meta", meta.Bytes())
	}
	return body.Bytes()
}

// toolCall returns the params of a call of the tool with this name.
func toolCall(name string, args json.RawMessage) rawjson.Object {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	return rawjson.Object{{Key: "name", Value: rawjson.Quote(name)}, {Key: "arguments", Value: args}}
}

// do sends a request and returns the result's bytes. If ctx ends first, it cancels the
// request and returns ctx's error. Other errors are a *[RPCError] or wrap [ErrClosed].
func (c *stdioLink) do(ctx context.Context, r *request) (json.RawMessage, error) {
	id, call := c.register(r)
	defer c.remove(id)
	m := envelope{ID: json.RawMessage(id), Method: r.method, Params: r.params(id)}
	if err := c.send(m); err != nil {
		return nil, err
	}
	select {
	case a := <-call.answer:
		return a.result, a.err
	case <-ctx.Done():
		c.send(cancelled(id, context.Cause(ctx)))
		return nil, ctx.Err()
	}
}

// register adds r to the pending calls, under the id that it returns.
func (c *stdioLink) register(r *request) (id string, call *pendingCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	id, call = strconv.FormatInt(c.last, 10), &pendingCall{r, make(chan response, 1)}
	c.pending[id] = call
	return id, call
}

// cancelled returns the notification that nobody waits for the answer any more.
func cancelled(id string, cause error) envelope {
	params := rawjson.Object{
		{Key: "reason", Value: rawjson.Quote(cause.Error())},
		{Key: "requestId", Value: json.RawMessage(id)},
	}
	return envelope{Method: "notifications/cancelled", Params: params.Bytes()}
}

// send queues m and does not wait until it is written. Its error is that the connection
// has ended.
func (c *stdioLink) send(m envelope) error {
	next := outgoing{line: append(m.line(), '\n')}
	if m.Method != "" {
		next.id = string(m.ID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return fmt.Errorf("%w: %w: %w", ErrClosed, errNotSent, c.err)
	}
	c.queue = append(c.queue, next)
	c.queued.Signal()
	return nil
}

// line returns m on one line, without the end of the line.
func (m envelope) line() []byte {
	var method, rpcError json.RawMessage
	if m.Method != "" {
		method = rawjson.Quote(m.Method)
	}
	if e := m.Error; e != nil {
		rpcError = rawjson.Object{
			{Key: "code", Value: strconv.AppendInt(nil, e.Code, 10)},
			{Key: "message", Value: rawjson.Quote(e.Message)},
			{Key: "data", Value: e.Data},
		}.Bytes()
	}
	return rawjson.Object{
		{Key: "jsonrpc", Value: json.RawMessage(`"2.0"`)},
		{Key: "id", Value: m.ID},
		{Key: "method", Value: method},
		{Key: "params", Value: m.Params},
		{Key: "result", Value: m.Result},
		{Key: "error", Value: rpcError},
	}.Bytes()
}
