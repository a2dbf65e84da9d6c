package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/stdio"
)

// EndpointOptions configure an [Endpoint]. Zero fields mean their defaults.
type EndpointOptions struct {
	Caller      string        // whose calls these are; everything kept belongs to it
	SessionTTL  time.Duration // after which an idle session ends, default 30 minutes
	MaxSessions int           // at a time, default 64
	MaxBody     int64         // bytes of one message, default 64 MiB
}

// MaxBody is the longest message that a client may send over HTTP, in bytes.
const MaxBody = 64 << 20

// An Endpoint serves MCP over HTTP to one caller, all protocol versions at one
// URL. The caller has been authenticated before: a session of another Endpoint
// is as unknown to it as one that never existed. Close it.
//
// Clients of the versions with initialize have sessions, with streams that can
// be resumed. Our own handler serves them, because the SDK's cannot send a
// downstream server's requests to a client as they came.
type Endpoint struct {
	s    *Server
	opts EndpointOptions
	log  *slog.Logger
	conn *connection  // of the stateless requests
	sdk  http.Handler // answers the stateless requests that conn does not

	ctx  context.Context // ends with Close
	stop context.CancelCauseFunc

	mu       sync.Mutex
	sessions map[string]*httpSession
	draining bool
	owed     sync.WaitGroup // requests whose answers are owed
	sweeper  sync.WaitGroup
}

var errEndpointClosed = errors.New("toolgate is ending")

// NewEndpoint returns the endpoint of one caller.
func (s *Server) NewEndpoint(o EndpointOptions) *Endpoint {
	if o.SessionTTL == 0 {
		o.SessionTTL = 30 * time.Minute
	}
	if o.MaxSessions == 0 {
		o.MaxSessions = 64
	}
	if o.MaxBody == 0 {
		o.MaxBody = MaxBody
	}
	e := &Endpoint{s: s, opts: o, log: s.log, sessions: map[string]*httpSession{}}
	e.ctx, e.stop = context.WithCancelCause(context.Background())
	e.conn = s.connect(o.Caller, nil)
	serve := func(*http.Request) *mcp.Server { return e.conn.srv }
	e.sdk = mcp.NewStreamableHTTPHandler(serve, &mcp.StreamableHTTPOptions{
		Stateless:                    true,
		Logger:                       s.log,
		MaxRequestBodyBytes:          o.MaxBody,
		DisableLocalhostProtection:   true, // the Host has been checked before us, for every address
		PropagateRequestCancellation: true,
	})
	e.sweeper.Go(e.sweep) // ends with e.ctx
	return e
}

// Sessions returns how many sessions there are.
func (e *Endpoint) Sessions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sessions)
}

// Drain refuses new requests and returns when the answers still owed are
// written, or with ctx's error.
func (e *Endpoint) Drain(ctx context.Context) error {
	e.mu.Lock()
	e.draining = true
	e.mu.Unlock()
	e.conn.close()
	done := make(chan struct{})
	go func() { // ends when the last answer is written, at the latest after Close
		e.owed.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all sessions and streams, and cancels the active calls.
func (e *Endpoint) Close() {
	e.mu.Lock()
	e.draining = true
	e.mu.Unlock()
	e.stop(errEndpointClosed)
	for _, ss := range e.all() {
		ss.end(errEndpointClosed)
		ss.active.close(errEndpointClosed)
	}
	e.conn.close()
	e.owed.Wait()
	e.sweeper.Wait()
}

func (e *Endpoint) all() []*httpSession {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*httpSession
	for _, ss := range e.sessions {
		all = append(all, ss)
	}
	return all
}

// Headers of the protocol.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerLast    = "Last-Event-Id"
)

// RequestID is the header in which a request's id in the log is passed to an
// [Endpoint].
const RequestID = "Toolgate-Request"

// ServeHTTP serves one request of the caller.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	stateless := r.Header.Get(headerVersion) >= statelessVersion
	switch {
	case r.Method == http.MethodPost:
		e.post(w, r)
	case stateless || r.Method != http.MethodGet && r.Method != http.MethodDelete:
		w.Header().Set("Allow", "GET, POST, DELETE")
		if stateless {
			w.Header().Set("Allow", "POST")
		}
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	case r.Method == http.MethodGet:
		e.get(w, r)
	default:
		if ss := e.session(w, r); ss != nil {
			ss.end(errors.New("the client has ended its session"))
			w.WriteHeader(http.StatusNoContent)
		}
	}
}

