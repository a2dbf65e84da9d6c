package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/aggregator"
	"toolgate/internal/rawjson"
	"toolgate/policy"
)

// A client is the far end of a connection, to which requests of downstream
// servers are passed on as the bytes they came in.
type client struct {
	conn    mcp.Connection
	carries bool // what is written to conn passes by uncarry

	notes *outbox // notifications that belong to no request

	first         sync.Once
	answeredFirst func() // called once with the first answer; may be nil

	mu       sync.Mutex
	last     int
	waiting  map[string]chan *jsonrpc.Response
	sessions map[bool]*mcp.ServerSession // that are open, by whether their era is the newer
	kept     map[string]json.RawMessage  // results on their way through the SDK
}

// carry has the bytes of a result go past the SDK, which writes them anew.
func (c *client) carry(res mcp.Result) mcp.Result {
	if r, ok := res.(*rawResult); ok && c != nil && c.carries {
		r.keep = c.keep
	}
	return res
}

// keep takes a result's bytes, and returns the token for which uncarry gives
// them back.
func (c *client) keep(b json.RawMessage) json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	token := `{"toolgate/kept":` + strconv.Itoa(c.last) + `}`
	if c.kept == nil {
		c.kept = map[string]json.RawMessage{}
	}
	c.kept[token] = b
	return json.RawMessage(token)
}

// uncarry puts the bytes of a result back in place of their token.
func (c *client) uncarry(msg jsonrpc.Message) {
	r, ok := msg.(*jsonrpc.Response)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.kept[string(r.Result)]; ok {
		delete(c.kept, string(r.Result))
		r.Result = b
	}
}

// opened says that the client has opened a session.
func (c *client) opened(modern bool, ss *mcp.ServerSession) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil {
		c.sessions = map[bool]*mcp.ServerSession{}
	}
	c.sessions[modern] = ss
}

// session returns the session of the era, nil when none is open.
func (c *client) session(modern bool) *mcp.ServerSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[modern]
}

func newClient(conn mcp.Connection) *client {
	return &client{conn: conn, notes: newOutbox(), waiting: map[string]chan *jsonrpc.Response{}}
}

// notify sends a notification, whose params are an object.
func (c *client) notify(ctx context.Context, method string, params json.RawMessage) error {
	return c.conn.Write(ctx, &jsonrpc.Request{Method: method, Params: params})
}

// pass sends a server's notification that belongs to no request of the client.
func (c *client) pass(n aggregator.Notice) {
	c.notes.post(func() {
		// An error means that the client has gone, which others see too.
		_ = c.notify(context.Background(), n.Method, n.Params)
	})
}

// askID begins the ids of requests that we make ourselves; the SDK's are
// numbers.
const askID = "toolgate-"

// ask sends a request and returns the result's bytes. An error that the client
// answers with is an [*aggregator.RPCError].
func (c *client) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	c.mu.Lock()
	c.last++
	key := askID + strconv.Itoa(c.last)
	answer := make(chan *jsonrpc.Response, 1)
	c.waiting[key] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, key)
		c.mu.Unlock()
	}()
	id, err := jsonrpc.MakeID(key)
	if err != nil {
		return nil, err
	}
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	if err := c.conn.Write(ctx, &jsonrpc.Request{ID: id, Method: method, Params: params}); err != nil {
		return nil, fmt.Errorf("asking the client: %w", err)
	}
	select {
	case r := <-answer:
		if r.Error == nil {
			return r.Result, nil
		}
		if e, ok := errors.AsType[*jsonrpc.Error](r.Error); ok {
			return nil, &aggregator.RPCError{Code: e.Code, Message: e.Message, Data: e.Data}
		}
		return nil, r.Error
	case <-ctx.Done():
		params, err := json.Marshal(map[string]string{"requestId": key, "reason": context.Cause(ctx).Error()})
		if err == nil {
			c.conn.Write(context.WithoutCancel(ctx),
				&jsonrpc.Request{Method: "notifications/cancelled", Params: params})
		}
		return nil, ctx.Err()
	}
}

