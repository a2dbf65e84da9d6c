package aggregator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"toolgate/aggregator/schema"
	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
	"toolgate/policy"
)

// Describe returns the action of a call of t, for the policy.
func (s *Downstreams) Describe(t Tool) policy.Action {
	down := &policy.Downstream{Approval: policy.ApprovePrompt, Claims: t.Claims}
	a := policy.Action{Server: t.Server, Tool: t.Raw, Downstream: down}
	d, err := s.server(t.Server)
	if err != nil {
		return a
	}
	down.Trusted, down.Profile, down.Digest = d.spec.Trusted, d.spec.Profile, d.profile
	down.Disabled = d.spec.Published != nil && !d.spec.Published(t.Raw)
	if d.spec.Approval != nil {
		down.Approval = d.spec.Approval(t.Raw)
	}
	a.ReadOnly = d.spec.Trusted && isTrue(t.Claims.ReadOnly)
	return a
}

// Run runs the call of a downstream tool, or another request that the policy
// allowed. It is a [gate.RunFunc]. A JSON-RPC error of the server is returned
// as an [*RPCError].
func (s *Downstreams) Run(ctx context.Context, c gate.Call, _ policy.Profile) (gate.Outcome, error) {
	d, err := s.server(c.Action.Server)
	if err != nil {
		return gate.Outcome{}, err
	}
	switch {
	case c.Action.Request:
		return s.runRequest(ctx, c, d)
	case c.Action.Tool == ReadResource:
		return s.runRead(ctx, c, d)
	}
	return s.runTool(ctx, c, d)
}

func (s *Downstreams) runTool(ctx context.Context, c gate.Call, d *Downstream) (gate.Outcome, error) {
	t := s.view().find(d.spec.Name, c.Action.Tool)
	if t == nil {
		why := s.view().why(d.spec.Name, c.Action.Tool)
		return gate.Outcome{}, fmt.Errorf("the server %s does not offer this tool%s", d.spec.Name, why)
	}
	r, err := d.toolRequest(c, t)
	if err != nil {
		return gate.Outcome{}, err
	}
	awaited, err := d.addTask(r, t)
	if err != nil {
		return gate.Outcome{}, err
	}
	out := gate.Outcome{}
	out.Result, err = d.callTool(ctx, t, r, awaited)
	out.Level = d.currentSession().level()
	if err != nil {
		return out, err
	}
	if rawjson.Kind(out.Result) != '{' {
		return gate.Outcome{}, fmt.Errorf("the answer of the server %s is %w", d.spec.Name, rawjson.ErrNotObject)
	}
	if out.IsError, err = isError(out.Result); err != nil {
		return gate.Outcome{}, fmt.Errorf("the answer of the server %s: %w", d.spec.Name, err)
	}
	return out, nil
}

// toolRequest returns the request that calls t on its server.
func (d *Downstream) toolRequest(c gate.Call, t *Tool) (*request, error) {
	args, err := schema.RestoreArguments(c.Arguments, t.renamed)
	if err != nil {
		return nil, err
	}
	r := newRequest(c, "tools/call", toolCall(t.Raw, args))
	r.headers = schema.HeaderValues(t.headers, args)
	r.timeout = d.spec.timeout(t.Raw)
	r.repeatable = (isTrue(t.Claims.ReadOnly) || isTrue(t.Claims.Idempotent)) && len(c.Task) == 0
	return r, nil
}

// newRequest returns the request of c, whose params are body.
func newRequest(c gate.Call, method string, body rawjson.Object) *request {
	meta, _ := rawjson.Parse(c.Meta)
	return &request{Call: c, method: method, body: body, meta: meta}
}

