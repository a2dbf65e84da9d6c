package aggregator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"toolgate/internal/rawjson"
	"toolgate/internal/stdio"
	"toolgate/policy"
)

// Protocol revisions that we speak to downstream servers.
const (
	sessionVersion   = "2025-11-25"
	statelessVersion = "2026-07-28" // the first without sessions
)

// Keys of _meta that belong to a hop and are never passed on.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaProgress     = "progressToken"
)

var hopKeys = []string{metaVersion, metaCapabilities, metaClient, metaLogLevel, metaProgress}

// A link is a connection to a downstream server, whatever the transport.
type link interface {
	do(context.Context, *request) (json.RawMessage, error)
	notifyRaw(method string, params json.RawMessage) error
	Done() <-chan struct{}
	Close(cause error)
}

// A session is one connection to a downstream server, from the handshake on.
type session struct {
	d       *Downstream
	link    link
	proc    *Process // nil over HTTP
	exited  chan struct{}
	waitErr error // of the process, once gone is closed

	version   string // negotiated
	stateless bool
	initial   Catalog // what the handshake told, without the lists

	relist chan struct{} // a list has changed

	mu      sync.Mutex
	last    int                         // number of the last call
	pending map[*request]*activeRequest // under way

	logLevel logLevel
}

// An activeRequest is how far a call is.
type activeRequest struct {
	number int
	asked  int // questions put down to it
}

// clientCapabilities is what we declare to downstream servers. Which client
// will cause a question is not known when they start, so all is declared; what
// a client cannot do is answered when it is asked for.
const clientCapabilities = `{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"sampling":{}}`

func (s *session) clientInfo() json.RawMessage {
	return rawjson.Object{{Key: "name", Value: rawjson.Quote("toolgate")}, {Key: "version", Value: rawjson.Quote(s.d.set.opts.Version)}}.Bytes()
}

// connect makes the handshake. Over stdio initialize comes first: servers of the
// older era are by far the most, and some end at an unknown request. Only a
// server that answers it with an error is asked in the words of the newer era.
func (s *session) connect(ctx context.Context) error {
	err := s.initialize(ctx)
	if rpc, ok := errors.AsType[*RPCError](err); ok {
		if derr := s.discover(ctx); derr != nil {
			return fmt.Errorf("initialize: %w", rpc)
		}
		return nil
	}
	return err
}

func (s *session) initialize(ctx context.Context) error {
	body := rawjson.Object{
		{Key: "protocolVersion", Value: rawjson.Quote(sessionVersion)},
		{Key: "capabilities", Value: json.RawMessage(clientCapabilities)},
		{Key: "clientInfo", Value: s.clientInfo()},
	}
	res, err := s.link.do(ctx, &request{method: "initialize", body: body})
	if err != nil {
		return err
	}
	o, err := rawjson.Parse(res)
	if err != nil {
		return fmt.Errorf("the answer to initialize is %w", err)
	}
	s.version, s.stateless = o.Text("protocolVersion"), false
	if s.version == "" {
		return errors.New("the answer to initialize names no protocolVersion")
	}
	s.initial = Catalog{Version: s.version, ServerInfo: o.Get("serverInfo"), Capabilities: o.Get("capabilities"), Instructions: o.Text("instructions")}
	return s.link.notifyRaw("notifications/initialized", nil)
}

func (s *session) discover(ctx context.Context) error {
	s.stateless, s.version = true, statelessVersion
	res, err := s.link.do(ctx, &request{method: "server/discover", meta: s.hopMeta(nil)})
	if supportsStateless(err) {
		res, err = s.link.do(ctx, &request{method: "server/discover", meta: s.hopMeta(nil)})
	}
	if err != nil {
		s.stateless = false
		return err
	}
	o, err := rawjson.Parse(res)
	if err != nil {
		return fmt.Errorf("the answer to server/discover is %w", err)
	}
	versions := rawjson.Strings(o.Get("supportedVersions"))
	if !slices.Contains(versions, statelessVersion) {
		s.stateless = false
		return fmt.Errorf("it speaks %v only, and %s is needed", versions, statelessVersion)
	}
	meta, _ := rawjson.Parse(o.Get("_meta"))
	s.initial = Catalog{Version: statelessVersion, ServerInfo: meta.Get("io.modelcontextprotocol/serverInfo"), Capabilities: o.Get("capabilities"), Instructions: o.Text("instructions")}
	return nil
}

