package server

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/rawjson"
	"toolgate/internal/stdio"
)

// A connection is a client's stdio connection or its session over HTTP, or the
// stateless requests of one caller over HTTP.
type connection struct {
	s      *Server
	caller string
	client *client     // nil for stateless requests over HTTP
	srv    *mcp.Server // answers what [connection.serves] does not name
	bridge *bridge

	pending pendingCalls // of stateless clients

	mu      sync.Mutex
	session *mcp.ServerSession // that initialize has opened
}

// connect returns a connection. It must be closed.
func (s *Server) connect(caller string, client *client) *connection {
	c := &connection{s: s, caller: caller, client: client}
	opts := &mcp.ServerOptions{
		Instructions: s.opts.Instructions,
		Logger:       s.log,
		Capabilities: &mcp.ServerCapabilities{
			Tools:        &mcp.ToolCapabilities{ListChanged: true},
			Experimental: map[string]any{sandboxStateKey: map[string]any{}},
			// The result of a handshake names those of these that are served.
			Prompts:     &mcp.PromptCapabilities{ListChanged: true},
			Resources:   &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
			Completions: &mcp.CompletionCapabilities{},
			Logging:     &mcp.LoggingCapabilities{},
		},
		InitializedHandler: func(_ context.Context, req *mcp.InitializedRequest) {
			c.bridge.initialized(req.Session.InitializeParams())
			s.sessionOpened(caller)
		},
		SubscribeHandler: func(ctx context.Context, req *mcp.SubscribeRequest) error {
			return c.bridge.listen(ctx, req)
		},
		UnsubscribeHandler: func(ctx context.Context, req *mcp.UnsubscribeRequest) error {
			return s.opts.Downstreams.Unsubscribe(context.WithoutCancel(ctx), req.Params.URI)
		},
	}
	c.srv = mcp.NewServer(s.implementation(), opts)
	c.srv.AddReceivingMiddleware(c.middleware)
	c.bridge = newBridge(c)
	return c
}

func (c *connection) close() {
	c.pending.close()
	c.bridge.close()
}

// initialized returns what the client said in initialize, nil if it has not
// opened a session.
func (c *connection) initialized() *mcp.InitializeParams {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil {
		return nil
	}
	return c.session.InitializeParams()
}

// middleware completes what the SDK answers.
func (c *connection) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if c.serves(method, false) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: method + ": invalid params"}
		}
		if p, ok := req.GetParams().(*mcp.InitializeParams); ok {
			negotiateSession(p)
		}
		switch method {
		case "server/discover":
			c.bridge.open()
			c.s.sessionOpened(c.caller)
		case "subscriptions/listen":
			c.bridge.open()
		case "notifications/roots/list_changed":
			c.s.opts.Downstreams.NotifyRootsChanged()
		}
		res, err := next(ctx, method, req)
		if err != nil {
			return nil, err
		}
		if p, ok := req.GetParams().(*mcp.SetLoggingLevelParams); ok {
			c.bridge.setLevel(string(p.Level))
		}
		switch r := res.(type) {
		case *mcp.InitializeResult:
			c.mu.Lock()
			c.session, _ = req.GetSession().(*mcp.ServerSession)
			c.mu.Unlock()
			return c.bridge.declare(r)
		case *mcp.DiscoverResult:
			c.bridge.declareStateless(r)
		}
		return res, nil
	}
}

// negotiateSession makes a session that is opened with initialize one of a
// version with sessions, whatever version the client asks for. The SDK goes by
// what was asked for, not by what it answered.
func negotiateSession(p *mcp.InitializeParams) {
	if p.ProtocolVersion >= statelessVersion {
		p.ProtocolVersion = sessionVersions[len(sessionVersions)-1]
	}
}

// activeCalls are the requests of a connection that are being answered.
type activeCalls struct {
	ctx  context.Context // that they are answered in
	stop context.CancelCauseFunc
	next chan func() // for goroutines that have answered a request; nil: they end

	mu      sync.Mutex
	closed  bool
	cancel  map[string]context.CancelCauseFunc // by [stdio.IDKey] of the request's id
	running sync.WaitGroup
}

func newActiveCalls(ctx context.Context) *activeCalls {
	a := &activeCalls{cancel: map[string]context.CancelCauseFunc{}}
	a.ctx, a.stop = context.WithCancelCause(ctx)
	return a
}

// start answers the request r with this id in a goroutine, and passes the answer to
// reply. It is false after close.
func (a *activeCalls) start(id json.RawMessage, r *request, reply func(json.RawMessage, error)) bool {
	key := stdio.IDKey(id)
	ctx, cancel := context.WithCancelCause(a.ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		cancel(nil)
		return false
	}
	a.cancel[key] = cancel
	a.run(func() { // ends with the request, which close cancels
		defer cancel(nil)
		res, err := r.answer(ctx)
		a.mu.Lock()
		delete(a.cancel, key) // the client may use it again once it is answered
		a.mu.Unlock()
		reply(res, err)
	})
	return true
}

// run runs f in a goroutine, if possible one that has answered before: its stack has
// grown, which takes a new one a tenth of the time of a short call.
func (a *activeCalls) run(f func()) {
	select {
	case a.next <- f:
		return
	default:
	}
	a.running.Go(func() {
		for f != nil {
			f()
			f = a.await()
		}
	})
}

// await returns what is to be run next, nil at the end.
func (a *activeCalls) await() func() {
	if a.next == nil {
		return nil
	}
	select {
	case f := <-a.next:
		return f
	case <-a.ctx.Done():
		return nil
	}
}

// cancelled handles the params of notifications/cancelled. It reports whether
// they are about one of these requests.
func (a *activeCalls) cancelled(params json.RawMessage) bool {
	o, _ := rawjson.Parse(params)
	key := stdio.IDKey(o.Get("requestId"))
	a.mu.Lock()
	cancel, found := a.cancel[key]
	a.mu.Unlock()
	if found {
		cancel(context.Canceled)
	}
	return found
}

// close cancels the requests and waits until they have ended.
func (a *activeCalls) close(why error) {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.stop(why)
	a.running.Wait()
}

var errClientGone = errors.New("the client has gone")
