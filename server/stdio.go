package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/rawjson"
	"toolgate/internal/stdio"
)

// MaxLine is the longest message a client may send over stdio, in bytes.
const MaxLine = 48 << 20

// stdioCaller names the one client of a stdio server.
const stdioCaller = "stdio"

// ServeStdio serves one client over in and out. It returns when in has ended
// and the answers still owed are written, or with ctx; it closes neither
// stream.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ss := &stdioServer{calls: newActiveCalls(ctx), answered: func() {}}
	ss.calls.next = make(chan func())
	if s.opts.Answered != nil {
		ss.answered = sync.OnceFunc(s.opts.Answered)
	}
	transport := &stdio.Transport{In: in, Out: out, Limits: stdio.Limits{Line: MaxLine}, Handle: ss.take}
	lines, err := transport.Connect(ctx)
	if err != nil {
		return err
	}
	defer lines.Close()
	ss.lines = lines
	ss.connection = s.connect(stdioCaller, newClient(lines.Write))
	defer ss.close()
	defer ss.calls.close(errClientGone)
	err = ss.serve(ctx)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || ctx.Err() != nil {
		return nil
	}
	return err
}

// A stdioServer serves the one client of [Server.ServeStdio].
type stdioServer struct {
	*connection
	lines    mcp.Connection
	calls    *activeCalls
	answered func() // called after each answer
	opening  opening
}

// take is a [stdio.Transport]'s Handle.
func (ss *stdioServer) take(m *stdio.Request) (taken bool) {
	switch {
	case m.ID == nil:
		return m.Method == "notifications/cancelled" && ss.calls.cancelled(m.Params)
	case m.Method == "initialize":
		ss.opening.begin(m.ID)
		return false
	}
	ss.opening.wait(ss.calls.ctx)
	r, ok := ss.newRequest(m.Method, m.Params)
	if !ok {
		return false
	}
	r.write = ss.client.write
	return ss.calls.start(m.ID, r, func(res json.RawMessage, err error) {
		ss.client.notes.flush()
		if err == nil {
			err = m.Answer(res)
		} else {
			err = m.Fail(err)
		}
		ss.answered()
		if err != nil { // the client has gone, which its reader sees too
			ss.s.log.Debug("answer not written", "method", m.Method, "err", err)
		}
	})
}

// An opening is the time from initialize to its answer. A client should not send
// requests then (specification 2025-11-25, lifecycle), but one whose requests come
// from a file does.
type opening struct {
	mu   sync.Mutex
	id   any           // of initialize, as encoding/json decodes it
	done chan struct{} // nil before initialize
}

// openingTimeout limits the wait for an initialize that gets no answer, because it is
// no message to the SDK.
const openingTimeout = 5 * time.Second

func (o *opening) begin(id json.RawMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.id != nil {
		return // the SDK refuses a second one
	}
	if json.Unmarshal(id, &o.id) == nil {
		o.done = make(chan struct{})
	}
}

func (o *opening) wait(ctx context.Context) {
	o.mu.Lock()
	done := o.done
	o.mu.Unlock()
	if done == nil {
		return
	}
	timeout := time.NewTimer(openingTimeout)
	defer timeout.Stop()
	select {
	case <-done:
	case <-timeout.C:
	case <-ctx.Done():
	}
}

// answered ends the opening if it is initialize that has the answer.
func (o *opening) answered(id jsonrpc.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done == nil || o.id == nil {
		return
	}
	if initialize, err := jsonrpc.MakeID(o.id); err == nil && initialize == id {
		close(o.done)
		o.id, o.done = nil, nil
	}
}

// serve hands each message that take leaves to one of two sessions of the SDK:
// stateless requests to one, the rest to one that begins with initialize. "A
// server that supports both selects the era by the request" (specification
// 2026-07-28, versioning), so a client may probe in one and go on in the other.
// A session is made when its first request comes. serve returns when the
// connection has ended, and both sessions with it.
func (ss *stdioServer) serve(ctx context.Context) error {
	var sessions sync.WaitGroup
	open := map[bool]*sessionConn{} // by whether it is stateless
	defer func() {
		for _, c := range open {
			close(c.ended)
		}
		sessions.Wait()
	}()
	for {
		msg, err := ss.lines.Read(ctx)
		if err != nil {
			return err
		}
		if ss.client.answered(msg) {
			continue
		}
		for _, stateless := range sessionsOf(msg) {
			c := open[stateless]
			if req, ok := msg.(*jsonrpc.Request); c == nil && ok && req.IsCall() {
				c = &sessionConn{
					server: ss,
					in:     make(chan jsonrpc.Message),
					ended:  make(chan struct{}),
					closed: make(chan struct{}),
				}
				session, err := ss.srv.Connect(ctx, c, nil)
				if err != nil {
					return err
				}
				open[stateless] = c
				sessions.Go(func() { session.Wait() }) // ends when its conn has ended
			}
			if c == nil {
				continue // nobody is there whom a notification could concern
			}
			select {
			case c.in <- msg:
			case <-c.closed:
			}
		}
	}
}

// sessionsOf returns which sessions msg is for, by whether they are stateless. A
// cancellation is for both, because it names only an id.
func sessionsOf(msg jsonrpc.Message) []bool {
	req, ok := msg.(*jsonrpc.Request)
	switch {
	case !ok:
		return []bool{false}
	case req.IsCall():
		return []bool{isStateless(req.Params)}
	case req.Method == "notifications/cancelled":
		return []bool{false, true}
	}
	return []bool{false}
}

// isStateless reports whether the params of a request name a protocol version
// without sessions in their _meta.
func isStateless(params json.RawMessage) bool {
	o, _ := rawjson.Parse(params)
	meta, _ := rawjson.Parse(o.Get("_meta"))
	return meta.Text(mcp.MetaKeyProtocolVersion) >= statelessVersion
}

// A sessionConn is one session's part of a connection.
type sessionConn struct {
	server *stdioServer
	in     chan jsonrpc.Message
	ended  chan struct{} // the connection has ended

	once   sync.Once
	closed chan struct{} // the session has been closed
}

func (c *sessionConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

func (c *sessionConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case msg := <-c.in:
		return msg, nil
	case <-c.ended:
		return nil, io.EOF
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *sessionConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	resp, ok := msg.(*jsonrpc.Response)
	if !ok {
		return c.server.lines.Write(ctx, msg)
	}
	c.server.client.notes.flush()
	err := c.server.lines.Write(ctx, resp)
	c.server.opening.answered(resp.ID)
	c.server.answered()
	return err
}

func (c *sessionConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (c *sessionConn) SessionID() string { return "" }