// codeVersion is the error for a protocol version that a server does not
// support (2026-07-28).
const codeVersion = -32022

// supportsStateless reports whether a server that refused our version names it
// among those that it supports: then it is asked once more.
func supportsStateless(err error) bool {
	rpc, ok := errors.AsType[*RPCError](err)
	if !ok || rpc.Code != codeVersion {
		return false
	}
	data, _ := rawjson.Parse(rpc.Data)
	return slices.Contains(rawjson.Strings(data.Get("supported")), statelessVersion)
}

// hopMeta returns meta as this hop sends it: without the keys of the hop before
// it, and with those that the server's era asks for. What the client can do
// and wants logged holds for the server too, where each request says it.
func (s *session) hopMeta(meta json.RawMessage) rawjson.Object {
	o, _ := rawjson.Parse(meta)
	capabilities, level := o.Get(metaCapabilities), o.Get(metaLogLevel)
	for _, key := range hopKeys {
		o.Delete(key)
	}
	if s.stateless {
		if rawjson.Kind(capabilities) != '{' {
			capabilities = json.RawMessage(clientCapabilities)
		}
		o.Set(metaVersion, rawjson.Quote(statelessVersion))
		o.Set(metaCapabilities, capabilities)
		o.Set(metaClient, s.clientInfo())
		if level != nil {
			o.Set(metaLogLevel, level)
		}
	}
	return o
}

// call sends r and sees to what the server asks meanwhile.
func (s *session) call(ctx context.Context, r *request) (json.RawMessage, error) {
	if r.log != nil {
		r.answered = new(atomic.Bool)
	}
	defer s.requestLevel(ctx, r)()
	r.meta = s.hopMeta(r.meta.Bytes())
	s.mu.Lock()
	s.last++
	s.pending[r] = &activeRequest{number: s.last}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.pending, r)
		s.mu.Unlock()
	}()
	res, err := s.link.do(ctx, r)
	if err == nil && s.stateless && !r.rounds {
		return s.answerInputs(ctx, r, res)
	}
	return res, err
}

// maxRounds bounds how often a server of the newer era may ask within a call.
const maxRounds = 10

// answerInputs puts the questions in an input_required result to the client
// and repeats the request with the answers, until a result is complete.
func (s *session) answerInputs(ctx context.Context, r *request, res json.RawMessage) (json.RawMessage, error) {
	for round := 0; ; round++ {
		o, err := rawjson.Parse(res)
		if err != nil || o.Text("resultType") != "input_required" {
			return res, err
		}
		if round == maxRounds {
			return nil, fmt.Errorf("%s asked for input %d times over; giving up", s.d.spec.Name, maxRounds)
		}
		questions, _ := rawjson.Parse(o.Get("inputRequests"))
		answers := rawjson.Object{}
		for _, q := range questions {
			in, err := rawjson.Parse(q.Value)
			if err != nil {
				return nil, fmt.Errorf("the question %q of %s is %w", q.Key, s.d.spec.Name, err)
			}
			a, rpc := s.askClient(ctx, r, in.Text("method"), in.Get("params"))
			if rpc != nil {
				return nil, rpc
			}
			answers = append(answers, rawjson.Field{Key: q.Key, Value: a})
		}
		again := *r
		again.body = slices.Clone(r.body)
		if r.log != nil {
			r.answered.Store(false)
		}
		if len(answers) > 0 {
			again.body.Set("inputResponses", answers.Bytes())
		}
		if state := o.Get("requestState"); state != nil {
			again.body.Set("requestState", state)
		}
		if res, err = s.link.do(ctx, &again); err != nil {
			return nil, err
		}
	}
}