// post takes one message.
func (e *Endpoint) post(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	if !accepts(r, "application/json") || !accepts(r, "text/event-stream") {
		http.Error(w, "Accept must name both application/json and text/event-stream", http.StatusNotAcceptable)
		return
	}
	body, ok := e.body(w, r)
	if !ok {
		return
	}
	if err := stdio.Check(body, stdio.Limits{}); err != nil {
		bad, ok := errors.AsType[*stdio.LineError](err)
		if !ok {
			bad = &stdio.LineError{Code: jsonrpc.CodeInvalidRequest, Msg: err.Error()}
		}
		writeError(w, http.StatusBadRequest, bad.ID, bad.Code, bad.Msg)
		return
	}
	msg, err := jsonrpc.DecodeMessage(body)
	if err != nil {
		writeError(w, http.StatusBadRequest, nil, jsonrpc.CodeInvalidRequest,
			"message is no JSON-RPC 2.0 message: "+err.Error())
		return
	}
	req, _ := msg.(*jsonrpc.Request)
	if req != nil && req.IsCall() {
		if !e.begin() {
			w.Header().Set("Retry-After", "5")
			writeError(w, http.StatusServiceUnavailable, idOf(req), jsonrpc.CodeInternalError,
				errEndpointClosed.Error())
			return
		}
		defer e.owed.Done()
	}
	if r.Header.Get(headerVersion) >= statelessVersion || req != nil && isStateless(req.Params) {
		e.postStateless(w, r, req, body)
		return
	}
	e.postSession(w, r, msg)
}

// bodyTime is how long a client may take to send a message, beside a second
// for each slowest bytes of it.
const (
	bodyTime = 30 * time.Second
	slowest  = 64 << 10
)

// body reads the message of r; ok is false when an answer has been written.
func (e *Endpoint) body(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	tooLong := func() {
		// Who is still sending may not hear an answer: it gets to an end, if
		// that is near.
		_, _ = io.CopyN(io.Discard, r.Body, e.opts.MaxBody)
		writeError(w, http.StatusRequestEntityTooLarge, nil, jsonrpc.CodeInvalidRequest,
			fmt.Sprintf("message longer than %d bytes; send less in one call", e.opts.MaxBody))
	}
	ctl := http.NewResponseController(w)
	// Not every writer has deadlines; then there is none.
	length := min(max(r.ContentLength, 0), e.opts.MaxBody)
	_ = ctl.SetReadDeadline(time.Now().Add(bodyTime + time.Duration(length/slowest)*time.Second))
	if r.ContentLength > e.opts.MaxBody {
		tooLong()
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, e.opts.MaxBody))
	_ = ctl.SetReadDeadline(time.Time{}) // what follows may take as long as it likes
	if err == nil {
		return body, true
	}
	if _, is := errors.AsType[*http.MaxBytesError](err); is {
		tooLong()
	} else {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
	}
	return nil, false
}

// begin notes that an answer will be owed. It is false when no more requests
// are taken.
func (e *Endpoint) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return false
	}
	e.owed.Add(1)
	return true
}

