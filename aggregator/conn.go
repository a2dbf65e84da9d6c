// Package aggregator starts and keeps the backends that do the work, the
// worker with the built-in tools and downstream MCP servers alike, and speaks
// MCP to them.
//
// To the gate they are all the same: a process or an address that answers
// tools/call. [Workers] keeps the built-in ones; a [Conn] is one connection,
// which passes results on as the bytes they came in.
package aggregator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"toolgate/internal/relay"
	"toolgate/internal/stdio"
	"toolgate/policy"
)

// A Conn is the client's end of an MCP connection that keeps results as the
// bytes they came in: nothing is decoded but the envelope. It may be used
// concurrently. Close it to end it; it does not close the streams it was made
// from.
type Conn struct {
	out io.Writer
	now func([]byte) (int, error) // writes what can be written without waiting; nil: nothing can

	handle handlers

	write chan struct{} // holds one element while a line is written
	baton relay.Baton   // with the goroutine that reads

	mu       sync.Mutex
	last     int64
	waiting  map[string]*waiter
	progress map[string]func(json.RawMessage)
	logs     map[string]*request // that want log messages
	err      error               // why the connection ended
	done     chan struct{}
}

// handlers take what the other side sends unasked. None may block; each may be
// nil.
type handlers struct {
	// notify receives notifications, and requests that nobody answers.
	// cause is the request on whose behalf one came, nil when the transport
	// does not tell.
	notify func(cause *request, method string, params json.RawMessage)

	// request receives requests and reports whether it will call reply, once.
	request func(cause *request, method string, params json.RawMessage, reply func(json.RawMessage, *RPCError)) bool

	// junk receives lines that are no messages.
	junk func(*stdio.LineError)
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

type response struct {
	result json.RawMessage
	err    error
}

// A waiter waits for the answer to a request.
type waiter struct {
	answer chan response // holds one
	work   *relay.Work   // that goes on with it; nil: somebody receives it
}

// give hands the answer over. A work goes on with it before give returns.
func (w *waiter) give(r response) {
	w.answer <- r
	if w.work != nil {
		w.work.Resume()
	}
}

type envelope struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *RPCError       `json:"error,omitempty"`
}

// envelopeOf returns the message with these members, as slices of the line.
// ok is false for what is no message.
func envelopeOf(members []stdio.Member) (m envelope, ok bool) {
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
			if kindOf(f.Value) != 'n' { // "error": null stands beside many a result
				m.Error = rpcErrorOf(f.Value)
			}
		}
	}
	return m, true
}

// NewConn returns a connection that reads in until it ends and writes to out.
// A nil notify drops what comes unasked.
func NewConn(in io.Reader, out io.Writer, l stdio.Limits, notify func(method string, params json.RawMessage)) *Conn {
	var h handlers
	if notify != nil {
		h.notify = func(_ *request, method string, params json.RawMessage) { notify(method, params) }
	}
	return newConn(in, out, l, h)
}

