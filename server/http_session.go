package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/rawjson"
	"toolgate/internal/stdio"
)

// An httpSession is a session over HTTP: to the SDK it is a connection like any
// other, to the client a set of streams.
//
// An answer goes to the stream of its request, as do the messages that belong to
// the request. Everything else goes to the stream that a GET opens.
type httpSession struct {
	id     string
	e      *Endpoint
	conn   *connection
	active *activeCalls
	in     chan jsonrpc.Message // for the SDK

	ctx  context.Context // ends with the session
	stop context.CancelCauseFunc
	once sync.Once

	mu      sync.Mutex
	used    time.Time
	waiting int                // the client's active requests
	calls   map[string]*stream // by the id of the request they answer
	streams map[string]*stream // by their own id; "" is the one without a request
	kept    []keptStream       // those of streams that have ended, the oldest first
}

// A keptStream is a stream that has ended and can still be taken up again.
type keptStream struct {
	id    string
	bytes int
	read  bool // all of it was written to the client
}

func newHTTPSession(e *Endpoint, id string) *httpSession {
	ss := &httpSession{
		id:      id,
		e:       e,
		in:      make(chan jsonrpc.Message, 4),
		used:    time.Now(),
		calls:   map[string]*stream{},
		streams: map[string]*stream{"": {}},
	}
	ss.ctx, ss.stop = context.WithCancelCause(context.Background())
	ss.active = newActiveCalls(ss.ctx)
	return ss
}

// end ends the session and cancels its active calls.
func (ss *httpSession) end(why error) {
	ss.once.Do(func() {
		ss.e.mu.Lock()
		delete(ss.e.sessions, ss.id)
		ss.e.mu.Unlock()
		ss.stop(why)
		ss.conn.close()
		ss.e.log.Debug("session ended", "caller", ss.e.opts.Caller, "why", why)
	})
}

// idle reports whether nobody is using the session, and since when.
func (ss *httpSession) idle() (bool, time.Time) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.waiting == 0, ss.used
}

func (ss *httpSession) lastUse() time.Time {
	_, since := ss.idle()
	return since
}

// use notes that a request is there, until done is called.
func (ss *httpSession) use() (done func()) {
	count := func(n int) {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		ss.waiting += n
		ss.used = time.Now()
	}
	count(1)
	return func() { count(-1) }
}

// The SDK's side: a transport and its connection.

func (ss *httpSession) Connect(context.Context) (mcp.Connection, error) { return ss, nil }

func (ss *httpSession) SessionID() string { return ss.id }

func (ss *httpSession) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case msg := <-ss.in:
		return msg, nil
	case <-ss.ctx.Done():
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (ss *httpSession) Close() error {
	ss.end(errors.New("the connection was closed"))
	return nil
}

// Write sends msg on the stream it belongs to. An error means that the
// session is over: a stream that is not connected now may be later.
func (ss *httpSession) Write(_ context.Context, msg jsonrpc.Message) error {
	resp, isAnswer := msg.(*jsonrpc.Response)
	ss.mu.Lock()
	s := ss.streams[""]
	if isAnswer {
		s = ss.calls[string(idJSON(resp.ID))]
	}
	ss.mu.Unlock()
	if s == nil {
		return nil // nobody asked for this answer
	}
	return ss.writeTo(s, msg)
}

// writeTo sends msg on s, or, if s has had its answer, on the stream without a
// request.
func (ss *httpSession) writeTo(s *stream, msg jsonrpc.Message) error {
	if ss.ctx.Err() != nil {
		return context.Cause(ss.ctx)
	}
	data, err := encode(msg)
	if err != nil {
		return err
	}
	resp, isAnswer := msg.(*jsonrpc.Response)
	ss.mu.Lock()
	dropped := isAnswer && s.cancelled
	if isAnswer {
		delete(ss.calls, string(idJSON(resp.ID)))
	} else if s.isDone() {
		s = ss.streams[""]
	}
	if dropped {
		delete(ss.streams, s.id) // a client that comes back for it is told that it is gone
	}
	ss.mu.Unlock()
	if dropped {
		// "Not send a response for the cancelled request" (specification 2025-11-25,
		// cancellation).
		s.end()
		return nil
	}
	read := s.send(data, isAnswer)
	if isAnswer {
		ss.keep(keptStream{id: s.id, bytes: len(data), read: read})
	}
	return nil
}

// keep notes that a stream has ended, and lets go of the oldest when all those
// that have are too large: first of such as the client has got to the end of.
func (ss *httpSession) keep(k keptStream) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.kept = append(ss.kept, k)
	for {
		total := 0
		for _, k := range ss.kept {
			total += k.bytes
		}
		drop := slices.IndexFunc(ss.kept, func(k keptStream) bool { return k.read })
		switch {
		case total <= maxKeptRead:
			return
		case drop < 0 && total <= maxKeptUnread:
			return
		case drop < 0:
			drop = 0
		}
		delete(ss.streams, ss.kept[drop].id)
		ss.kept = slices.Delete(ss.kept, drop, drop+1)
	}
}

