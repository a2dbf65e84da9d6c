package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/aggregator"
	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
	"toolgate/policy"
)

// A request is a request of a client that the server answers itself. The SDK
// answers those that open and maintain a session, and refuses malformed ones.
type request struct {
	conn      *connection
	id        string // identifies the request in the log, "" for a new id
	method    string
	raw       json.RawMessage // the params as they came
	params    rawjson.Object
	meta      rawjson.Object          // params' _meta
	stateless bool                    // the request is of protocol version 2026-07-28
	caps      *mcp.ClientCapabilities // nil: none
	agent     string                  // the client program, as it calls itself
	write     writeFunc               // sends messages that belong to the request
	notes     *outbox                 // notifications for write
}

// A writeFunc sends a message to the client.
type writeFunc func(context.Context, jsonrpc.Message) error

// newRequest returns a request of the client. It is false if the SDK must see the
// request instead, to answer or to refuse it.
func (c *connection) newRequest(method string, params json.RawMessage) (*request, bool) {
	r := &request{conn: c, method: method, raw: params, notes: newOutbox()}
	var err error
	if kind := rawjson.Kind(params); (kind == 0 || kind == 'n') && strings.HasSuffix(method, "/list") {
		r.raw = json.RawMessage("{}") // optional
	}
	if r.params, err = rawjson.Parse(r.raw); err != nil {
		return nil, false
	}
	if meta := r.params.Get("_meta"); rawjson.Kind(meta) != 0 && rawjson.Kind(meta) != 'n' {
		if r.meta, err = rawjson.Parse(meta); err != nil {
			return nil, false
		}
	}
	r.stateless = r.meta.Text(mcp.MetaKeyProtocolVersion) >= statelessVersion
	if !c.serves(method, r.stateless) {
		return nil, false
	}
	if r.stateless {
		return r, r.identifyClient()
	}
	session := c.initialized()
	if session == nil {
		return nil, false
	}
	r.caps = session.Capabilities
	if session.ClientInfo != nil {
		r.agent = session.ClientInfo.Name
	}
	return r, true
}

// identifyClient reads what a stateless request says about its client. It
// reports whether the request says what it must.
func (r *request) identifyClient() bool {
	sdk := mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Meta: mcp.Meta{}}}
	for _, key := range []string{mcp.MetaKeyClientCapabilities, mcp.MetaKeyClientInfo} {
		if v := r.meta.Get(key); v != nil {
			sdk.Params.Meta[key] = v
		}
	}
	r.caps = sdk.ClientCapabilities()
	if r.meta.Get(mcp.MetaKeyClientInfo) != nil {
		info := sdk.ClientInfo()
		if info == nil {
			return false
		}
		r.agent = info.Name
	}
	return r.caps != nil && r.meta.Text(mcp.MetaKeyProtocolVersion) == statelessVersion
}

// serves reports whether a method is answered here and not by the SDK.
func (c *connection) serves(method string, stateless bool) bool {
	switch method {
	case "tools/call", aggregator.GetPrompt, aggregator.ReadResource, aggregator.Complete,
		"tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return true
	case aggregator.Subscribe, aggregator.Unsubscribe:
		return !stateless
	}
	_, is := taskMethods[method]
	return is
}

// answer answers the request: it returns the result, or a *[jsonrpc.Error].
func (r *request) answer(ctx context.Context) (json.RawMessage, error) {
	defer r.notes.close() // nothing may follow the answer
	res, err := r.result(ctx)
	if err == nil && rawjson.Kind(res) != '{' {
		err = fmt.Errorf("the answer of the server is %w", rawjson.ErrNotObject)
	}
	if err != nil {
		return nil, r.clientError(err)
	}
	if r.stateless {
		return complete(res, r.conn.s.info)
	}
	return res, nil
}

func (r *request) result(ctx context.Context) (json.RawMessage, error) {
	c, downstreams := r.conn, r.conn.s.opts.Downstreams
	if r.stateless {
		c.bridge.open() // there is no handshake
	}
	if r.method == "tools/call" {
		return r.callTool(ctx)
	}
	if !r.stateless && r.params.Get("requestState") != nil {
		return nil, badState("belongs to the revision " + statelessVersion)
	}
	if err := r.refuseTask(); err != nil {
		return nil, err
	}
	downstreams.WaitListed(ctx, true)
	if needs := capabilityOf(r.method); r.stateless && needs != "" && !downstreams.Serves(needs) {
		// A client with a session gets an empty list.
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no server here has " + needs}
	}
	switch r.method {
	case "tools/list":
		return r.listTools()
	case "prompts/list":
		return r.list("prompts", definitions(downstreams.Prompts())), nil
	case "resources/list":
		return r.list("resources", definitions(downstreams.Resources())), nil
	case "resources/templates/list":
		return r.list("resourceTemplates", definitions(downstreams.Templates())), nil
	case aggregator.Subscribe:
		return json.RawMessage("{}"), c.bridge.subscribe(ctx, r)
	case aggregator.Unsubscribe:
		return json.RawMessage("{}"), c.bridge.unsubscribe(ctx, r.params.Text("uri"))
	}
	if _, is := taskMethods[r.method]; is {
		return r.forwardTask(ctx)
	}
	return r.forward(ctx)
}

// capabilityOf returns the capability that a method belongs to, "" for those that
// are always served.
func capabilityOf(method string) string {
	switch family, _, _ := strings.Cut(method, "/"); family {
	case "prompts", "resources":
		return family
	case "completion":
		return "completions"
	}
	return ""
}

