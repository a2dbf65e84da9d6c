package aggregator

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"toolgate/internal/rawjson"
)

// A logLevel is the log level of a session-based server: the level that its clients
// have set, or a more verbose one while a pending request asks for it. The zero
// value is ready to use.
type logLevel struct {
	sent string // the level last sent to the server; guarded by busy

	mu       sync.Mutex
	busy     chan struct{}       // holds an element between acquire and release
	requests map[*request]string // levels of the pending requests
}

// acquire waits for the right to send the server a level. If it returns true, the
// caller must call release; it returns false if ctx ends first.
func (t *logLevel) acquire(ctx context.Context) bool {
	t.mu.Lock()
	if t.busy == nil {
		t.busy = make(chan struct{}, 1)
	}
	busy := t.busy
	t.mu.Unlock()
	select {
	case busy <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *logLevel) release() { <-t.busy }

// request records the level that r asks for; "" removes it.
func (t *logLevel) request(r *request, level string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requests == nil {
		t.requests = map[*request]string{}
	}
	t.requests[r] = level
	if level == "" {
		delete(t.requests, r)
	}
}

// effective returns the most verbose of level and the levels of pending requests.
func (t *logLevel) effective(level string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.requests {
		if level == "" || slices.Index(logLevels, l) < slices.Index(logLevels, level) {
			level = l
		}
	}
	return level
}

// levelWait is how long a request waits for the server to accept its log level.
const levelWait = time.Second

// requestLevel makes a session-based server log at the level that a stateless
// request asks for, until done is called. A stateless server reads the level from
// the request.
func (s *session) requestLevel(ctx context.Context, r *request) (done func()) {
	level := r.meta.Text(metaLogLevel)
	if r.log == nil || s.stateless || !slices.Contains(logLevels, level) {
		return func() {}
	}
	s.logLevel.request(r, level)
	ctx, cancel := context.WithTimeout(ctx, levelWait)
	defer cancel()
	s.d.setLevel(ctx, s)
	return func() {
		s.logLevel.request(r, "")
		go s.d.setLevel(s.d.set.ctx, s) // ends with the answer
	}
}

// routeLog reports whether a log message has been handled: passed to the request
// that it belongs to, or dropped because only stateless requests are pending and
// none of them wants it. If the transport does not tell the request (cause is nil),
// it goes to the caller's latest request that wants it, and to none if requests of
// several callers are pending.
func (s *session) routeLog(cause *request, params json.RawMessage) bool {
	params = slices.Clone(params)
	if cause != nil {
		return cause.log != nil && cause.log(params) || cause.stateless
	}
	type call struct {
		r      *request
		number int
	}
	var calls []call
	s.mu.Lock()
	for r, w := range s.pending {
		calls = append(calls, call{r, w.number})
	}
	s.mu.Unlock()
	slices.SortFunc(calls, func(a, b call) int { return cmp.Compare(b.number, a.number) })
	stateless := len(calls) > 0
	for _, c := range calls {
		if c.r.caller != calls[0].r.caller {
			return false // several callers: it could be anybody's
		}
		stateless = stateless && c.r.stateless
	}
	for _, c := range calls {
		if c.r.log != nil && !c.r.answered.Load() && c.r.log(params) {
			return true
		}
	}
	return stateless
}

// logLevels are the log levels of MCP, the most verbose first.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// level returns the most verbose level that a client has set, "" for none.
func (w *subscriptions) level() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	best := ""
	for _, l := range w.levels {
		if best == "" || slices.Index(logLevels, l) < slices.Index(logLevels, best) {
			best = l
		}
	}
	return best
}

// SetLevel sets the log level of a client; "" removes it. The servers log at the
// most verbose level that is set. It returns at once.
func (s *Downstreams) SetLevel(client, level string) {
	s.subscriptions.mu.Lock()
	if s.subscriptions.levels == nil {
		s.subscriptions.levels = map[string]string{}
	}
	if level == "" {
		delete(s.subscriptions.levels, client)
	} else {
		s.subscriptions.levels[client] = level
	}
	s.subscriptions.mu.Unlock()
	for _, d := range s.all() {
		if session := d.currentSession(); session != nil {
			go d.setLevel(s.ctx, session) // ends with the answer
		}
	}
}

// setLevel sends the effective log level to the server, if it has changed.
func (d *Downstream) setLevel(ctx context.Context, s *session) {
	if s.stateless || !s.initial.has("logging") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if !s.logLevel.acquire(ctx) {
		return
	}
	defer s.logLevel.release()
	level := s.logLevel.effective(d.set.subscriptions.level())
	if level == "" || level == s.logLevel.sent {
		return
	}
	body := rawjson.Object{{Key: "level", Value: rawjson.Quote(level)}}
	if _, err := s.link.do(ctx, &request{method: "logging/setLevel", body: body}); err != nil {
		d.log.Debug("setting the log level failed", "err", err)
		return
	}
	s.logLevel.sent = level
}
