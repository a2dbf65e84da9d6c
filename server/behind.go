package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/aggregator"
	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
)

// A behind is one connection's view of what is behind the gate: it passes
// requests on, and news back.
type behind struct {
	s      *Server
	id     string // of the connection
	caller string
	client *client
	srv    *mcp.Server

	mu     sync.Mutex
	remove []func()
	opened bool              // the handshake is over
	held   aggregator.Change // news from before that
	level  string            // of log messages that the client wants; "" is its default
	legacy bool              // it opened with initialize
}

// addCapabilities adds all that servers behind may have; a handshake's result
// is trimmed to what they do have.
func addCapabilities(c *mcp.ServerCapabilities) {
	c.Prompts = &mcp.PromptCapabilities{ListChanged: true}
	c.Resources = &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true}
	c.Completions = &mcp.CompletionCapabilities{}
	c.Logging = &mcp.LoggingCapabilities{}
}

// attach connects srv, which serves one connection, with what is behind.
// detach must be called.
func (s *Server) attach(caller string, c *client, srv *mcp.Server) *behind {
	if s.opts.Downstreams == nil {
		return nil
	}
	b := &behind{s: s, id: rand.Text(), caller: caller, client: c, srv: srv}
	b.remove = append(b.remove, s.opts.Downstreams.Listen(aggregator.Listener{Changed: b.changed, Notice: b.notice}))
	return b
}

func (b *behind) detach() {
	if b == nil {
		return
	}
	b.mu.Lock()
	remove := b.remove
	b.mu.Unlock()
	for _, f := range remove {
		f()
	}
	b.s.opts.Downstreams.SetLevel(b.id, "")
}

// initialized says that a client of the older era has opened its session. One
// that has roots is asked for them when a server behind wants to know.
func (b *behind) initialized(req *mcp.InitializedRequest) {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.legacy = true
	b.mu.Unlock()
	b.open()
	p := req.Session.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.RootsV2 == nil {
		return
	}
	ask := func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return b.client.ask(ctx, method, params)
	}
	remove := b.s.opts.Downstreams.AddClient(ask)
	b.mu.Lock()
	b.remove = append(b.remove, remove)
	b.mu.Unlock()
	b.s.opts.Downstreams.NotifyRootsChanged()
}

// open says that the client may be sent news now.
func (b *behind) open() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.opened = true
	held := b.held
	b.held = aggregator.Change{}
	b.mu.Unlock()
	b.tell(held)
}

// changed tells the client that lists have changed, once the handshake is
// over: some clients take anything before that for a broken server.
func (b *behind) changed(c aggregator.Change) {
	b.mu.Lock()
	if !b.opened {
		b.held.Tools = b.held.Tools || c.Tools
		b.held.Resources = b.held.Resources || c.Resources
		b.held.Prompts = b.held.Prompts || c.Prompts
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	b.tell(c)
}

// tell has the SDK send what it sends when its own lists change: to sessions
// of the older era, and to those of the newer one that listen for it. The
// lists themselves we answer, so that what is added here is never seen.
func (b *behind) tell(c aggregator.Change) {
	const name = "toolgate-change"
	if c.Tools || c.Resources { // with the first resource come the tools to read them
		tool := &mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}
		b.srv.AddTool(tool, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, unknownTool(name)
		})
		b.srv.RemoveTools(name)
	}
	if c.Prompts {
		b.srv.AddPrompt(&mcp.Prompt{Name: name}, nil)
		b.srv.RemovePrompts(name)
	}
	if c.Resources {
		b.srv.AddResource(&mcp.Resource{URI: "toolgate:change", Name: name}, nil)
		b.srv.RemoveResources("toolgate:change")
	}
}

// notice passes a server's notification on: updates of resources to those who
// subscribed, log messages to the client whose calls are under way.
func (b *behind) notice(n aggregator.Notice) {
	switch n.Method {
	case "notifications/resources/updated":
		var p struct {
			URI string `json:"uri"`
		}
		if rawjson.Unmarshal(n.Params, &p) != nil || p.URI == "" {
			return
		}
		uri := b.s.opts.Downstreams.PublicURI(n.Server, p.URI)
		// Ends when it is written.
		go b.srv.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: uri})
	case "notifications/tasks/status":
		if b.client != nil && slices.Equal(n.Callers, []string{b.caller}) && b.isLegacy() {
			b.client.pass(n)
		}
	case "notifications/message":
		if b.wantsLog(n) && b.client != nil {
			b.client.pass(n)
		}
	}
}

