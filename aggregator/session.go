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

	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
	"toolgate/internal/stdio"
	"toolgate/policy"
)

// Protocol revisions that toolgate speaks to downstream servers.
const (
	sessionVersion   = "2025-11-25"
	statelessVersion = "2026-07-28" // the first stateless revision
)

// Keys of _meta that apply to one hop only and are never forwarded.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaProgress     = "progressToken"
)

// A link is a connection to a downstream server over any transport.
type link interface {
	do(context.Context, *request) (json.RawMessage, error)
	send(envelope) error
	Done() <-chan struct{}
	Close(cause error)
}

// A session is one connection to a downstream server.
type session struct {
	d       *Downstream
	link    link
	proc    *Process // nil over HTTP
	exited  chan struct{}
	waitErr error // of the process, valid once exited is closed

	stateless bool
	initial   Catalog // from the handshake, without the lists

	relist chan struct{} // signals that a list has changed

	mu      sync.Mutex
	last    int               // number of the last call
	pending map[*request]bool // under way

	logLevel *logLevel
}

// clientCapabilities are the capabilities that toolgate declares to downstream
// servers. A server starts before it is known which client will use it, so all are
// declared; a request that the client does not support is answered by withoutClient.
const clientCapabilities = `{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"sampling":{}}`

func (s *session) clientInfo() json.RawMessage {
	return rawjson.Object{
		{Key: "name", Value: rawjson.Quote("toolgate")},
		{Key: "version", Value: rawjson.Quote(s.d.set.opts.Version)},
	}.Bytes()
}

// connect does the handshake. It tries initialize first, because most servers are
// session-based and some exit at an unknown request. Only if the server answers
// with an error does it try server/discover.
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
	s.stateless = false
	s.initial = Catalog{
		Version:      o.Text("protocolVersion"),
		ServerInfo:   o.Get("serverInfo"),
		Capabilities: o.Get("capabilities"),
		Instructions: o.Text("instructions"),
	}
	if s.initial.Version == "" {
		return errors.New("the answer to initialize has no protocolVersion")
	}
	return s.link.send(envelope{Method: "notifications/initialized"})
}

func (s *session) discover(ctx context.Context) (err error) {
	s.stateless = true // as hopMeta needs it
	defer func() { s.stateless = err == nil }()
	res, err := s.link.do(ctx, &request{method: "server/discover", meta: s.hopMeta(nil)})
	if supportsStateless(err) {
		res, err = s.link.do(ctx, &request{method: "server/discover", meta: s.hopMeta(nil)})
	}
	if err != nil {
		return err
	}
	o, err := rawjson.Parse(res)
	if err != nil {
		return fmt.Errorf("the answer to server/discover is %w", err)
	}
	versions := rawjson.Strings(o.Get("supportedVersions"))
	if !slices.Contains(versions, statelessVersion) {
		return fmt.Errorf("it supports %v, not %s", versions, statelessVersion)
	}
	meta, _ := rawjson.Parse(o.Get("_meta"))
	s.initial = Catalog{
		Version:      statelessVersion,
		ServerInfo:   meta.Get("io.modelcontextprotocol/serverInfo"),
		Capabilities: o.Get("capabilities"),
		Instructions: o.Text("instructions"),
	}
	return nil
}

// codeVersion is the error code for an unsupported protocol version (2026-07-28).
const codeVersion = -32022

// supportsStateless reports whether err refuses our version but lists it as
// supported. Such a server is asked once more.
func supportsStateless(err error) bool {
	rpc, ok := errors.AsType[*RPCError](err)
	if !ok || rpc.Code != codeVersion {
		return false
	}
	data, _ := rawjson.Parse(rpc.Data)
	return slices.Contains(rawjson.Strings(data.Get("supported")), statelessVersion)
}

// hopMeta returns meta for this hop: without the keys of the previous hop, and with
// those that a stateless server needs. The client's capabilities and log level are
// kept for a stateless server.
func (s *session) hopMeta(meta rawjson.Object) rawjson.Object {
	o := slices.Clone(meta)
	capabilities, level := o.Get(metaCapabilities), o.Get(metaLogLevel)
	o.Delete(metaVersion, metaCapabilities, metaClient, metaLogLevel, metaProgress)
	if s.stateless {
		if rawjson.Kind(capabilities) != '{' {
			capabilities = json.RawMessage(clientCapabilities)
		}
		o.Set(metaVersion, rawjson.Quote(statelessVersion))
		o.Set(metaCapabilities, capabilities)
		o.Set(metaClient, s.clientInfo())
		o.Set(metaLogLevel, level)
	}
	return o
}

