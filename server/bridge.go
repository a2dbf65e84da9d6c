package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/aggregator"
	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
)

// A bridge passes what downstream servers say of their own accord to one
// connection: their notifications, capabilities and instructions.
type bridge struct {
	conn *connection
	id   string // of the connection, for its log level

	mu         sync.Mutex
	remove     []func()
	opened     bool              // the handshake is over
	held       aggregator.Change // from before that
	session    bool              // it was opened with initialize
	level      string            // of log messages that the client wants; "": the default
	subscribed map[string]bool   // URIs of resources, and whether that is confirmed; nil after close
}

func newBridge(c *connection) *bridge {
	b := &bridge{conn: c, id: rand.Text(), subscribed: map[string]bool{}}
	remove := c.s.opts.Downstreams.Listen(aggregator.Listener{Changed: b.changed, Notice: b.notice})
	b.remove = append(b.remove, remove)
	return b
}

func (b *bridge) close() {
	b.mu.Lock()
	remove := b.remove
	subscribed := b.subscribed
	b.subscribed = nil
	b.mu.Unlock()
	for _, f := range remove {
		f()
	}
	b.conn.s.opts.Downstreams.SetLevel(b.id, "")
	for uri, confirmed := range subscribed {
		if confirmed {
			// Ends with the answer, or with the server.
			go b.conn.s.opts.Downstreams.Unsubscribe(context.Background(), uri)
		}
	}
}

// initialized is called when a client has opened its session. A client that has
// roots is asked for them when a downstream server wants to know them.
func (b *bridge) initialized(p *mcp.InitializeParams) {
	if b.conn.client == nil {
		return
	}
	b.mu.Lock()
	b.session = true
	b.mu.Unlock()
	b.open()
	if p == nil || p.Capabilities == nil || p.Capabilities.RootsV2 == nil {
		return
	}
	ask := func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return b.conn.client.ask(ctx, b.conn.client.write, method, params)
	}
	remove := b.conn.s.opts.Downstreams.AddClient(ask)
	b.mu.Lock()
	b.remove = append(b.remove, remove)
	b.mu.Unlock()
	b.conn.s.opts.Downstreams.NotifyRootsChanged()
}

// open permits notifications to the client.
func (b *bridge) open() {
	b.mu.Lock()
	if b.opened {
		b.mu.Unlock()
		return
	}
	b.opened = true
	held := b.held
	b.held = aggregator.Change{}
	b.mu.Unlock()
	b.notifyChanged(held)
}

// changed notifies the client that lists have changed, once the handshake is
// over: some clients treat an earlier notification as an error.
func (b *bridge) changed(c aggregator.Change) {
	b.mu.Lock()
	if !b.opened {
		b.held.Tools = b.held.Tools || c.Tools
		b.held.Resources = b.held.Resources || c.Resources
		b.held.Prompts = b.held.Prompts || c.Prompts
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	b.notifyChanged(c)
}

// notifyChanged makes the SDK send the notifications that it sends when its own
// lists change: to sessions, and to stateless clients that listen. The lists
// are answered by [request.result], so that what is added here is never seen.
func (b *bridge) notifyChanged(c aggregator.Change) {
	const name = "toolgate-change"
	if c.Tools || c.Resources { // with the first resource come the tools that read resources
		tool := &mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}
		b.conn.srv.AddTool(tool, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, &UnknownToolError{Name: name}
		})
		b.conn.srv.RemoveTools(name)
	}
	if c.Prompts {
		b.conn.srv.AddPrompt(&mcp.Prompt{Name: name}, nil)
		b.conn.srv.RemovePrompts(name)
	}
	if c.Resources {
		b.conn.srv.AddResource(&mcp.Resource{Name: name, URI: "toolgate:change"}, nil)
		b.conn.srv.RemoveResources("toolgate:change")
	}
}

// notice passes a server's notification on: updates of resources to those who
// subscribed, log messages to the client whose calls are active.
func (b *bridge) notice(n aggregator.Notice) {
	switch n.Method {
	case "notifications/resources/updated":
		o, err := rawjson.Parse(n.Params)
		if err != nil || o.Text("uri") == "" {
			return
		}
		uri := b.conn.s.opts.Downstreams.PublicURI(n.Server, o.Text("uri"))
		b.mu.Lock()
		_, subscribed := b.subscribed[uri]
		b.mu.Unlock()
		if subscribed {
			n.Params = rawjson.Object{{Key: "uri", Value: rawjson.Quote(uri)}}.Bytes()
			b.conn.client.pass(n)
		}
		// To stateless clients that listen. Ends when it is written.
		go b.conn.srv.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: uri})
	case "notifications/tasks/status":
		if slices.Equal(n.Callers, []string{b.conn.caller}) && b.hasSession() {
			b.conn.client.pass(n)
		}
	case "notifications/message":
		if b.wantsLog(n) {
			b.conn.client.pass(n)
		}
	}
}