// severities are the levels of log messages, the least first.
var severities = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// wantsLog reports whether the client is to see a log message: one of the
// older era, at its level, and no other client's call can be what it is about.
func (b *behind) wantsLog(n aggregator.Notice) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.opened || !b.legacy || slices.ContainsFunc(n.Callers, func(c string) bool { return c != b.caller }) {
		return false
	}
	var p struct {
		Level string `json:"level"`
	}
	return rawjson.Unmarshal(n.Params, &p) == nil &&
		slices.Index(severities, p.Level) >= slices.Index(severities, b.level)
}

// forwarded are the methods whose requests go to a server behind as they are.
var forwarded = map[string]bool{
	"prompts/get": true, "resources/read": true, "completion/complete": true,
	"tasks/get": true, "tasks/result": true, "tasks/update": true, "tasks/cancel": true, "tasks/list": true,
}

// handle answers what concerns the servers behind. ok is false for what the
// SDK answers.
func (b *behind) handle(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (
	res mcp.Result, ok bool, err error,
) {
	if b == nil {
		return nil, false, nil
	}
	modern := isModern(req)
	if modern {
		b.open() // there is no handshake in that era
	}
	set := b.s.opts.Downstreams
	if err := b.refuseTask(method, req, modern); err != nil {
		return nil, true, err
	}
	if strings.HasSuffix(method, "/list") || forwarded[method] {
		set.WaitListed(ctx, true)
	}
	if of := capabilityOf(method); modern && of != "" && !set.Serves(of) {
		// Clients of the older era may ask all the same, and are told of none.
		return nil, true, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no server here has " + of}
	}
	switch method {
	case "initialize", "server/discover":
		if res, err = next(ctx, method, req); err == nil {
			res, err = b.declare(res)
		}
	case "tools/list":
		res, err = b.s.listTools(ctx, req, modern)
	case "prompts/list":
		res = namedResult("prompts", set.Prompts(), modern)
	case "resources/list":
		res = namedResult("resources", set.Resources(), modern)
	case "resources/templates/list":
		res = namedResult("resourceTemplates", set.Templates(), modern)
	case "logging/setLevel":
		if res, err = next(ctx, method, req); err == nil {
			b.setLevel(req)
		}
	case "notifications/roots/list_changed":
		set.NotifyRootsChanged()
		return nil, false, nil
	default:
		if !forwarded[method] {
			return nil, false, nil
		}
		res, err = b.forward(ctx, method, req, modern)
	}
	return res, true, err
}

// isModern reports whether req is of the revision without sessions.
func isModern(req mcp.Request) bool {
	v, ok := req.(interface{ ProtocolVersion() string })
	return ok && v.ProtocolVersion() >= statelessEra
}

// setLevel applies the level of a logging/setLevel to the servers behind.
func (b *behind) setLevel(req mcp.Request) {
	p, is := req.GetParams().(*mcp.SetLoggingLevelParams)
	if !is {
		return
	}
	b.mu.Lock()
	b.level = string(p.Level)
	b.mu.Unlock()
	b.s.opts.Downstreams.SetLevel(b.id, string(p.Level))
}

// capabilityOf returns the capability that a method belongs to, "" for those
// that are always there.
func capabilityOf(method string) string {
	switch family, _, _ := strings.Cut(method, "/"); family {
	case "prompts", "resources":
		return family
	case "completion":
		return "completions"
	}
	return ""
}

// declare makes the capabilities in the result of a handshake those that are
// really served, and passes on what the servers say of themselves.
func (b *behind) declare(res mcp.Result) (mcp.Result, error) {
	set := b.s.opts.Downstreams
	trim := func(c *mcp.ServerCapabilities) {
		if !set.Serves("prompts") {
			c.Prompts = nil
		}
		if !set.Serves("resources") {
			c.Resources = nil
		}
		if !set.Serves("completions") {
			c.Completions = nil
		}
		if !set.Serves("logging") {
			c.Logging = nil
		}
		if len(b.s.opts.Catalog) == 0 && !set.Declares("experimental", sandboxStateKey) {
			c.Experimental = nil // nobody here would heed it
		}
	}
	switch r := res.(type) {
	case *mcp.InitializeResult:
		trim(r.Capabilities)
		r.Instructions = b.instructions(r.Instructions)
		return b.declareTasks(r)
	case *mcp.DiscoverResult:
		trim(r.Capabilities)
		r.Instructions = b.instructions(r.Instructions)
		if b.servesTasks(true) {
			r.Capabilities.AddExtension(tasksExtension, nil)
		}
	}
	return res, nil
}

// maxInstructions bounds what the servers behind add to our instructions;
// clients cut them at a few thousand characters.
const maxInstructions = 4000

// instructions returns ours with those of the servers behind it, each under
// its server's name. Without our own they are those of the one server there
// is, word for word.
func (b *behind) instructions(own string) string {
	names, texts := b.s.opts.Downstreams.Instructions()
	if own == "" && len(texts) == 1 {
		return texts[0]
	}
	var all strings.Builder
	all.WriteString(own)
	for i, t := range texts {
		if len(t) > maxInstructions/len(texts) {
			t = strings.ToValidUTF8(t[:maxInstructions/len(texts)], "") + "…"
		}
		fmt.Fprintf(&all, "\n\nThe server %s says of its tools: %s", names[i], t)
	}
	return all.String()
}

func namedResult(key string, list []aggregator.Named, modern bool) *rawResult {
	var defs []json.RawMessage
	for _, n := range list {
		defs = append(defs, n.Definition)
	}
	return listResult(key, defs, modern)
}

// forward passes a request on and its result back, as bytes.
func (b *behind) forward(ctx context.Context, method string, req mcp.Request, modern bool) (mcp.Result, error) {
	f := aggregator.Forward{Method: method, Caller: b.caller, Rounds: modern}
	if e, is := req.(interface{ GetExtra() *mcp.RequestExtra }); is {
		f.Params = rawPart(e.GetExtra(), rawParams)
	}
	if len(f.Params) == 0 {
		p, err := json.Marshal(req.GetParams())
		if err != nil {
			return nil, err
		}
		f.Params = p
	}
	if string(f.Params) == "null" {
		f.Params = json.RawMessage("{}")
	}
	if modern {
		return b.forwardModern(ctx, req, f)
	}
	if stateIn(f.Params) != "" { // not ours to pass on unseen, and no part of that era
		return nil, &jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidParams,
			Message: "requestState belongs to the revision " + statelessEra + "; send the request again without it",
		}
	}
	if c, is := req.(clientRequest); is {
		f.Client = b.s.askLegacy(b.client, c)
	}
	var raw json.RawMessage
	var err error
	if _, is := taskMethods[method]; is {
		raw, err = b.s.opts.Downstreams.Forward(ctx, f)
	} else {
		call := b.requestCall(req, f)
		call.Ask = b.s.elicit(req)
		raw, _, err = b.s.request(ctx, method, f.Params, "", call)
	}
	if err != nil {
		return nil, forwardError(err, false)
	}
	return &rawResult{raw: raw}, nil
}