// call sends r and returns the result. It gets the client's answers to the questions
// that a stateless server asks in its results.
func (s *session) call(ctx context.Context, r *request) (json.RawMessage, error) {
	if r.Log != nil {
		r.answered = new(atomic.Bool)
	}
	defer s.requestLevel(ctx, r)()
	r.meta = s.hopMeta(r.meta)
	s.mu.Lock()
	s.last++
	r.number = s.last
	s.pending[r] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.pending, r)
		s.mu.Unlock()
	}()
	res, err := s.link.do(ctx, r)
	if err == nil && s.stateless && mayAsk[r.method] {
		return s.answerInputs(ctx, r, res)
	}
	return res, err
}

// mayAsk are the methods whose result may be a question (specification 2026-07-28,
// multi round-trip requests).
var mayAsk = map[string]bool{"tools/call": true, GetPrompt: true, ReadResource: true}

// maxRounds is how often a stateless server may ask for input during a call.
const maxRounds = 10

// answerInputs asks the client the questions in an input_required result and repeats
// the request with the answers, until the result is complete.
func (s *session) answerInputs(ctx context.Context, r *request, res json.RawMessage) (json.RawMessage, error) {
	for round := 0; ; round++ {
		o, err := rawjson.Parse(res)
		if err != nil || o.Text("resultType") != "input_required" {
			return res, err
		}
		if round == maxRounds {
			return nil, fmt.Errorf("%s asked for input %d times in one call; giving up", s.d.spec.Name, maxRounds)
		}
		answers, err := s.askInputs(ctx, r, o.Get("inputRequests"))
		if err != nil {
			return nil, err
		}
		again := *r
		again.body = slices.Clone(r.body)
		if r.Log != nil {
			r.answered.Store(false)
		}
		if answers != nil {
			again.body.Set("inputResponses", answers)
		}
		if state := o.Get("requestState"); state != nil {
			again.body.Set("requestState", state)
		}
		if res, err = s.link.do(ctx, &again); err != nil {
			return nil, err
		}
	}
}

// askInputs asks r's client the questions in requests, an inputRequests object, and
// returns inputResponses; nil if there are no questions.
func (s *session) askInputs(ctx context.Context, r *request, requests json.RawMessage) (json.RawMessage, error) {
	questions, _ := rawjson.Parse(requests)
	if len(questions) == 0 {
		return nil, nil
	}
	if r.Inputs != nil {
		return r.Inputs(ctx, requests)
	}
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
	return answers.Bytes(), nil
}