// wantsLog reports whether the client of a session gets a log message: if it is
// at the client's level, and no other client's call can be the cause.
func (b *bridge) wantsLog(n aggregator.Notice) bool {
	if !b.hasSession() || slices.ContainsFunc(n.Callers, func(c string) bool { return c != b.conn.caller }) {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	severity := severityOf(n.Params)
	return severity != "" && slices.Index(severities, severity) >= slices.Index(severities, b.level)
}

// hasSession reports whether the client has opened a session.
func (b *bridge) hasSession() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opened && b.session
}

// setLevel applies the level of a logging/setLevel to the downstream servers.
func (b *bridge) setLevel(level string) {
	b.mu.Lock()
	b.level = level
	b.mu.Unlock()
	b.conn.s.opts.Downstreams.SetLevel(b.id, level)
}

// subscribe subscribes the client of a session to a resource.
func (b *bridge) subscribe(ctx context.Context, r *request) error {
	uri := r.params.Text("uri")
	b.mu.Lock()
	if _, twice := b.subscribed[uri]; twice || b.subscribed == nil {
		b.mu.Unlock()
		return nil
	}
	b.subscribed[uri] = false
	b.mu.Unlock()
	_, err := r.forward(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	_, wanted := b.subscribed[uri]
	switch {
	case err != nil:
		delete(b.subscribed, uri)
	case wanted:
		b.subscribed[uri] = true
	default: // closed or unsubscribed meanwhile
		go b.conn.s.opts.Downstreams.Unsubscribe(context.Background(), uri) // ends with the answer
	}
	return err
}

func (b *bridge) unsubscribe(ctx context.Context, uri string) error {
	b.mu.Lock()
	confirmed := b.subscribed[uri]
	delete(b.subscribed, uri)
	b.mu.Unlock()
	if !confirmed {
		return nil
	}
	return b.conn.s.opts.Downstreams.Unsubscribe(context.WithoutCancel(ctx), uri)
}

// listen subscribes a stateless client that listens for a resource. Its request
// cannot carry a question.
func (b *bridge) listen(ctx context.Context, req *mcp.SubscribeRequest) error {
	params := rawjson.Object{{Key: "uri", Value: rawjson.Quote(req.Params.URI)}}
	r := &request{conn: b.conn, method: aggregator.Subscribe, params: params, stateless: true}
	if info := req.ClientInfo(); info != nil {
		r.agent = info.Name
	}
	b.conn.s.opts.Downstreams.WaitListed(ctx, true)
	call := r.call(ctx)
	call.Ask = func(context.Context, gate.Question) (gate.Answer, error) { return gate.No, errNoRetry }
	if _, err := b.conn.s.forward(ctx, r.method, params.Bytes(), call); err != nil {
		return r.clientError(err)
	}
	return nil
}

// declare makes the capabilities in the result of initialize those that are
// served, and adds what the servers say about themselves.
func (b *bridge) declare(res *mcp.InitializeResult) (mcp.Result, error) {
	b.trim(res.Capabilities)
	res.Instructions = b.instructions(res.Instructions)
	return b.declareTasks(res)
}

// declareStateless is declare for server/discover.
func (b *bridge) declareStateless(res *mcp.DiscoverResult) {
	b.trim(res.Capabilities)
	res.Instructions = b.instructions(res.Instructions)
	if b.servesTasks(true) {
		res.Capabilities.AddExtension(tasksExtension, nil)
	}
}

func (b *bridge) trim(c *mcp.ServerCapabilities) {
	downstreams := b.conn.s.opts.Downstreams
	if !downstreams.Serves("prompts") {
		c.Prompts = nil
	}
	if !downstreams.Serves("resources") {
		c.Resources = nil
	}
	if !downstreams.Serves("completions") {
		c.Completions = nil
	}
	if !downstreams.Serves("logging") {
		c.Logging = nil
	}
	if len(b.conn.s.opts.Catalog) == 0 && !downstreams.Declares("experimental", sandboxStateKey) {
		c.Experimental = nil // nobody would use it
	}
}

// maxInstructions limits what downstream servers add to our instructions, in
// bytes; clients cut them at a few thousand characters.
const maxInstructions = 4000

// instructions returns ours with those of the downstream servers, each under its
// server's name. Without our own they are those of the one server there is,
// unchanged.
func (b *bridge) instructions(own string) string {
	names, texts := b.conn.s.opts.Downstreams.Instructions()
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