// onRequest takes the server's own requests. They are answered by the client
// whose call caused them and by nobody else.
func (s *session) onRequest(cause *request, method string, params json.RawMessage, reply func(json.RawMessage, *RPCError)) bool {
	switch method {
	case "ping":
		go reply(json.RawMessage("{}"), nil) // ends when it is written
		return true
	case "elicitation/create", "sampling/createMessage", "roots/list":
	default:
		return false
	}
	go func() { // ends with the answer, at the latest when the session ends
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		stop := context.AfterFunc(s.d.set.ctx, func() { cancel(errShutdown) })
		defer stop()
		go func() { // ends with ctx or the link
			select {
			case <-s.link.Done():
				cancel(ErrClosed)
			case <-ctx.Done():
			}
		}()
		if cause == nil || cause.client == nil {
			cause, params = s.causeInTask(params)
		}
		if cause == nil {
			var err error
			if cause, err = s.inferCause(method); err != nil {
				s.d.log.Warn("question refused", "method", method, "err", err)
				reply(nil, &RPCError{Code: -32603, Message: err.Error()})
				return
			}
		}
		res, rpc := s.askClient(ctx, cause, method, params)
		reply(res, rpc)
	}()
	return true
}

// inferCause finds the call that a request over stdio belongs to, where nothing
// in it says so. Calls of one caller are all the same person's: of those it is
// the one least asked about yet, and the latest. When several callers wait,
// nobody is asked rather than the wrong one.
func (s *session) inferCause(method string) (*request, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var cause *request
	var best *activeRequest
	for r, w := range s.pending {
		if r.client == nil {
			continue
		}
		if cause != nil && cause.caller != r.caller {
			return nil, errors.New("calls of several clients are under way, and the request does not say which one it belongs to")
		}
		if best == nil || w.asked < best.asked || w.asked == best.asked && w.number > best.number {
			cause, best = r, w
		}
	}
	if cause != nil {
		best.asked++
		return cause, nil
	}
	if method == "roots/list" { // asked when a session opens, before any call
		return &request{client: s.d.set.soleClient()}, nil
	}
	if len(s.pending) > 0 { // of callers without a client, such as the command line
		return &request{}, nil
	}
	return nil, errors.New("no call is under way that this could belong to")
}

// askClient puts one question to the client of r.
func (s *session) askClient(ctx context.Context, r *request, method string, params json.RawMessage) (json.RawMessage, *RPCError) {
	if r.client == nil {
		return s.withoutClient(method)
	}
	res, err := r.client(ctx, method, params)
	if errors.Is(err, policy.ErrNoClient) {
		return s.withoutClient(method)
	}
	if rpc, ok := errors.AsType[*RPCError](err); ok {
		return nil, rpc
	}
	if err != nil {
		return nil, &RPCError{Code: -32603, Message: err.Error()}
	}
	return res, nil
}

// withoutClient answers what a client that cannot be reached would leave
// unanswered: nobody accepts a form, and the workspace is where we work.
func (s *session) withoutClient(method string) (json.RawMessage, *RPCError) {
	switch method {
	case "elicitation/create":
		return json.RawMessage(`{"action":"cancel"}`), nil
	case "roots/list":
		return s.d.set.opts.Roots, nil
	}
	return nil, &RPCError{Code: -32601, Message: "the client does not support " + method}
}

// onNotify takes the server's notifications. It does not block.
func (s *session) onNotify(cause *request, method string, params json.RawMessage) {
	switch method {
	case "notifications/tools/list_changed", "notifications/resources/list_changed", "notifications/prompts/list_changed":
		select {
		case s.relist <- struct{}{}:
		default: // one is waiting already
		}
	case "notifications/tasks/status":
		s.onTaskStatus(method, slices.Clone(params))
	case "notifications/message":
		if s.routeLog(cause, params) {
			return
		}
		fallthrough
	case "notifications/resources/updated":
		s.d.set.notice(Notice{Server: s.d.spec.Name, Method: method, Params: slices.Clone(params), Callers: s.callers()})
	}
}

