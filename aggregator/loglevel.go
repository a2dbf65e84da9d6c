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

// A logLevel is how much a server of the older era is to log: what its clients
// request, or more while a request is under way that asks for it. The zero value
// is ready.
type logLevel struct {
	sent string // the level that the server was told last; under turn

	mu       sync.Mutex
	busy     chan struct{}       // holds an element while somebody has the turn
	requests map[*request]string // of the requests under way
}

// acquire waits until nobody else tells the server its level. It is false when
// ctx ends first; else release must be called.
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

// request notes what a request asks for, "" when it is over.
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

// effective returns the most talkative of level and what the requests ask for.
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

// levelWait is how long a request waits for a server to take its log level.
const levelWait = time.Second

// requestLevel has a server of the older era log at the level that a request of
// the newer one asks for, until done is called. One of the newer era reads it
// in the request.
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

// stateless reports whether a request is of a client of the newer era.
func (r *request) stateless() bool { return r.rounds || r.log != nil }

// routeLog reports whether a log message is done with: given to the request
// that it came for, or nobody's because no client of the older era has any
// under way here. Where the transport does not tell, it is the caller's latest
// request that wants it, and none when several callers have some under way.
func (s *session) routeLog(cause *request, params json.RawMessage) bool {
	params = slices.Clone(params)
	if cause != nil {
		return cause.log != nil && cause.log(params) || cause.stateless()
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
	newer := len(calls) > 0
	for _, c := range calls {
		if c.r.caller != calls[0].r.caller {
			return false // nor does it reach those who see that several wait
		}
		newer = newer && c.r.stateless()
	}
	for _, c := range calls {
		if c.r.log != nil && !c.r.answered.Load() && c.r.log(params) {
			return true
		}
	}
	return newer
}

// logLevels are the levels of MCP, the most talkative first.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// level returns the most talkative level that somebody wants, "" for none.
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

// SetLevel has the servers log at the level that a client wants; "" takes the
// wish back. It returns at once.
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
	if _, err := s.link.do(ctx, &request{method: "logging/setLevel", body: rawjson.Object{{Key: "level", Value: rawjson.Quote(level)}}}); err != nil {
		d.log.Debug("log level not set", "err", err)
		return
	}
	s.logLevel.sent = level
}