func newConn(in io.Reader, out io.Writer, l stdio.Limits, h handlers) *Conn {
	c := &Conn{
		out:      out,
		now:      stdio.WithoutWaiting(out),
		handle:   h,
		write:    make(chan struct{}, 1),
		waiting:  map[string]*waiter{},
		progress: map[string]func(json.RawMessage){},
		logs:     map[string]*request{},
		done:     make(chan struct{}),
	}
	go c.readLoop(stdio.NewReader(in, l)) // ends when in ends
	return c
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Close ends the connection: calls under way fail with cause.
func (c *Conn) Close(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = cause
	for id, w := range c.waiting {
		lost := response{err: fmt.Errorf("%w: %w", ErrClosed, cause)}
		if w.work != nil {
			go w.give(lost) // ends when the call does, or waits again
		} else {
			w.give(lost)
		}
		delete(c.waiting, id)
	}
	close(c.done)
}

// readLoop reads until in ends. A call that an answer is for goes on in here,
// and should not block; if one does, another goroutine reads on.
func (c *Conn) readLoop(r *stdio.Reader) {
	readOn := func() { c.readLoop(r) }
	for {
		_, err := r.Next()
		if bad, ok := errors.AsType[*stdio.LineError](err); ok {
			if c.handle.junk != nil { // a banner, a stack trace: not for us
				c.handle.junk(bad)
			}
			turn := c.baton.Begin(readOn)
			c.onBadAnswer(bad)
			if !c.baton.End(turn) {
				return
			}
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
		turn := c.baton.Begin(readOn)
		switch {
		case m.Method == "notifications/progress":
			c.onProgress(m.Params)
		case m.Method != "":
			c.onUnasked(m)
		default:
			c.onResponse(m)
		}
		if !c.baton.End(turn) {
			return
		}
	}
}

func (c *Conn) onUnasked(m envelope) {
	if len(m.ID) > 0 && string(m.ID) != "null" {
		reply := func(result json.RawMessage, err *RPCError) {
			c.send(envelope{ID: m.ID, Result: result, Error: err})
		}
		if c.handle.request != nil && c.handle.request(nil, m.Method, m.Params, reply) {
			return
		}
		go reply(nil, &RPCError{Code: -32601, Message: m.Method + " is not supported here"}) // ends when it is written
	}
	if c.handle.notify != nil {
		c.handle.notify(nil, m.Method, m.Params)
	}
}

func (c *Conn) onResponse(m envelope) {
	key := string(bytes.Trim(m.ID, `"`)) // some servers answer to a number with a string
	w := c.answered(key)
	switch {
	case w == nil: // given up, or never asked
	case m.Error != nil:
		w.give(response{err: m.Error})
	default:
		w.give(response{result: m.Result})
	}
}

// answered returns who waits for the answer that has come, nil for nobody.
func (c *Conn) answered(id string) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waiting[id]
	delete(c.waiting, id)
	delete(c.progress, id) // "progress MUST stop after completion"; what comes later is dropped
	c.endLog(id)
	return w
}

// onBadAnswer fails the call that a line of no use was to answer: nothing
// better will come. Servers write NaN where JSON has none, or more than we take.
func (c *Conn) onBadAnswer(bad *stdio.LineError) {
	if len(bad.ID) == 0 || strings.Contains(bad.Text, `"method"`) {
		return // a request's id is not one of ours
	}
	if w := c.answered(string(bytes.Trim(bad.ID, `"`))); w != nil {
		w.give(response{err: fmt.Errorf("the server's answer is of no use: %s", bad.Msg)})
	}
}

// rpcErrorOf reads an error that may lack what it should have.
func rpcErrorOf(raw json.RawMessage) *RPCError {
	e := &RPCError{}
	if json.Unmarshal(raw, e) == nil && e.Message != "" {
		return e
	}
	o, _ := parseOrdered(raw)
	var code float64
	if e = (&RPCError{Code: -32603, Message: o.text("message"), Data: slices.Clone(o.get("data"))}); json.Unmarshal(o.get("code"), &code) == nil && code == float64(int64(code)) && code != 0 {
		e.Code = int64(code)
	}
	if e.Message == "" {
		e.Message = "the server answered with an error that says nothing: " + cutMiddle(string(raw), 300)
	}
	return e
}

func (c *Conn) onProgress(params json.RawMessage) {
	var p struct {
		Token json.RawMessage `json:"progressToken"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	c.mu.Lock()
	f := c.progress[string(bytes.Trim(p.Token, `"`))]
	c.mu.Unlock()
	if f != nil {
		f(params)
	}
}

// Call sends a request and returns the result's bytes. When ctx ends first,
// the other side is told and Call returns ctx's error; what the other side
// still answers is dropped. Errors are a *[RPCError], the context's, or wrap
// [ErrClosed].
func (c *Conn) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	id, ch, err := c.register(nil)
	if err != nil {
		return nil, err
	}
	return c.await(ctx, id, ch, method, params, nil)
}

// A request is one request on its way to a backend.
type request struct {
	method   string
	body     ordered // its params, without _meta
	meta     ordered
	progress func(json.RawMessage)      // gets the params of each progress notification; may be nil
	sent     func()                     // called when it is written; may be nil
	log      func(json.RawMessage) bool // gets those of log messages, reports whether the client wants them; may be nil
	answered *atomic.Bool               // set with log: the answer is there

	headers map[string]string // Mcp-Param-… of the newer era over HTTP

	caller string            // whose call it is, "" for our own
	client policy.ClientFunc // reaches the caller's client; may be nil
	rounds bool              // the client takes questions in results
	task   string            // the server's id of the task that it waits for
}

// params returns the request's params. Progress is asked for under token.
func (r *request) params(token string) json.RawMessage {
	meta := r.meta
	if r.progress != nil {
		meta = slices.Clone(meta)
		meta.set("progressToken", json.RawMessage(token))
	}
	body := r.body
	if len(meta) > 0 {
		body = slices.Clone(body)
		body.set("_meta", meta.bytes())
	}
	return body.bytes()
}

// do is Call for a request in parts.
func (c *Conn) do(ctx context.Context, r *request) (json.RawMessage, error) {
	id, ch, err := c.register(r.progress)
	if err != nil {
		return nil, err
	}
	if r.log != nil {
		c.mu.Lock()
		c.logs[id] = r
		c.mu.Unlock()
	}
	return c.await(ctx, id, ch, r.method, r.params(id), r.sent)
}

// CallTool is Call for tools/call, with progress: while the call runs,
// progress gets the params of each progress notification for it.
func (c *Conn) CallTool(ctx context.Context, name string, args json.RawMessage, progress func(json.RawMessage)) (json.RawMessage, error) {
	id, ch, err := c.register(progress)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	params := object{"name": quote(name), "arguments": args}
	if progress != nil {
		params["_meta"] = object{"progressToken": json.RawMessage(id)}.bytes()
	}
	return c.await(ctx, id, ch, "tools/call", params.bytes(), nil)
}

func (c *Conn) register(progress func(json.RawMessage)) (string, chan response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return "", nil, fmt.Errorf("%w: %w: %w", ErrClosed, errNotSent, c.err)
	}
	c.last++
	id := strconv.FormatInt(c.last, 10)
	ch := make(chan response, 1)
	c.waiting[id] = &waiter{answer: ch}
	if progress != nil {
		c.progress[id] = progress
	}
	return id, ch, nil
}

