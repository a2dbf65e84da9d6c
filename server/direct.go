package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/rawjson"
	"toolgate/internal/stdio"
)

// A direct leads the calls of one stdio client to the gate and the results
// back past the SDK, which would decode and encode both again: a call is read
// once, its parts are located once, and its result is written as the bytes it
// came in. Whatever is in any way odd is left to the SDK.
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

// maxDepth is how deep the params of a call may nest; the reader has checked
// that they do not nest too deep.
const maxDepth = 10_000

// request makes a request of a call's params. ok is false for those that the
// SDK should see: of a session that it has not opened yet, or with parts of
// other kinds than the usual.
func (d *direct) request(params json.RawMessage) (req *mcp.CallToolRequest, ok bool) {
	var room [8]rawjson.Member
	members, err := rawjson.Members(params, maxDepth, room[:0])
	if err != nil {
		return nil, false
	}
	p := &mcp.CallToolParamsRaw{}
	var meta, answers json.RawMessage
	for _, m := range members {
		switch string(m.Key) {
		case "name":
			if p.Name != "" || m.Value[0] != '"' {
				return nil, false
			}
			if p.Name = string(m.Value[1 : len(m.Value)-1]); strings.IndexByte(p.Name, '\\') >= 0 && json.Unmarshal(m.Value, &p.Name) != nil {
				return nil, false
			}
		case "arguments":
			if p.Arguments != nil || m.Value[0] != '{' {
				return nil, false
			}
			p.Arguments = m.Value
		case "_meta":
			if meta != nil || m.Value[0] != '{' {
				return nil, false
			}
			meta = m.Value
		case "requestState":
			if p.RequestState != "" || m.Value[0] != '"' || json.Unmarshal(m.Value, &p.RequestState) != nil {
				return nil, false
			}
		case "inputResponses":
			if answers != nil || m.Value[0] != '{' || json.Unmarshal(m.Value, &p.InputResponses) != nil {
				return nil, false
			}
			answers = m.Value
		default: // a task, or what nobody knows
			return nil, false
		}
	}
	if p.Name == "" {
		return nil, false
	}
	req = &mcp.CallToolRequest{Params: p}
	if meta != nil {
		if json.Unmarshal(meta, &p.Meta) != nil {
			return nil, false
		}
		req.Extra = &mcp.RequestExtra{Header: http.Header{rawMeta: {string(meta)}, rawAnswers: {string(answers)}}}
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
