package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/rawjson"
	"toolgate/internal/stdio"
)

// A direct is the fast path for the calls of one stdio client. It bypasses the
// SDK, which would decode and encode each call and its result again: here the
// parts of a call are located once, and its result is written as the bytes it
// came in. Anything unusual is left to the SDK.
type direct struct {
	s      *Server
	caller string
	client *client

	life context.Context
	stop context.CancelCauseFunc

	mu      sync.Mutex
	closed  bool
	cancel  map[string]context.CancelCauseFunc // of the calls under way, by id
	running sync.WaitGroup
}

func newDirect(ctx context.Context, s *Server, caller string, c *client) *direct {
	d := &direct{s: s, caller: caller, client: c, cancel: map[string]context.CancelCauseFunc{}}
	d.life, d.stop = context.WithCancelCause(ctx)
	return d
}

// close ends the calls under way and waits for them.
func (d *direct) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.stop(errors.New("the client has gone"))
	d.running.Wait()
}

// take is a [stdio.Transport]'s Direct.
func (d *direct) take(r *stdio.Request) (taken bool) {
	switch {
	case r.Method == "tools/call" && r.ID != nil:
		return d.call(r)
	case r.Method == "notifications/cancelled" && r.ID == nil:
		return d.cancelled(r.Params)
	}
	return false
}

// call makes a call in a goroutine of its own. It is not taken when the SDK
// should see it.
func (d *direct) call(r *stdio.Request) (taken bool) {
	req, ok := d.request(r.Params)
	if !ok {
		return false
	}
	ctx, cancel := context.WithCancelCause(d.life)
	id := string(r.ID)
	if !d.begin(id, cancel) { // before the next message is read, which may cancel it
		cancel(nil)
		return false
	}
	go func() { // ends with the call, which close cancels
		defer d.running.Done()
		res, err := d.s.callTool(ctx, d.caller, d.client, req)
		d.mu.Lock()
		delete(d.cancel, id) // it may be used again once it is answered
		d.mu.Unlock()
		cancel(nil)
		d.client.notes.flush()
		d.answer(r, req, res, err)
	}()
	return true
}

// begin notes a call, unless it comes too late.
func (d *direct) begin(id string, cancel context.CancelCauseFunc) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.cancel[id] = cancel
	d.running.Add(1)
	return true
}

// callParts are the params of a tools/call as the bytes they came in, nil where
// there are none.
type callParts struct{ name, arguments, meta, state, answers json.RawMessage }

// part returns the part with that key and the first byte that its value must
// have, nil for a key that only the SDK knows.
func (p *callParts) part(key string) (part *json.RawMessage, kind byte) {
	switch key {
	case "name":
		return &p.name, '"'
	case "arguments":
		return &p.arguments, '{'
	case "_meta":
		return &p.meta, '{'
	case "requestState":
		return &p.state, '"'
	case "inputResponses":
		return &p.answers, '{'
	}
	return nil, 0
}

// callPartsOf reads params. ok is false where they are not of the usual kinds.
func callPartsOf(params json.RawMessage) (p callParts, ok bool) {
	var room [8]rawjson.Member
	members, err := rawjson.Members(params, rawjson.MaxDepth, room[:0])
	if err != nil {
		return p, false
	}
	for _, m := range members {
		part, kind := p.part(string(m.Key))
		if part == nil || *part != nil || m.Value[0] != kind {
			return p, false
		}
		*part = m.Value
	}
	return p, true
}

// request returns the request with these params. ok is false for those that the
// SDK should see: of a session that it has not opened yet, or with unusual
// parts.
func (d *direct) request(params json.RawMessage) (req *mcp.CallToolRequest, ok bool) {
	parts, ok := callPartsOf(params)
	if !ok {
		return nil, false
	}
	p := &mcp.CallToolParamsRaw{
		Name:         rawjson.Text(parts.name),
		Arguments:    parts.arguments,
		RequestState: rawjson.Text(parts.state),
	}
	if p.Name == "" || parts.answers != nil && json.Unmarshal(parts.answers, &p.InputResponses) != nil {
		return nil, false
	}
	req = &mcp.CallToolRequest{Params: p}
	if parts.meta != nil {
		if json.Unmarshal(parts.meta, &p.Meta) != nil {
			return nil, false
		}
		req.Extra = &mcp.RequestExtra{Header: http.Header{
			rawMeta:    {string(parts.meta)},
			rawAnswers: {string(parts.answers)},
		}}
	}
	modern := false
	if v, has := p.Meta[mcp.MetaKeyProtocolVersion]; has {
		if modern = v == statelessEra; !modern || !knowsItself(req) {
			return nil, false
		}
	}
	req.Session = d.client.session(modern)
	return req, req.Session != nil
}

// knowsItself reports whether a request of the stateless era says of its
// client what it must.
func knowsItself(req *mcp.CallToolRequest) bool {
	_, capabilities := req.Params.Meta[mcp.MetaKeyClientCapabilities].(map[string]any)
	_, named := req.Params.Meta[mcp.MetaKeyClientInfo]
	return capabilities && req.ClientCapabilities() != nil && (!named || req.ClientInfo() != nil)
}

// answer writes what a call gave, as the SDK would but for the bytes.
func (d *direct) answer(r *stdio.Request, req *mcp.CallToolRequest, res mcp.Result, err error) {
	raw, ok := res.(*rawResult)
	if err == nil && !ok {
		err = errors.New("bug: a call gave no result")
	}
	if err == nil {
		if raw.modern {
			raw.Meta = mcp.Meta{mcp.MetaKeyServerInfo: d.s.implementation()}
		}
		var b json.RawMessage
		if b, err = raw.bytes(); err == nil {
			err = r.Answer(b)
		}
	} else {
		err = r.Fail(err)
	}
	if err != nil { // the client has gone, which its reader sees too
		d.s.log.Debug("answer not written", "tool", req.Params.Name, "err", err)
	}
}

// cancelled cancels a call that is under way here.
func (d *direct) cancelled(params json.RawMessage) bool {
	var p struct {
		ID     json.RawMessage `json:"requestId"`
		Reason string          `json:"reason"`
	}
	if rawjson.Unmarshal(params, &p) != nil {
		return false
	}
	d.mu.Lock()
	cancel, ours := d.cancel[string(p.ID)]
	d.mu.Unlock()
	if ours {
		cancel(context.Canceled)
	}
	return ours
}