func (c *Conn) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
	delete(c.progress, id)
	c.endLog(id)
}

// endLog says of a request that its answer is there: log messages behind it
// are not of its time. c.mu is held.
func (c *Conn) endLog(id string) {
	if r := c.logs[id]; r != nil {
		r.answered.Store(true)
		delete(c.logs, id)
	}
}

func (c *Conn) await(ctx context.Context, id string, ch chan response, method string, params json.RawMessage, written func()) (json.RawMessage, error) {
	defer c.forget(id)
	cancel := func() {
		params, err := json.Marshal(map[string]any{"requestId": json.RawMessage(id), "reason": context.Cause(ctx).Error()})
		if err == nil {
			c.post(envelope{Method: "notifications/cancelled", Params: params})
		}
	}
	sent := c.post(envelope{ID: json.RawMessage(id), Method: method, Params: params})
	if sent != nil {
		relay.Leave(ctx)
		select {
		case err := <-sent:
			if err != nil {
				return nil, fmt.Errorf("%w: writing %s: %w", ErrClosed, method, err)
			}
		case r := <-ch:
			if errors.Is(r.err, ErrClosed) {
				select { // what became of the request decides whether it may be repeated
				case err := <-sent:
					if errors.Is(err, errNotSent) {
						return nil, fmt.Errorf("%w: writing %s: %w", ErrClosed, method, err)
					}
				case <-time.After(time.Second):
				}
			}
			return r.result, r.err
		case <-ctx.Done():
			go func() { // ends when the other side has read it, or has ended
				if <-sent == nil {
					cancel()
				}
			}()
			return nil, ctx.Err()
		}
	}
	if written != nil {
		written()
	}
	if work := relay.Of(ctx); work != nil {
		c.relay(ctx, id, work)
	}
	select {
	case r := <-ch:
		if len(r.result) > maxInPassing {
			relay.Leave(ctx)
		}
		return r.result, r.err
	case <-ctx.Done():
		cancel()
		return nil, ctx.Err()
	}
}

// maxInPassing is the longest result that is seen to by the goroutine that
// has read it.
const maxInPassing = 64 << 10