// answered takes msg when it is the answer to a request of ours.
func (c *client) answered(msg jsonrpc.Message) bool {
	r, ok := msg.(*jsonrpc.Response)
	if !ok {
		return false
	}
	key, ok := r.ID.Raw().(string)
	if !ok || !strings.HasPrefix(key, askID) {
		return false
	}
	c.mu.Lock()
	answer := c.waiting[key]
	delete(c.waiting, key)
	c.mu.Unlock()
	if answer != nil {
		answer <- r
	}
	return true
}

// supports returns nil when a client with these capabilities answers method.
func supports(caps *mcp.ClientCapabilities, method string, params json.RawMessage) error {
	ok := false
	if caps != nil {
		switch method {
		case "roots/list":
			ok = caps.RootsV2 != nil
		case "sampling/createMessage":
			ok = caps.Sampling != nil
		case "elicitation/create":
			var p struct {
				Mode string `json:"mode"`
			}
			e := caps.Elicitation
			isURL := rawjson.Unmarshal(params, &p) == nil && p.Mode == "url"
			// Neither form nor url declared means form, as before URL mode existed.
			ok = e != nil && (isURL && e.URL != nil || !isURL && (e.Form != nil || e.URL == nil))
		}
	}
	if !ok {
		return fmt.Errorf("%w: %s", policy.ErrNoClient, method)
	}
	return nil
}

// askLegacy returns what puts a downstream server's requests to the client of
// req, in the initialize era.
func (s *Server) askLegacy(c *client, req interface {
	ClientCapabilities() *mcp.ClientCapabilities
}) policy.ClientFunc {
	return func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		if c == nil {
			return nil, policy.ErrNoClient
		}
		if err := supports(req.ClientCapabilities(), method, params); err != nil {
			return nil, err
		}
		if over, ok := c.conn.(*httpSession); ok {
			if r, ok := req.(interface{ GetExtra() *mcp.RequestExtra }); ok {
				ctx = over.withStream(ctx, r.GetExtra())
			}
		}
		ctx, cancel := context.WithTimeout(ctx, s.opts.AskTimeout)
		defer cancel()
		return c.ask(ctx, method, params)
	}
}

// Parts of a tools/call that the SDK decodes and we pass on as they came are
// carried beside the message, where HTTP would have its headers.
const (
	rawMeta    = "Toolgate-Meta"
	rawAnswers = "Toolgate-Answers"
	rawTask    = "Toolgate-Task"
	rawParams  = "Toolgate-Params" // all of them, of forwarded methods
)

// keepRaw notes the raw parts of msg that a downstream server is to get.
func keepRaw(msg jsonrpc.Message) {
	req, ok := msg.(*jsonrpc.Request)
	if ok && forwarded[req.Method] && req.Extra == nil {
		req.Extra = &mcp.RequestExtra{Header: http.Header{rawParams: {string(req.Params)}}}
		return
	}
	if !ok || req.Extra != nil || !req.IsCall() || !mayName(req.Params, "_meta", "inputResponses", "task") {
		return
	}
	var p struct {
		Meta    json.RawMessage `json:"_meta"`
		Answers json.RawMessage `json:"inputResponses"`
		Task    json.RawMessage `json:"task"`
	}
	if rawjson.Unmarshal(req.Params, &p) != nil {
		return
	}
	h := http.Header{}
	if len(p.Meta) > 0 {
		h.Set(rawMeta, string(p.Meta))
	}
	if len(p.Answers) > 0 {
		h.Set(rawAnswers, string(p.Answers))
	}
	if len(p.Task) > 0 && p.Task[0] == '{' {
		h.Set(rawTask, string(p.Task))
	}
	req.Extra = &mcp.RequestExtra{Header: h}
}

// mayName reports whether the names of params may hold one of these. It errs on
// the side of yes where something is escaped.
func mayName(params json.RawMessage, names ...string) bool {
	return bytes.IndexByte(params, '\\') >= 0 || slices.ContainsFunc(names, func(name string) bool {
		return bytes.Contains(params, []byte(`"`+name+`"`))
	})
}

// rawPart returns what keepRaw noted.
func rawPart(extra *mcp.RequestExtra, name string) json.RawMessage {
	if extra == nil {
		return nil
	}
	return json.RawMessage(extra.Header.Get(name))
}