// A clientRequest is a request that says what its client can do.
type clientRequest interface {
	ClientCapabilities() *mcp.ClientCapabilities
}

// forwardError returns err as the client's era words it.
func forwardError(err error, modern bool) error {
	if rpc, ok := errors.AsType[*aggregator.RPCError](err); ok {
		return rpcError(rpc)
	}
	if unknown, ok := errors.AsType[*aggregator.UnknownError](err); ok {
		code := int64(jsonrpc.CodeInvalidParams)
		if unknown.What == "resource" && !modern {
			code = -32002 // "resource not found", until 2025-11-25
		}
		return &jsonrpc.Error{Code: code, Message: unknown.Error()}
	}
	if _, ok := errors.AsType[*gate.RefusedError](err); ok {
		return &jsonrpc.Error{Code: codeRefused, Message: err.Error()}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
}

// codeRefused is the code of our own for a request that the policy or a person
// refused: "-32768 to -32000 are reserved" (JSON-RPC 2.0).
const codeRefused = -31000

// subscribe and unsubscribe are the SDK's handlers of subscriptions.
func (b *behind) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	params, err := marshal(map[string]string{"uri": req.Params.URI})
	if err != nil {
		return err
	}
	modern := req.ProtocolVersion() >= statelessEra
	b.s.opts.Downstreams.WaitListed(ctx, true)
	call := b.requestCall(req, aggregator.Forward{Caller: b.caller, Rounds: modern})
	call.Ask = b.s.elicit(req)
	if modern {
		call.Ask = func(context.Context, gate.Question) (gate.Answer, error) { return gate.No, errNoRounds }
	}
	if _, _, err = b.s.request(ctx, aggregator.Subscribe, params, "", call); err != nil {
		return forwardError(err, modern)
	}
	return nil
}

func (b *behind) unsubscribe(ctx context.Context, req *mcp.UnsubscribeRequest) error {
	if err := b.s.opts.Downstreams.Unsubscribe(context.WithoutCancel(ctx), req.Params.URI); err != nil {
		return forwardError(err, false)
	}
	return nil
}
