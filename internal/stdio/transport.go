package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/rawjson"
)

// A Transport is an [mcp.Transport] over two streams. It differs from the
// SDK's in how it handles bad input and the end of input:
//
//   - a line that is not a message gets an error of its own, with the request's
//     id if it is known, and the next line is read. So does a line in which an
//     object has a name twice, because the SDK, a hook, the audit log and a tool
//     could each read a different value;
//   - the end of In is delayed until every request has its answer, for at most
//     Drain. Requests of the server to the client fail at once, because they
//     cannot be answered any more. When Out is broken, there is no delay;
//   - a request that the client cancels gets no answer, and every error has a code.
//
// "Servers SHOULD exit promptly when their standard input is closed"
// (specification, stdio): Drain is the limit of that promptness.
type Transport struct {
	In     io.Reader
	Out    io.Writer
	Limits Limits

	// Drain is how long pending requests may continue after In has ended; zero
	// means one minute. Calls still running then are cancelled.
	Drain time.Duration

	// Handle, if set, is shown each request and notification of the client
	// before the SDK is, in the order that they come. It reports whether it
	// takes the message, in which case the SDK never sees it. Nothing else is
	// read until it returns, so it must not block.
	Handle func(*Request) (taken bool)
}

// Connect returns the connection. It is called once. Nothing is read before the
// connection's first Read.
func (t *Transport) Connect(context.Context) (mcp.Connection, error) {
	c := &conn{
		t:       t,
		drain:   t.Drain,
		lines:   make(chan lineOrErr),
		closed:  make(chan struct{}),
		idle:    make(chan struct{}, 1),
		owed:    map[string]int{},
		dropped: map[string]bool{},
		pending: map[string]jsonrpc.ID{},
	}
	if c.drain == 0 {
		c.drain = time.Minute
	}
	limits := t.Limits
	limits.Unique = true
	var in io.Reader
	in, c.done = pollable(t.In)
	c.start = sync.OnceFunc(func() {
		go c.readLoop(NewReader(in, limits)) // ends when In ends or fails, or with Close at the next line
	})
	return c, nil
}

const cancelled = "notifications/cancelled"

type lineOrErr struct {
	msg jsonrpc.Message
	err error
}

// A conn is one connection of a [Transport].
type conn struct {
	t      *Transport
	drain  time.Duration
	start  func() // starts the reader, once
	lines  chan lineOrErr
	closed chan struct{}
	once   sync.Once
	done   func()        // closes what Connect has opened
	idle   chan struct{} // signalled when nothing is owed any more

	write sync.Mutex // held while a line is written

	mu      sync.Mutex
	owed    map[string]int        // requests read and not answered, by id
	dropped map[string]bool       // of those, the ones that the client has cancelled
	writing int                   // answers on their way, no longer owed
	pending map[string]jsonrpc.ID // requests written and not answered, by id
	ended   bool                  // In has ended
	broken  bool                  // Out cannot be written any more
}

func (c *conn) SessionID() string { return "" }

func (c *conn) readLoop(r *Reader) {
	for {
		msg, err := c.readMessage(r)
		if !c.pass(msg, err) {
			return
		}
	}
}

// pass hands a message to Read, unless it is nil, and reports whether to read on.
func (c *conn) pass(msg jsonrpc.Message, err error) bool {
	send := func(l lineOrErr) bool {
		select {
		case c.lines <- l:
			return true
		case <-c.closed:
			return false
		}
	}
	if bad, ok := errors.AsType[*LineError](err); ok {
		c.refuse(bad)
		return true
	}
	switch {
	case errors.Is(err, io.EOF):
		c.drainAndEnd(send)
		return false
	case err != nil:
		send(lineOrErr{err: err})
		return false
	}
	return msg == nil || send(lineOrErr{msg: msg})
}

// readMessage reads one message and notes the answer owed for it. The message
// is nil when [Transport.Handle] has taken it.
func (c *conn) readMessage(r *Reader) (jsonrpc.Message, error) {
	line, err := r.Next()
	if err != nil {
		return nil, err
	}
	if c.t.Handle != nil {
		if taken, err := c.offer(r); taken || err != nil {
			return nil, err
		}
	}
	return c.decode(line)
}

// decode returns the message in line and notes that a request is owed an answer.
func (c *conn) decode(line []byte) (jsonrpc.Message, error) {
	msg, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		var s idScanner
		s.scan(line)
		return nil, &LineError{
			Code: jsonrpc.CodeInvalidRequest,
			Msg:  "not a JSON-RPC 2.0 message: " + err.Error(),
			ID:   s.id(),
		}
	}
	switch m := msg.(type) {
	case *jsonrpc.Request:
		if !m.IsCall() {
			if m.Method == cancelled {
				c.cancel(m.Params)
			}
			break
		}
		if err := c.owe(idKey(m.ID)); err != nil {
			return nil, err
		}
	case *jsonrpc.Response:
		c.mu.Lock()
		defer c.mu.Unlock()
		key := idKey(m.ID)
		if _, ok := c.pending[key]; !ok {
			return nil, errStray
		}
		delete(c.pending, key)
	}
	return msg, nil
}

// owe notes a request that must be answered.
func (c *conn) owe(key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owed[key] > 0 {
		// "The request ID MUST NOT have been previously used by the
		// requestor within the same session" (specification, basic).
		return &LineError{Code: jsonrpc.CodeInvalidRequest, Msg: "a request with this id is still being answered"}
	}
	c.owed[key]++
	return nil
}

