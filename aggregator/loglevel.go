package aggregator

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"toolgate/internal/rawjson"
)

// A logLevel is the log level of a session-based server: the level that its clients
// have set, or a more verbose one while a pending request asks for it.
type logLevel struct {
	busy chan struct{} // holds an element while a level is being sent
	sent string        // the level last sent to the server; guarded by busy

	mu       sync.Mutex
	requests map[*request]string // levels of the pending requests
}

// request records the level that r asks for; "" removes it.
func (t *logLevel) request(r *request, level string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests[r] = level
	if level == "" {
		delete(t.requests, r)
	}
}

// effective returns the most verbose of level and the levels of pending requests.
func (t *logLevel) effective(level string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return mostVerbose(level, t.requests)
}

// mostVerbose returns the most verbose of level, which may be "", and the levels in more.
func mostVerbose[K comparable](level string, more map[K]string) string {
	for _, l := range more {
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
	if r.Log == nil || s.stateless || !slices.Contains(logLevels, level) {
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
		return cause.Log != nil && cause.Log(params) || cause.Stateless
	}
	s.mu.Lock()
	latestFirst := func(a, b *request) int { return cmp.Compare(b.number, a.number) }
	calls := slices.SortedFunc(maps.Keys(s.pending), latestFirst)
	s.mu.Unlock()
	stateless := len(calls) > 0
	for _, r := range calls {
		if r.Caller != calls[0].Caller {
			return false // several callers: it could be anybody's
		}
		stateless = stateless && r.Stateless
	}
	for _, r := range calls {
		if r.Log != nil && !r.answered.Load() && r.Log(params) {
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
	return mostVerbose("", w.levels)
}

// SetLevel sets the log level of a client; "" removes it. The servers log at the
// most verbose level that is set. It returns at once.
func (s *Downstreams) SetLevel(client, level string) {
	s.subscriptions.mu.Lock()
	s.subscriptions.levels[client] = level
	if level == "" {
		delete(s.subscriptions.levels, client)
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
	select {
	case s.logLevel.busy <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-s.logLevel.busy }()
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