// The client's side.

// take hands msg to whoever it is for. It is false when the session has ended.
func (ss *httpSession) take(msg jsonrpc.Message) bool {
	defer ss.use()()
	if ss.conn.client.answered(msg) {
		return true
	}
	req, ok := msg.(*jsonrpc.Request)
	if ok && req.Method == "notifications/cancelled" {
		params, _ := rawjson.Parse(req.Params)
		ss.mu.Lock()
		if s := ss.calls[stdio.IDKey(params.Get("requestId"))]; s != nil {
			s.cancelled = true
		}
		ss.mu.Unlock()
		if ss.active.cancelled(req.Params) {
			return true
		}
	}
	select {
	case ss.in <- msg:
		return true
	case <-ss.ctx.Done():
		return false
	}
}

// start has req answered on the stream s. It is false when the session has ended.
func (ss *httpSession) start(r *http.Request, s *stream, msg *jsonrpc.Request) bool {
	req, ok := ss.conn.newRequest(msg.Method, msg.Params)
	if !ok {
		return ss.take(msg)
	}
	req.id = r.Header.Get(RequestID)
	req.write = func(_ context.Context, m jsonrpc.Message) error { return ss.writeTo(s, m) }
	return ss.active.start(idJSON(msg.ID), req, func(res json.RawMessage, err error) {
		ss.conn.client.notes.flush()
		// An error means that the session is over.
		_ = ss.writeTo(s, &jsonrpc.Response{ID: msg.ID, Result: res, Error: err})
	})
}

// call answers a request. A client that goes away before the answer can come back
// for it, so the call goes on.
func (ss *httpSession) call(w http.ResponseWriter, r *http.Request, req *jsonrpc.Request) {
	defer ss.use()()
	s := &stream{id: rand.Text()}
	ss.mu.Lock()
	key := string(idJSON(req.ID))
	if _, twice := ss.calls[key]; twice {
		ss.mu.Unlock()
		writeError(w, http.StatusBadRequest, idOf(req), jsonrpc.CodeInvalidRequest,
			"a request with this id is still being answered")
		return
	}
	ss.calls[key], ss.streams[s.id] = s, s
	ss.mu.Unlock()

	prime := ss.version(r, req) >= "2025-11-25"
	conn := newEventConn(w)
	s.connect(conn, 0, prime)
	if ss.start(r, s, req) {
		ss.wait(r, s, conn)
	}
	s.disconnect(conn)
}

// version returns the revision that a request is made in.
func (ss *httpSession) version(r *http.Request, req *jsonrpc.Request) string {
	if req.Method == "initialize" {
		params, _ := rawjson.Parse(req.Params)
		return params.Text("protocolVersion")
	}
	if v := r.Header.Get(headerVersion); v != "" {
		return v
	}
	if p := ss.conn.initialized(); p != nil {
		return p.ProtocolVersion
	}
	return ""
}

// listen serves the stream of the session that belongs to no request.
func (ss *httpSession) listen(w http.ResponseWriter, r *http.Request) {
	ss.mu.Lock()
	s := ss.streams[""]
	ss.mu.Unlock()
	ss.serve(w, r, s, s.sentUpTo())
}

// resume serves the rest of a stream, after the event last.
func (ss *httpSession) resume(w http.ResponseWriter, r *http.Request, last string) {
	id, number, ok := strings.Cut(last, "_")
	n, err := strconv.Atoi(number)
	ss.mu.Lock()
	s := ss.streams[id]
	ss.mu.Unlock()
	if !ok || err != nil || n < 0 || s == nil || !s.has(n) {
		// No 404: that would say that the session is gone.
		http.Error(w, "the events after this Last-Event-ID are no longer kept", http.StatusBadRequest)
		return
	}
	ss.serve(w, r, s, n)
}

func (ss *httpSession) serve(w http.ResponseWriter, r *http.Request, s *stream, after int) {
	defer ss.use()()
	conn := newEventConn(w)
	if !s.connect(conn, after, false) {
		http.Error(w, "the stream is connected already", http.StatusConflict)
		return
	}
	ss.wait(r, s, conn)
	s.disconnect(conn)
}

// wait keeps a response open until its stream has ended, the client has gone
// or the session is over.
func (ss *httpSession) wait(r *http.Request, s *stream, conn *eventConn) {
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for {
		select {
		case <-conn.done:
			return
		case <-alive.C:
			s.comment(conn)
		case <-r.Context().Done():
			return
		case <-ss.ctx.Done():
			return
		}
	}
}

// forget drops the streams that ended before a time.
func (ss *httpSession) forget(before time.Time) {
	ss.mu.Lock()
	all := maps.Clone(ss.streams)
	ss.mu.Unlock()
	// Outside the lock, for a stream's own may be held by a slow client.
	maps.DeleteFunc(all, func(_ string, s *stream) bool { return !s.endedBefore(before) })
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for id := range all {
		delete(ss.streams, id)
	}
	ss.kept = slices.DeleteFunc(ss.kept, func(k keptStream) bool { return ss.streams[k.id] == nil })
}