// relay has work wait until there is an answer or ctx ends: the goroutine that
// finds out goes on with it.
func (c *Conn) relay(ctx context.Context, id string, work *relay.Work) {
	c.mu.Lock()
	w, open := c.waiting[id]
	if open {
		w.work = work
	}
	c.mu.Unlock()
	if !open {
		return // it is there already
	}
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		_, open := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if open {
			work.Resume()
		}
	})
	defer stop()
	work.Wait()
}

// Notify sends a notification.
func (c *Conn) Notify(method string, params any) error {
	b, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return c.notifyRaw(method, b)
}

func (c *Conn) notifyRaw(method string, params json.RawMessage) error {
	return c.send(envelope{Method: method, Params: params})
}

// send writes m, and waits as long as that takes.
func (c *Conn) send(m envelope) error {
	line, err := m.line()
	if err != nil {
		return err
	}
	if err := c.turn(); err != nil {
		return err
	}
	return c.finish(line, 0)
}

// post writes m without waiting. It returns nil when that is done, as it most
// often is: a pipe has room. Else it goes on by itself, and how it went comes
// from the channel.
func (c *Conn) post(m envelope) <-chan error {
	sent := make(chan error, 1)
	line, err := m.line()
	if err != nil {
		sent <- err
		return sent
	}
	n, mine := 0, false
	if c.now != nil {
		select {
		case c.write <- struct{}{}:
			mine = true
			if n, err = c.now(line); err == nil {
				<-c.write
				return nil
			}
		default: // somebody is writing
		}
	}
	go func() { // ends when the other side has read it, or has ended
		if !mine {
			if err := c.turn(); err != nil {
				sent <- err
				return
			}
		}
		sent <- c.finish(line, n)
	}()
	return sent
}

// turn waits until nobody else is writing.
func (c *Conn) turn() error {
	select {
	case c.write <- struct{}{}:
		return nil
	case <-c.done:
		return fmt.Errorf("%w: %w", errNotSent, ErrClosed)
	}
}

// finish writes what is left of a line of which n bytes are written, and ends
// the turn.
func (c *Conn) finish(line []byte, n int) error {
	defer func() { <-c.write }()
	more, err := c.out.Write(line[n:])
	if err != nil && n+more == 0 {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	return err
}

// line returns m as it is written.
func (m envelope) line() ([]byte, error) {
	b := make([]byte, 0, 96+len(m.Method)+len(m.Params)+len(m.Result))
	b = append(b, `{"jsonrpc":"2.0"`...)
	if len(m.ID) > 0 {
		b = append(append(b, `,"id":`...), m.ID...)
	}
	if m.Method != "" {
		b = append(append(b, `,"method":`...), quote(m.Method)...)
	}
	if len(m.Params) > 0 {
		b = appendOneLine(append(b, `,"params":`...), m.Params)
	}
	if len(m.Result) > 0 {
		b = appendOneLine(append(b, `,"result":`...), m.Result)
	}
	if m.Error != nil {
		e, err := json.Marshal(m.Error)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"error":`...), e...)
	}
	return append(b, "}\n"...), nil
}

// An object is a JSON object whose values are written as the bytes they are:
// encoding/json would escape and compact them.
type object map[string]json.RawMessage

func (o object) bytes() []byte {
	b := []byte{'{'}
	for _, k := range slices.Sorted(maps.Keys(o)) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, quote(k)...)
		b = append(b, ':')
		b = appendOneLine(b, o[k])
	}
	return append(b, '}')
}

// appendOneLine appends v, without the line ends that pretty-printed JSON may
// have between its values.
func appendOneLine(b []byte, v json.RawMessage) []byte {
	if !bytes.ContainsAny(v, "\r\n") {
		return append(b, v...)
	}
	buf := bytes.NewBuffer(b)
	if json.Compact(buf, v) != nil {
		return append(b, "null"...)
	}
	return buf.Bytes()
}

func quote(s string) json.RawMessage {
	if isPlain(s) {
		b := make([]byte, 0, len(s)+2)
		return append(append(append(b, '"'), s...), '"')
	}
	b, _ := json.Marshal(s) // a string always marshals
	return b
}

// isPlain reports whether s stands for itself in JSON.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}