// onRequest handles the server's own requests and reports whether it will call reply,
// once. It does not block. Only the client whose call caused a request answers it.
func (s *session) onRequest(
	cause *request, method string, params json.RawMessage, reply func(json.RawMessage, *RPCError),
) bool {
	switch method {
	case "ping":
		go reply(json.RawMessage("{}"), nil) // ends when it is written
		return true
	case "elicitation/create", "sampling/createMessage", "roots/list":
	default:
		return false
	}
	go func() { // ends with the answer, at the latest when the session ends
		ctx, cancel := context.WithCancelCause(s.d.set.ctx)
		defer cancel(nil)
		go func() { // ends with ctx or the link
			select {
			case <-s.link.Done():
				cancel(ErrClosed)
			case <-ctx.Done():
			}
		}()
		if cause == nil || cause.Client == nil {
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

// inferCause returns the call that a server's request belongs to when the request
// does not tell. Of one caller's calls it is the latest of those that have been
// asked about least. If calls of several callers are pending, it is an error rather
// than a guess.
func (s *session) inferCause(method string) (*request, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var cause *request
	for r := range s.pending {
		if r.Client == nil {
			continue
		}
		if cause != nil && cause.Caller != r.Caller {
			return nil, errors.New("calls of several clients are pending, " +
				"and the request does not say which one it belongs to")
		}
		if cause == nil || r.asked < cause.asked || r.asked == cause.asked && r.number > cause.number {
			cause = r
		}
	}
	if cause != nil {
		cause.asked++
		return cause, nil
	}
	if method == "roots/list" { // sent when a session opens, before any call
		return &request{Call: gate.Call{Client: s.d.set.soleClient()}}, nil
	}
	if len(s.pending) > 0 { // of callers without a client, such as toolgate call
		return &request{}, nil
	}
	return nil, errors.New("no call is pending that this could belong to")
}

// askClient asks r's client one question and returns the answer.
func (s *session) askClient(
	ctx context.Context, r *request, method string, params json.RawMessage,
) (json.RawMessage, *RPCError) {
	res, err := json.RawMessage(nil), policy.ErrNoClient
	if r.Client != nil {
		res, err = r.Client(ctx, method, params)
	}
	rpc, isRPC := errors.AsType[*RPCError](err)
	switch {
	case errors.Is(err, policy.ErrNoClient):
		return s.withoutClient(method)
	case isRPC:
		return nil, rpc
	case err != nil:
		return nil, &RPCError{Code: -32603, Message: err.Error()}
	}
	return res, nil
}

// withoutClient answers a question in place of a client that cannot: it cancels
// elicitations and returns the configured roots.
func (s *session) withoutClient(method string) (json.RawMessage, *RPCError) {
	switch method {
	case "elicitation/create":
		return json.RawMessage(`{"action":"cancel"}`), nil
	case "roots/list":
		return s.d.set.opts.Roots, nil
	}
	return nil, &RPCError{Code: -32601, Message: "the client does not support " + method}
}

// onNotify handles the server's notifications, and requests that nobody answers. cause is
// the request on whose behalf one came, nil if the transport does not tell. It does not
// block.
func (s *session) onNotify(cause *request, method string, params json.RawMessage) {
	switch method {
	case "notifications/tools/list_changed", "notifications/resources/list_changed",
		"notifications/prompts/list_changed":
		select {
		case s.relist <- struct{}{}:
		default: // already signalled
		}
	case "notifications/tasks/status":
		s.onTaskStatus(method, slices.Clone(params))
	case "notifications/message":
		if s.routeLog(cause, params) {
			return
		}
		fallthrough
	case "notifications/resources/updated":
		s.d.set.notice(Notice{
			Server:  s.d.spec.Name,
			Method:  method,
			Params:  slices.Clone(params),
			Callers: s.callers(),
		})
	}
}

// callers returns the callers with pending calls.
func (s *session) callers() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for r := range s.pending {
		if r.Caller != "" && !slices.Contains(list, r.Caller) {
			list = append(list, r.Caller)
		}
	}
	return list
}

// onInvalidLine logs a line on stdout that is not a message. s may be nil.
func (s *session) onInvalidLine(bad *stdio.LineError) {
	if s != nil {
		s.d.log.Info("invalid line on stdout", "why", bad.Msg, "line", bad.Text)
	}
}

// maxPages limits the pages of one listing.
const maxPages = 1000

// list returns the elements of all pages of a list method, and the ttl of the last
// page that has one, 0 for none.
func (s *session) list(ctx context.Context, method, key string) ([]json.RawMessage, time.Duration, error) {
	var all []json.RawMessage
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
		all = append(all, rawjson.List(o.Get(key))...)
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

// catalog fetches all lists that the server declares. It fails if a declared tools/list
// does; any other list that the server refuses is left empty.
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
				s.d.log.Warn("listing refused", "err", err)
			}
			continue
		}
		*l.into = list
		if t > 0 && (ttl == 0 || t < ttl) {
			ttl = t
		}
	}
	return &c, ttl, nil
}

// close closes the session and stops its process: it closes stdin, terminates the
// process after the grace period and kills it after another one. It returns when
// the process has exited.
func (s *session) close(cause error) {
	s.link.Close(cause)
	if s.proc == nil {
		return
	}
	grace := s.d.set.opts.Grace
	if s.d.set.ctx.Err() != nil {
		grace /= 2 // our own shutdown is limited too
	}
	s.proc.end(s.exited, grace, s.proc.Term, s.proc.Kill)
}