// call returns the request as a call for the gate.
func (r *request) call(ctx context.Context) gate.Call {
	s := r.conn.s
	return gate.Call{
		ID:        cmp.Or(r.id, rand.Text()[:12]),
		Caller:    r.conn.caller,
		AskedVia:  "client",
		Agent:     r.agent,
		Meta:      r.params.Get("_meta"),
		Limit:     limitOf(r.meta.Get(sandboxStateKey), s.opts.TempDir),
		Stateless: r.stateless,
		Progress:  r.progress(ctx),
		Log:       r.log(ctx),
	}
}

// run runs a call. A client with a session is asked while its request is open,
// a stateless one by a [pendingCall].
func (r *request) run(
	ctx context.Context, call gate.Call, do func(context.Context, gate.Call) (json.RawMessage, error),
) (json.RawMessage, error) {
	if r.stateless {
		return r.conn.pending.run(ctx, r, call, do)
	}
	call.Client, call.Ask = r.ask, r.approver(r.ask)
	return do(ctx, call)
}

// ask asks a client with a session. It is a [policy.ClientFunc].
func (r *request) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if err := supports(r.caps, method, params); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.conn.s.opts.AskTimeout)
	defer cancel()
	return r.conn.client.ask(ctx, r.write, method, params)
}

// notify sends a notification that belongs to the request, unless ctx has
// ended. It does not wait for the client.
func (r *request) notify(ctx context.Context, method string, params json.RawMessage) {
	r.notes.post(func() {
		if ctx.Err() != nil {
			return
		}
		if err := r.write(ctx, &jsonrpc.Request{Method: method, Params: params}); err != nil {
			r.conn.s.log.Debug("notification not sent", "method", method, "err", err)
		}
	})
}

// progress returns the function that sends a backend's progress to the client,
// nil if the client did not ask for any.
func (r *request) progress(ctx context.Context) func(json.RawMessage) {
	token := r.meta.Get("progressToken")
	if kind := rawjson.Kind(token); kind != '"' && kind != '-' && (kind < '0' || kind > '9') {
		return nil
	}
	return func(params json.RawMessage) {
		o, _ := rawjson.Parse(params)
		o.Set("progressToken", token) // tokens belong to a hop
		r.notify(ctx, "notifications/progress", o.Bytes())
	}
}

// log returns the function that sends a backend's log messages to a stateless
// client and reports whether the client wants the message. It is nil if the
// client wants none: it names a level in each request for which it does.
func (r *request) log(ctx context.Context) func(json.RawMessage) bool {
	least := slices.Index(severities, r.meta.Text(mcp.MetaKeyLogLevel))
	if !r.stateless || least < 0 {
		return nil
	}
	return func(params json.RawMessage) bool {
		if ctx.Err() != nil || slices.Index(severities, severityOf(params)) < least {
			return false
		}
		r.notify(ctx, "notifications/message", params)
		return true
	}
}

// severities are the levels of log messages, the least severe first.
var severities = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// severityOf returns the level in the params of a log message.
func severityOf(params json.RawMessage) string {
	o, _ := rawjson.Parse(params)
	return o.Text("level")
}

// codeRefused is the error code of a request that the policy or a person
// refused: "-32768 to -32000 are reserved" (JSON-RPC 2.0).
const codeRefused = -31000

// clientError returns err as the client gets it. The error of a downstream
// server stays as it is.
func (r *request) clientError(err error) error {
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return rpc
	}
	if rpc, ok := errors.AsType[*aggregator.RPCError](err); ok {
		return &jsonrpc.Error{Code: rpc.Code, Message: rpc.Message, Data: rpc.Data}
	}
	code := int64(jsonrpc.CodeInternalError)
	if _, ok := errors.AsType[retryError](err); ok {
		code = jsonrpc.CodeInvalidParams
	}
	if unknown, ok := errors.AsType[*aggregator.UnknownError](err); ok {
		code = jsonrpc.CodeInvalidParams
		if unknown.What == "resource" && !r.stateless {
			code = -32002 // "resource not found", until 2025-11-25
		}
	} else if _, ok := errors.AsType[*gate.RefusedError](err); ok {
		code = codeRefused
	}
	return &jsonrpc.Error{Code: code, Message: err.Error()}
}

// emptyCompletion is the result when the server may not be asked without an
// approval.
var emptyCompletion = json.RawMessage(`{"completion":{"values":[]}}`)

// forward sends a request to the downstream server that it is for, through the
// gate.
func (r *request) forward(ctx context.Context) (json.RawMessage, error) {
	do := func(ctx context.Context, call gate.Call) (json.RawMessage, error) {
		return r.conn.s.forward(ctx, r.method, r.raw, call)
	}
	if r.method == aggregator.Complete { // its result must not be a question
		return do(ctx, r.call(ctx))
	}
	return r.run(ctx, r.call(ctx), do)
}

func (s *Server) forward(
	ctx context.Context, method string, params json.RawMessage, call gate.Call,
) (json.RawMessage, error) {
	t, err := s.opts.Downstreams.Target(method, params)
	if err != nil {
		call.Action = policy.Action{Tool: method, Request: true}
		if in, perr := rawjson.Parse(params); perr == nil {
			in.Delete("_meta")
			call.Arguments = in.Bytes()
		}
		s.opts.Gate.Invalid(call, err)
		return nil, err
	}
	call.Arguments = t.Arguments
	call.Describe = func(args json.RawMessage) (policy.Action, error) {
		a, err := s.opts.Downstreams.DescribeRequest(t.Server, method, args)
		a.Preview = previewArguments(args)
		return a, err
	}
	if call.Action, err = call.Describe(call.Arguments); err != nil {
		call.Action = policy.Action{Tool: method, Server: t.Server, Request: true}
		s.opts.Gate.Invalid(call, err)
		return nil, err
	}
	out, err := s.opts.Gate.Call(ctx, call)
	if errors.Is(err, gate.ErrUnasked) {
		return emptyCompletion, nil
	}
	return out.Result, err
}
