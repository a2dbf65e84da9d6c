package server

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/rawjson"
)

// serveBothEras reads conn and hands each message to one of two sessions of
// srv: requests that name a protocol version in their _meta to a stateless
// one, the rest to one that begins with initialize. "A server that supports
// both selects the era by the request" (specification 2026-07-28,
// versioning), so a client may probe in one and go on in the other. A session
// is made when its first message comes. It returns when conn has ended and
// both sessions with it.
func serveBothEras(ctx context.Context, srv *mcp.Server, conn mcp.Connection, client *client) error {
	var sessions sync.WaitGroup
	open := map[bool]*eraConn{}
	route := func(modern bool, msg jsonrpc.Message) error {
		c, ok := open[modern]
		if !ok {
			c = &eraConn{
				inner:  conn,
				client: client,
				in:     make(chan jsonrpc.Message),
				ended:  make(chan struct{}),
				closed: make(chan struct{}),
			}
			ss, err := srv.Connect(ctx, c, nil)
			if err != nil {
				return err
			}
			open[modern] = c
			sessions.Go(func() { ss.Wait() }) // ends when its conn has ended
		}
		select {
		case c.in <- msg:
		case <-c.closed:
		}
		return nil
	}
	err := func() error {
		for {
			msg, err := conn.Read(ctx)
			if err != nil {
				return err
			}
			if client.answered(msg) {
				continue
			}
			keepRaw(msg)
			for _, modern := range erasOf(msg) {
				if _, ok := open[modern]; !ok && !startsSession(msg) {
					continue // nobody is there whom a notification could concern
				}
				if err := route(modern, msg); err != nil {
					return err
				}
			}
		}
	}()
	for _, c := range open {
		close(c.ended)
	}
	sessions.Wait()
	return err
}

// erasOf returns which sessions msg is for. Answers go to the session that
// can ask, and a cancellation to both, since it names only an id.
func erasOf(msg jsonrpc.Message) []bool {
	const legacy, modern = false, true
	req, ok := msg.(*jsonrpc.Request)
	switch {
	case !ok:
		return []bool{legacy}
	case req.IsCall() && isStateless(req):
		return []bool{modern}
	case req.Method == "notifications/cancelled":
		return []bool{legacy, modern}
	}
	return []bool{legacy}
}

// isStateless reports whether req names a stateless revision in its _meta.
func isStateless(req *jsonrpc.Request) bool {
	if !mayName(req.Params, mcp.MetaKeyProtocolVersion) {
		return false // by far the most, without decoding
	}
	var p struct {
		Meta struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	}
	return rawjson.Unmarshal(req.Params, &p) == nil && p.Meta.Version >= statelessEra
}

func startsSession(msg jsonrpc.Message) bool {
	req, ok := msg.(*jsonrpc.Request)
	return ok && req.IsCall()
}

// An eraConn is one session's part of a connection.
type eraConn struct {
	inner  mcp.Connection
	client *client
	in     chan jsonrpc.Message
	ended  chan struct{} // the connection has ended

	once   sync.Once
	closed chan struct{} // the session has been closed
}

func (c *eraConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

func (c *eraConn) Read(ctx context.Context) (jsonrpc.Message, error) {
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

func (c *eraConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	c.client.uncarry(msg)
	_, answer := msg.(*jsonrpc.Response)
	if answer {
		c.client.notes.flush()
	}
	err := c.inner.Write(ctx, msg)
	if answer && c.client.answeredFirst != nil {
		c.client.first.Do(c.client.answeredFirst)
	}
	return err
}

func (c *eraConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (c *eraConn) SessionID() string { return "" }
