package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/aggregator"
	"toolgate/internal/gate"
	"toolgate/policy"
)

// requestCall returns the call that a request of the protocol is to the gate,
// but for what asks the user.
func (b *behind) requestCall(req mcp.Request, f aggregator.Forward) gate.Call {
	var in struct {
		Meta json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(f.Params, &in) // params that are no object are refused later
	call := gate.Call{
		ID:       rand.Text()[:12],
		Caller:   f.Caller,
		AskedVia: "client",
		Meta:     in.Meta,
		Client:   f.Client,
		Log:      f.Log,
		Rounds:   f.Rounds,
		Limit:    limitOf(req.GetParams().GetMeta(), b.s.opts.TempDir),
	}
	if e, is := req.(interface{ GetExtra() *mcp.RequestExtra }); is {
		call.ID = cmp.Or(string(rawPart(e.GetExtra(), RequestID)), call.ID)
	}
	if c, is := req.(interface{ ClientInfo() *mcp.Implementation }); is && c.ClientInfo() != nil {
		call.Agent = c.ClientInfo().Name
	}
	return call
}

// emptyCompletion answers for a server that must not be asked without a yes.
var emptyCompletion = json.RawMessage(`{"completion":{"values":[]}}`)

// request leads a request of the protocol through the gate and returns which
// server it was for. What call brings along from earlier rounds is for the
// server named from; "" for none.
func (s *Server) request(
	ctx context.Context, method string, params json.RawMessage, from string, call gate.Call,
) (res json.RawMessage, server string, err error) {
	t, err := s.opts.Downstreams.Target(method, params)
	if err != nil {
		call.Action = policy.Action{Tool: method, Request: true}
		var in map[string]json.RawMessage
		if json.Unmarshal(params, &in) == nil {
			delete(in, "_meta")
			call.Arguments, _ = marshal(in) // what was JSON before marshals
		}
		s.opts.Gate.Invalid(call, err)
		return nil, "", err
	}
	if from != "" && t.Server != from {
		return nil, "", errForwardState
	}
	if res, err = s.requestFrom(ctx, method, t, call); errors.Is(err, gate.ErrUnasked) {
		return emptyCompletion, "", nil
	}
	return res, t.Server, err
}

// requestFrom leads a request to one server through the gate.
func (s *Server) requestFrom(
	ctx context.Context, method string, t aggregator.Target, call gate.Call,
) (json.RawMessage, error) {
	call.Arguments = t.Arguments
	call.Describe = func(args json.RawMessage) (policy.Action, error) {
		a, err := s.opts.Downstreams.DescribeRequest(t.Server, method, args)
		a.Preview = previewArguments(args)
		return a, err
	}
	var err error
	if call.Action, err = call.Describe(call.Arguments); err != nil {
		call.Action = policy.Action{Tool: method, Server: t.Server, Request: true}
		s.opts.Gate.Invalid(call, err)
		return nil, err
	}
	out, err := s.opts.Gate.Call(ctx, call)
	return out.Result, err
}
