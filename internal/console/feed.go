package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"toolgate/internal/approvals"
	"toolgate/internal/audit"
)

const (
	maxStreams      = 6  // of one browser
	maxStreamsAll   = 24 // in total
	firstCalls      = 200
	fastInterval    = 250 * time.Millisecond // between checks for approvals
	slowInterval    = time.Second            // between checks of the other views
	heartbeat       = 15 * time.Second
	writeTimeout    = 10 * time.Second // for one event
	maxEventBytes   = 8 << 20
	callsBufferSize = 64
)

// events serves server-sent events. "approvals", "servers", "sessions" and "rules" each
// carry a whole view when it has changed; "call" carries one call.
func (c *Console) events(w http.ResponseWriter, r *http.Request, v *browserSession) (any, error) {
	if !c.logins.openStream(v, &c.streams) {
		return nil, &failure{http.StatusTooManyRequests, errors.New("too many pages are open; close one")}
	}
	defer c.streams.Done()
	defer c.logins.closeStream(v)
	ctx, cancel := context.WithDeadline(r.Context(), v.until)
	defer cancel()
	stop := context.AfterFunc(c.life, cancel)
	defer stop()

	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Time{}) // the server's read timeout must not end the stream
	s := &stream{w: w, rc: rc, sent: map[string][]byte{}}
	calls := c.followCalls(ctx)
	fast, slow, beat := time.NewTicker(fastInterval), time.NewTicker(slowInterval), time.NewTicker(heartbeat)
	defer fast.Stop()
	defer slow.Stop()
	defer beat.Stop()
	s.raw(": open\n\n")
	c.sendApprovals(s)
	c.sendViews(ctx, s)
	for s.err == nil {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-v.ended:
			return nil, nil
		case call := <-calls:
			s.send("call", call)
		case <-fast.C:
			c.sendApprovals(s)
		case <-slow.C:
			c.sendViews(ctx, s)
		case <-beat.C:
			s.raw(": still here\n\n")
		}
	}
	return nil, nil
}

// openStream counts a new stream and adds it to busy under the lock, so that [Console.Close] cannot miss it.
func (l *logins) openStream(v *browserSession, busy *sync.WaitGroup) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := 0
	for _, other := range l.sessions {
		all += other.streams
	}
	if l.closed || v.streams >= maxStreams || all >= maxStreamsAll {
		return false
	}
	v.streams++
	busy.Add(1)
	return true
}

func (l *logins) closeStream(v *browserSession) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v.streams--
}

// A call is one event of the record with a short description.
type call struct {
	Event   json.RawMessage `json:"event"`
	Subject string          `json:"subject"`
}

// followCalls returns a channel with the calls of the record. It ends with ctx.
func (c *Console) followCalls(ctx context.Context) <-chan call {
	calls := make(chan call, callsBufferSize)
	if c.opts.Record == "" {
		return calls
	}
	c.streams.Go(func() { // ends with ctx
		err := audit.Follow(ctx, c.opts.Record, audit.Filter{Last: firstCalls}, func(e audit.Entry) error {
			select {
			case calls <- call{bytes.Clone(e.Line), e.Subject()}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil && ctx.Err() == nil {
			c.log.Warn("console: following the record", "err", err)
		}
	})
	return calls
}

func (c *Console) sendApprovals(s *stream) {
	if c.opts.Approvals == nil {
		return
	}
	list, err := c.opts.Approvals.Waiting()
	s.changed("approvals", map[string]any{
		"list": orEmpty(list), "error": text(err), "lifetime": int(approvals.Lifetime / time.Second),
	})
}

func (c *Console) sendViews(ctx context.Context, s *stream) {
	if c.opts.Servers != nil {
		s.changed("servers", map[string]any{"list": orEmpty(c.opts.Servers.List())})
	}
	if c.opts.Sessions != nil {
		s.changed("sessions", map[string]any{"list": orEmpty(c.opts.Sessions.List(ctx))})
	}
	if c.opts.Rules != nil {
		list, err := c.opts.Rules.Files()
		s.changed("rules", map[string]any{
			"list": orEmpty(list), "error": text(err), "remembered": c.opts.Rules.Remembered(),
		})
	}
}

// orEmpty returns list, which JSON shows as [] even if it is nil.
func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A stream writes server-sent events to one browser.
type stream struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	sent map[string][]byte // last data by event
	err  error
}

// changed sends v unless it equals the last data of this event.
func (s *stream) changed(event string, v any) {
	b, err := json.Marshal(v)
	if err == nil && bytes.Equal(s.sent[event], b) {
		return
	}
	s.sent[event] = b
	s.send(event, json.RawMessage(b))
}

func (s *stream) send(event string, v any) {
	b, err := json.Marshal(v) // no line breaks
	if err != nil || len(b) > maxEventBytes {
		b, _ = json.Marshal(map[string]any{
			"list": []any{}, "error": fmt.Sprintf("too large to show (%d bytes)", len(b)),
		})
	}
	s.raw("event: " + event + "\ndata: " + string(b) + "\n\n")
}

func (s *stream) raw(text string) {
	if s.err != nil {
		return
	}
	s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // if unsupported, the server's write timeout applies
	if _, s.err = s.w.Write([]byte(text)); s.err == nil {
		s.err = s.rc.Flush()
	}
}