// callers returns whose calls are under way.
func (s *session) callers() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for r := range s.pending {
		if r.caller != "" && !slices.Contains(list, r.caller) {
			list = append(list, r.caller)
		}
	}
	return list
}

func (s *session) onInvalidLine(bad *stdio.LineError) {
	s.d.log.Info("line on stdout that is no message", "why", bad.Msg, "line", bad.Text)
}

// maxPages bounds a listing whose end never comes.
const maxPages = 1000

// list returns all elements of a list method's pages.
func (s *session) list(ctx context.Context, method, key string) ([]json.RawMessage, time.Duration, error) {
	all := []json.RawMessage{}
	var ttl time.Duration
	seen := map[string]bool{}
	for cursor, page := "", 0; page < maxPages; page++ {
		r := &request{method: method, meta: s.hopMeta(nil)}
		if cursor != "" {
			r.body = rawjson.Object{{Key: "cursor", Value: rawjson.Quote(cursor)}}
		}
		res, err := s.link.do(ctx, r)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", method, err)
		}
		o, err := rawjson.Parse(res)
		if err != nil {
			return nil, 0, fmt.Errorf("the answer to %s is %w", method, err)
		}
		all = append(all, rawjson.Elements(o.Get(key))...)
		var ms float64
		if json.Unmarshal(o.Get("ttlMs"), &ms) == nil && ms > 0 {
			ttl = time.Duration(min(ms, 86400_000)) * time.Millisecond
		}
		cursor = o.Text("nextCursor")
		if cursor == "" || seen[cursor] {
			break
		}
		seen[cursor] = true
	}
	return all, ttl, nil
}

// catalog asks for all lists that the server declared. Tools it must be
// able to list; another list that fails is an empty one.
func (s *session) catalog(ctx context.Context) (*Catalog, time.Duration, error) {
	c := s.initial
	c.Digest = s.d.spec.Digest
	var ttl time.Duration
	for _, l := range []struct {
		method, key, capability string
		into                    *[]json.RawMessage
	}{
		{"tools/list", "tools", "tools", &c.Tools},
		{"resources/list", "resources", "resources", &c.Resources},
		{"resources/templates/list", "resourceTemplates", "resources", &c.Templates},
		{"prompts/list", "prompts", "prompts", &c.Prompts},
	} {
		declared := c.has(l.capability)
		if !declared && l.key != "tools" {
			continue
		}
		list, t, err := s.list(ctx, l.method, l.key)
		if err != nil {
			if _, answered := errors.AsType[*RPCError](err); !answered || declared && l.key == "tools" {
				return nil, 0, err
			}
			if declared {
				s.d.log.Warn("list left out", "err", err)
			}
			continue
		}
		*l.into = list
		if t > 0 && (ttl == 0 || t < ttl) {
			ttl = t
		}
	}
	if c.Tools == nil {
		c.Tools = []json.RawMessage{}
	}
	return &c, ttl, nil
}

// close closes the session and waits until its process has gone: stdin closed,
// two seconds, asked to terminate, two seconds, killed.
func (s *session) close(cause error) {
	s.link.Close(cause)
	if s.proc == nil {
		return
	}
	s.proc.In.Close()
	grace := s.d.set.opts.Grace
	if s.d.set.ctx.Err() != nil {
		grace /= 2 // whoever ends us does not wait for ever either
	}
	steps := []func() error{s.proc.Term, s.proc.Kill}
	for _, step := range steps {
		select {
		case <-s.exited:
			return
		case <-time.After(grace):
		}
		if step != nil {
			step()
		}
	}
	<-s.exited
}