// callTool sends r and returns the result for the client. If awaited, the call runs
// as a task on the server and callTool waits for the task's result.
func (d *Downstream) callTool(ctx context.Context, t *Tool, r *request, awaited bool) (json.RawMessage, error) {
	res, err := d.do(ctx, r)
	mayBeTask := awaited || len(r.Task) > 0 || r.Stateless && bytes.Contains(r.Meta, []byte(tasksExtension))
	if err == nil && mayBeTask {
		var k *task
		if res, k = d.created(t, r, res, awaited); k != nil && awaited {
			res, err = d.awaitTask(ctx, k, r)
		}
	}
	if !r.Stateless {
		res = withoutStatelessFields(res)
	}
	if err == nil && d.spec.Limit != nil {
		res = limitResult(res, d.spec.Limit(t.Raw))
	}
	return res, err
}

func isTrue(b *bool) bool { return b != nil && *b }

// isError reports whether the tool result res has isError set.
func isError(res json.RawMessage) (bool, error) {
	if !rawjson.Mentions(res, "isError") {
		return false, nil // the common case, without parsing
	}
	o, err := rawjson.Parse(res)
	return string(o.Get("isError")) == "true", err
}

// ReadResource is the tool name of an action that reads a resource. It cannot
// clash with a tool of the server: their names contain no slash.
const ReadResource = "resources/read"

// runRead reads a resource for a model, as a tool result whose text is JSON.
func (s *Downstreams) runRead(ctx context.Context, c gate.Call, d *Downstream) (gate.Outcome, error) {
	in, err := rawjson.Parse(c.Arguments)
	if err != nil {
		return gate.Outcome{}, fmt.Errorf("arguments: %w", err)
	}
	uri := in.Text("uri")
	raw := uri
	if n, ok := withKey(s.Resources(), uri); ok && n.Server == d.spec.Name {
		raw = n.Raw
	}
	r := &request{
		Call:   gate.Call{Caller: c.Caller, Client: c.Client, Inputs: c.Inputs, Log: c.Log, Stateless: c.Stateless},
		method: ReadResource,
		body:   rawjson.Object{{Key: "uri", Value: rawjson.Quote(raw)}},
	}
	if meta, err := rawjson.Parse(c.Meta); err == nil && c.Log != nil && meta.Get(metaLogLevel) != nil {
		r.meta.Set(metaLogLevel, meta.Get(metaLogLevel))
	}
	res, err := s.send(ctx, d, r)
	if rpc, ok := errors.AsType[*RPCError](err); ok {
		return gate.Outcome{}, fmt.Errorf("resources/read failed for `%s` (%s): %s", d.spec.Name, uri, rpc.Message)
	}
	if err != nil {
		return gate.Outcome{}, err
	}
	o, err := rawjson.Parse(res)
	if err != nil {
		return gate.Outcome{}, fmt.Errorf("the answer of the server %s is %w", d.spec.Name, err)
	}
	text := rawjson.Object{
		{Key: "server", Value: rawjson.Quote(d.spec.Name)},
		{Key: "uri", Value: rawjson.Quote(uri)},
		{Key: "contents", Value: o.Get("contents")},
	}.Bytes()
	item := rawjson.Object{
		{Key: "type", Value: rawjson.Quote("text")},
		{Key: "text", Value: rawjson.Quote(string(text))},
	}.Bytes()
	result := rawjson.Object{{Key: "content", Value: rawjson.Array([]json.RawMessage{item})}}
	return gate.Outcome{Result: result.Bytes(), Level: d.currentSession().level()}, nil
}

// find returns the published tool of a server by its raw name, nil when there is none.
func (p *published) find(server, raw string) *Tool {
	for i := range p.tools {
		if p.tools[i].Server == server && p.tools[i].Raw == raw {
			return &p.tools[i]
		}
	}
	return nil
}

// why returns the reason why a tool is not published, "" when there is none.
func (p *published) why(server, raw string) string {
	for _, f := range p.faults[server] {
		if rest, ok := strings.CutPrefix(f, raw+" is left out"); ok {
			return rest
		}
	}
	return ""
}

// level returns the sandbox level of the server's process, "" when it has none. s may be
// nil.
func (s *session) level() string {
	if s == nil || s.proc == nil {
		return ""
	}
	return s.proc.Level
}
