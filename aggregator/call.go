package aggregator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"toolgate/aggregator/schema"
	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
	"toolgate/policy"
)

// Describe returns what a call of the tool would do.
func (s *Downstreams) Describe(t Tool) policy.Action {
	a := policy.Action{Server: t.Server, Tool: t.Raw, Downstream: &policy.Downstream{Approval: policy.ApprovePrompt, Claims: t.Claims}}
	d, err := s.server(t.Server)
	if err != nil {
		return a
	}
	a.Downstream.Trusted, a.Downstream.Profile, a.Downstream.Digest = d.spec.Trusted, d.spec.Profile, d.profile
	a.Downstream.Disabled = d.spec.Published != nil && !d.spec.Published(t.Raw)
	if d.spec.Approval != nil {
		a.Downstream.Approval = d.spec.Approval(t.Raw)
	}
	a.ReadOnly = d.spec.Trusted && t.Claims.ReadOnly != nil && *t.Claims.ReadOnly
	return a
}

// Run runs a call of a downstream tool. It is a [policy.RunFunc]. An error of
// the protocol is an [*RPCError] as the server sent it.
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
	t, ok := s.view().find(d.spec.Name, c.Action.Tool)
	if !ok {
		return gate.Outcome{}, fmt.Errorf("the server %s does not offer this tool%s", d.spec.Name, s.view().why(d.spec.Name, c.Action.Tool))
	}
	args := c.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if args, err = schema.RestoreArguments(args, t.renamed); err != nil {
		return gate.Outcome{}, err
	}
	meta, _ := rawjson.Parse(c.Meta)
	r := &request{
		method:   "tools/call",
		body:     rawjson.Object{{Key: "name", Value: rawjson.Quote(t.Raw)}, {Key: "arguments", Value: args}},
		meta:     meta,
		progress: c.Progress,
		sent:     c.Sent,
		log:      c.Log,
		caller:   c.Caller,
		client:   c.Client,
		rounds:   c.Rounds,
		headers:  schema.HeaderValues(t.headers, args),
	}
	inputs, _ := rawjson.Parse(c.Inputs)
	r.body = append(r.body, inputs...)
	var awaited bool
	if r.body, awaited, err = s.withTask(d, t, c, r.body); err != nil {
		return gate.Outcome{}, err
	}
	var timeout time.Duration
	if d.spec.ToolTimeout != nil {
		timeout = d.spec.ToolTimeout(t.Raw)
	}
	is := func(b *bool) bool { return b != nil && *b }
	res, err := d.do(ctx, r, timeout, (is(t.Claims.ReadOnly) || is(t.Claims.Idempotent)) && len(c.Task) == 0)
	if err == nil && (awaited || len(c.Task) > 0 || c.Rounds && bytes.Contains(c.Meta, []byte(tasksExtension))) {
		var k *task
		if res, k = s.created(d, t, c, res, awaited); k != nil && awaited {
			res, err = s.awaitTask(ctx, d, k, c, timeout)
		}
	}
	if !c.Rounds {
		res = withoutStatelessFields(res)
	}
	if err == nil && d.spec.Limit != nil {
		res = limitResult(res, d.spec.Limit(t.Raw))
	}
	out := gate.Outcome{Result: res, Level: d.sandboxLevel()}
	if err != nil {
		return out, err
	}
	if rawjson.Kind(res) != '{' {
		return gate.Outcome{}, fmt.Errorf("the answer of the server %s is %w", d.spec.Name, rawjson.ErrNotObject)
	}
	if out.IsError, err = isError(res); err != nil {
		return gate.Outcome{}, fmt.Errorf("the answer of the server %s: %w", d.spec.Name, err)
	}
	return out, nil
}

// isError reports whether a result says of itself that it is an error.
func isError(res json.RawMessage) (bool, error) {
	if !bytes.Contains(res, []byte(`"isError"`)) {
		return false, nil // by far the most, without reading it through
	}
	members, err := rawjson.Members(res, rawjson.MaxDepth, nil)
	is := false
	for _, m := range members {
		if string(m.Key) == "isError" {
			is = string(m.Value) == "true"
		}
	}
	return is, err
}

// ReadResource is the tool of an action that reads a resource: it is no tool
// of the server, whose tools' names hold no slash by the specification.
const ReadResource = "resources/read"

// runRead reads a resource for a model: the result's text is JSON.
func (s *Downstreams) runRead(ctx context.Context, c gate.Call, d *Downstream) (gate.Outcome, error) {
	in, err := rawjson.Parse(c.Arguments)
	if err != nil {
		return gate.Outcome{}, fmt.Errorf("arguments: %w", err)
	}
	uri := in.Text("uri")
	raw := uri
	for _, n := range s.Resources() {
		if n.Server == d.spec.Name && n.Key == uri {
			raw = n.Raw
		}
	}
	r := &request{method: ReadResource, body: rawjson.Object{{Key: "uri", Value: rawjson.Quote(raw)}}, log: c.Log, caller: c.Caller, client: c.Client}
	if meta, err := rawjson.Parse(c.Meta); err == nil && c.Log != nil && meta.Get(metaLogLevel) != nil {
		r.meta.Set(metaLogLevel, meta.Get(metaLogLevel))
	}
	res, err := s.send(ctx, d.spec.Name, r)
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
	text := rawjson.Object{{Key: "server", Value: rawjson.Quote(d.spec.Name)}, {Key: "uri", Value: rawjson.Quote(uri)}, {Key: "contents", Value: o.Get("contents")}}.Bytes()
	item := rawjson.Object{{Key: "type", Value: rawjson.Quote("text")}, {Key: "text", Value: rawjson.Quote(string(text))}}.Bytes()
	return gate.Outcome{Result: rawjson.Object{{Key: "content", Value: rawjson.Array([]json.RawMessage{item})}}.Bytes(), Level: d.sandboxLevel()}, nil
}

func (p *published) find(server, raw string) (*Tool, bool) {
	for i := range p.tools {
		if p.tools[i].Server == server && p.tools[i].Raw == raw {
			return &p.tools[i], true
		}
	}
	return nil, false
}

// why returns why a tool was left out, "" when it is not known to be.
func (p *published) why(server, raw string) string {
	for _, f := range p.faults[server] {
		if rest, ok := strings.CutPrefix(f, raw+" is left out"); ok {
			return rest
		}
	}
	return ""
}

func (d *Downstream) sandboxLevel() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session == nil || d.session.proc == nil {
		return ""
	}
	return d.session.proc.Level
}