// errStray is an answer to a request that was never made or that was given up. It
// is dropped.
var errStray = &LineError{}

// refuse answers a line that is not a usable message.
func (c *conn) refuse(bad *LineError) {
	if bad == errStray {
		return
	}
	id := bad.ID
	if id == nil {
		id = json.RawMessage("null")
	}
	line, err := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   jsonrpc.Error   `json:"error"`
	}{"2.0", id, jsonrpc.Error{Code: bad.Code, Message: bad.Msg}})
	if err == nil {
		c.writeLine(line)
	}
}

// drainAndEnd runs when In has ended: it fails the server's requests, which cannot
// be answered any more, waits for the answers owed, and then reports the end.
func (c *conn) drainAndEnd(send func(lineOrErr) bool) {
	timeout := time.NewTimer(c.drain)
	defer timeout.Stop()
	gone := watchBroken(c.t.Out, c.closed)
	for {
		for _, id := range c.unanswerable() {
			if !send(lineOrErr{msg: goneResponse(id)}) {
				return
			}
		}
		if c.drained() {
			c.end(send)
			return
		}
		select {
		case <-c.idle:
		case <-timeout.C:
			c.end(send)
			return
		case <-gone:
			c.end(send)
			return
		case <-c.closed:
			return
		}
	}
}

// unanswerable removes and returns the server's requests that have no answer.
func (c *conn) unanswerable() []jsonrpc.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	ids := slices.Collect(maps.Values(c.pending))
	clear(c.pending)
	return ids
}

func (c *conn) end(send func(lineOrErr) bool) { send(lineOrErr{err: io.EOF}) }

// drained reports whether no answer is owed, or Out is broken.
func (c *conn) drained() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.owed)+c.writing == 0 || c.broken
}

func goneResponse(id jsonrpc.ID) *jsonrpc.Response {
	return &jsonrpc.Response{
		ID:    id,
		Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client has closed its end"},
	}
}

// Read returns the next message. It implements [mcp.Connection].
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	c.start()
	select {
	case l := <-c.lines:
		return l.msg, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.closed:
		return nil, io.EOF
	}
}

// Write writes one message. It implements [mcp.Connection].
func (c *conn) Write(_ context.Context, msg jsonrpc.Message) error {
	if resp, ok := msg.(*jsonrpc.Response); ok && resp.Error == nil && len(resp.Result) > 0 {
		id, err := json.Marshal(resp.ID.Raw())
		if err != nil {
			return err
		}
		return c.answer(id, "result", resp.Result)
	}
	resp, isAnswer := msg.(*jsonrpc.Response)
	if isAnswer {
		if !c.answering(idKey(resp.ID)) {
			return nil
		}
		defer c.answered()
		if resp.Error != nil {
			msg = &jsonrpc.Response{ID: resp.ID, Error: Coded(resp.Error)}
		}
	}
	line, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		c.mu.Lock()
		c.pending[idKey(req.ID)] = req.ID
		ended := c.ended
		c.mu.Unlock()
		if ended {
			// An error here would end the session with answers still owed.
			c.signalIdle()
			return nil
		}
	}
	return c.writeLine(line)
}

// Coded returns err, which is not nil, as the error of an answer. One without a code is of
// the SDK, about a request that it refuses.
func Coded(err error) *jsonrpc.Error {
	rpc, ok := err.(*jsonrpc.Error)
	if ok && rpc.Code != 0 {
		return rpc
	}
	coded := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
	if errors.As(err, &rpc) && rpc.Code != 0 {
		coded.Code = rpc.Code
	}
	return coded
}

// cancel notes that the client has cancelled the request that the params of a
// notifications/cancelled name: "Receivers of a cancellation notification SHOULD … Not
// send a response for the cancelled request" (specification, cancellation).
func (c *conn) cancel(params json.RawMessage) {
	o, _ := rawjson.Parse(params)
	key := IDKey(o.Get("requestId"))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owed[key] > 0 {
		c.dropped[key] = true
	}
}

// answering notes that the answer to a request is about to be written, and reports
// whether to write it. The id is free from now on: a client may use it again as soon as
// it has read the answer, which can be before we know that it is written.
func (c *conn) answering(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.owed, key)
	if c.dropped[key] {
		delete(c.dropped, key)
		if c.writing == 0 && len(c.owed) == 0 {
			c.signalIdle()
		}
		return false
	}
	c.writing++
	return true
}

func (c *conn) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing--; c.writing == 0 && len(c.owed) == 0 {
		c.signalIdle()
	}
}

func (c *conn) signalIdle() {
	select {
	case c.idle <- struct{}{}:
	default:
	}
}

func (c *conn) writeLine(line []byte) error {
	return c.writeParts(append(line, '\n'))
}

// writeParts writes the parts of one line with nothing between them.
func (c *conn) writeParts(parts ...[]byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	for _, p := range parts {
		if _, err := c.t.Out.Write(p); err != nil {
			c.mu.Lock()
			c.broken = true
			c.signalIdle()
			c.mu.Unlock()
			return err
		}
	}
	return nil
}

// Close ends the connection. It does not close the streams, which belong to the
// owner of the Transport. It implements [mcp.Connection].
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.done()
	})
	return nil
}

func idKey(id jsonrpc.ID) string {
	key, _ := json.Marshal(id.Raw())
	return string(key)
}