// postStateless answers a stateless request. The SDK refuses what is malformed.
func (e *Endpoint) postStateless(w http.ResponseWriter, r *http.Request, msg *jsonrpc.Request, body []byte) {
	if bad := e.s.checkParamHeaders(r.Header, msg); bad != "" {
		writeError(w, http.StatusBadRequest, idOf(msg), mcp.CodeHeaderMismatch, bad)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(e.ctx, func() { cancel(errEndpointClosed) })()
	if msg != nil && msg.IsCall() {
		if req, ok := e.conn.newRequest(msg.Method, msg.Params); ok && headersAgree(r.Header, req) {
			req.id = r.Header.Get(RequestID)
			answerStateless(ctx, w, req, msg)
			return
		}
		if msg.Method == "subscriptions/listen" {
			e.owed.Done() // a stream is open until somebody ends it
			defer e.owed.Add(1)
		}
	}
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	e.sdk.ServeHTTP(w, r)
}

// postSession takes a message of a session.
func (e *Endpoint) postSession(w http.ResponseWriter, r *http.Request, msg jsonrpc.Message) {
	if v := r.Header.Get(headerVersion); v != "" && !slices.Contains(sessionVersions, v) {
		http.Error(w, fmt.Sprintf("unsupported protocol version (supported versions: %s, %s)",
			strings.Join(sessionVersions, ", "), statelessVersion), http.StatusBadRequest)
		return
	}
	req, _ := msg.(*jsonrpc.Request)
	if r.Header.Get(headerSession) == "" {
		if req == nil || !req.IsCall() || req.Method != "initialize" {
			writeError(w, http.StatusBadRequest, idOf(req), jsonrpc.CodeInvalidRequest,
				"a session begins with initialize; its id goes into the header "+headerSession)
			return
		}
		e.open(w, r, req)
		return
	}
	ss := e.session(w, r)
	if ss == nil {
		return
	}
	if req != nil && req.IsCall() {
		ss.call(w, r, req)
		return
	}
	if ss.take(msg) {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	http.Error(w, "session not found", http.StatusNotFound)
}

// session returns the session that r names. Nil means that an answer has been
// written: the same for a session of somebody else and for none.
func (e *Endpoint) session(w http.ResponseWriter, r *http.Request) *httpSession {
	id := r.Header.Get(headerSession)
	if id == "" {
		http.Error(w, "the header "+headerSession+" is missing", http.StatusBadRequest)
		return nil
	}
	e.mu.Lock()
	ss := e.sessions[id]
	e.mu.Unlock()
	if ss == nil {
		http.Error(w, "session not found", http.StatusNotFound)
	}
	return ss
}

// open begins a session with the request initialize.
func (e *Endpoint) open(w http.ResponseWriter, r *http.Request, req *jsonrpc.Request) {
	ss, err := e.newSession()
	if err != nil {
		w.Header().Set("Retry-After", "60")
		writeError(w, http.StatusTooManyRequests, idOf(req), jsonrpc.CodeInternalError, err.Error())
		return
	}
	w.Header().Set(headerSession, ss.id)
	ss.call(w, r, req)
	if ss.conn.initialized() == nil {
		ss.end(errors.New("it was not initialized"))
	}
}

// newSession makes room for a session and opens it.
func (e *Endpoint) newSession() (*httpSession, error) {
	e.mu.Lock()
	var oldest *httpSession
	full := len(e.sessions) >= e.opts.MaxSessions
	if full {
		for _, ss := range e.sessions {
			if idle, since := ss.idle(); idle && (oldest == nil || since.Before(oldest.lastUse())) {
				oldest = ss
			}
		}
	}
	e.mu.Unlock()
	if full && oldest == nil {
		return nil, fmt.Errorf("there are %d sessions, all in use; end one first", e.opts.MaxSessions)
	}
	if oldest != nil {
		oldest.end(errors.New("it had to make room for another"))
	}
	ss := newHTTPSession(e, rand.Text())
	ss.conn = e.s.connect(e.opts.Caller, newClient(ss.Write))
	if _, err := ss.conn.srv.Connect(context.WithoutCancel(e.ctx), ss, nil); err != nil {
		ss.conn.close()
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		go ss.end(errEndpointClosed) // it takes the lock
		return nil, errEndpointClosed
	}
	e.sessions[ss.id] = ss
	return ss, nil
}

// get opens a stream: the session's own, or one that broke.
func (e *Endpoint) get(w http.ResponseWriter, r *http.Request) {
	if !accepts(r, "text/event-stream") {
		http.Error(w, "Accept must name text/event-stream", http.StatusNotAcceptable)
		return
	}
	ss := e.session(w, r)
	if ss == nil {
		return
	}
	if last := r.Header.Get(headerLast); last != "" {
		ss.resume(w, r, last)
		return
	}
	ss.listen(w, r)
}

// sweep ends idle sessions and forgets events that nobody came back for.
func (e *Endpoint) sweep() {
	tick := time.NewTicker(min(e.opts.SessionTTL/4+time.Millisecond, 15*time.Second))
	defer tick.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case now := <-tick.C:
			for _, ss := range e.all() {
				if idle, since := ss.idle(); idle && now.Sub(since) >= e.opts.SessionTTL {
					ss.end(errors.New("it was idle"))
					continue
				}
				ss.forget(now.Add(-keepEvents))
			}
		}
	}
}

// accepts reports whether r's Accept header covers kind.
func accepts(r *http.Request, kind string) bool {
	family, _, _ := strings.Cut(kind, "/")
	for _, line := range r.Header.Values("Accept") {
		for item := range strings.SplitSeq(line, ",") {
			item, _, _ = strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(item)) {
			case kind, family + "/*", "*/*":
				return true
			}
		}
	}
	return false
}

// idOf returns the id of a request for an error about it.
func idOf(req *jsonrpc.Request) json.RawMessage {
	if req == nil || !req.IsCall() {
		return nil
	}
	return idJSON(req.ID)
}

func idJSON(id jsonrpc.ID) json.RawMessage {
	b, _ := json.Marshal(id.Raw()) // a number or a string, which always marshal
	return b
}

// writeError answers a request that was not taken.
func writeError(w http.ResponseWriter, status int, id json.RawMessage, code int64, msg string) {
	if id == nil {
		id = json.RawMessage("null")
	}
	b, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": msg},
	})
	if err != nil {
		b = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}
