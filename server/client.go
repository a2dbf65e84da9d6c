package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/aggregator"
	"toolgate/internal/rawjson"
	"toolgate/internal/stdio"
	"toolgate/policy"
)

// A client is the far end of a connection, to which downstream servers' messages
// are sent as the bytes they came in.
type client struct {
	write writeFunc // sends what belongs to no request
	notes *outbox   // notifications for write

	mu      sync.Mutex
	last    int
	waiting map[string]chan *jsonrpc.Response
}

func newClient(write writeFunc) *client {
	return &client{write: write, notes: newOutbox(), waiting: map[string]chan *jsonrpc.Response{}}
}

// pass sends a server's notification that belongs to no request of the client.
func (c *client) pass(n aggregator.Notice) {
	c.notes.post(func() {
		// An error means that the client has gone, which others see too.
		_ = c.write(context.Background(), &jsonrpc.Request{Method: n.Method, Params: n.Params})
	})
}

// askID begins the ids of requests that we make ourselves; the SDK's are
// numbers.
const askID = "toolgate-"

// ask sends a request with write and returns the result. An error that the client
// answers with is an [*aggregator.RPCError].
func (c *client) ask(
	ctx context.Context, write writeFunc, method string, params json.RawMessage,
) (json.RawMessage, error) {
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
	if err := write(ctx, &jsonrpc.Request{ID: id, Method: method, Params: params}); err != nil {
		return nil, fmt.Errorf("asking the client: %w", err)
	}
	select {
	case r := <-answer:
		if r.Error == nil {
			return r.Result, nil
		}
		if e, ok := errors.AsType[*jsonrpc.Error](r.Error); ok {
			return nil, &aggregator.RPCError{Code: stdio.Coded(e).Code, Message: e.Message, Data: e.Data}
		}
		return nil, r.Error
	case <-ctx.Done():
		params, err := json.Marshal(map[string]string{"requestId": key, "reason": context.Cause(ctx).Error()})
		if err == nil {
			write(context.WithoutCancel(ctx),
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
