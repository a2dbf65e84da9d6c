package server

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Limits of what is kept for clients that come back.
const (
	keepEvents    = 2 * time.Minute  // after the end of a stream
	maxKeptEvents = 256              // of one stream
	maxKeptBytes  = 1 << 20          // of one stream, beside its last event
	maxKeptRead   = 4 << 20          // of a session's streams that have ended
	maxKeptUnread = 64 << 20         // of them, when the client has not got them
	keepAlive     = 25 * time.Second // between signs of life on a quiet stream
	writeLimit    = 30 * time.Second // that a client may take over one event
)

// A stream is a sequence of events to a client: what belongs to one of its
// requests, or to none. Events are numbered from 1 and kept for a while, so
// that a client whose connection broke gets them over the next.
type stream struct {
	id string // "" for the stream that belongs to no request

	cancelled bool // the client has cancelled the request; guarded by the session's lock

	mu     sync.Mutex
	conn   *eventConn // nil while it is not connected
	events []event    // those kept, in order
	next   int        // number of the next event, less one
	sent   int        // number of the last event that was written
	bytes  int
	done   bool // the answer is among the events
	ended  time.Time
}

type event struct {
	number int
	data   []byte // nil for the first, which only says that one can come back
}

// An eventConn is a response that carries events.
type eventConn struct {
	w    http.ResponseWriter
	ctl  *http.ResponseController
	done chan struct{} // closed when nothing more will be written
}

func newEventConn(w http.ResponseWriter) *eventConn {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	return &eventConn{w: w, ctl: http.NewResponseController(w), done: make(chan struct{})}
}

func (c *eventConn) write(b []byte) error {
	// Not every writer has deadlines; then the server's own count.
	_ = c.ctl.SetWriteDeadline(time.Now().Add(writeLimit))
	if _, err := c.w.Write(b); err != nil {
		return err
	}
	return c.ctl.Flush()
}

// connect has events written to conn from now on, those after number after
// at once. prime sends the event that a client can come back with before
// there is any other. It is false when the stream is connected already.
func (s *stream) connect(conn *eventConn, after int, prime bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		return false
	}
	s.conn = conn
	if prime {
		s.add(nil)
	}
	if s.id == "" { // long without events; the headers must not wait for one
		s.write([]byte(": ok\n\n"))
	}
	for _, e := range s.events {
		if e.number > after {
			s.writeEvent(e)
		}
	}
	if s.done {
		s.finish()
	}
	return true
}

// disconnect says that conn will not be written to any more.
func (s *stream) disconnect(conn *eventConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == conn {
		s.conn = nil
	}
}

// send adds an event; last says that it is the answer. It reports whether the
// client has got it.
func (s *stream) send(data []byte, last bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeEvent(s.add(data))
	if last {
		s.done, s.ended = true, time.Now()
		s.finish()
	}
	return s.sent == s.next
}

// end ends the stream without an answer.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done, s.ended = true, time.Now()
	s.finish()
}

// add keeps an event and drops those that are too many.
func (s *stream) add(data []byte) event {
	s.next++
	e := event{number: s.next, data: data}
	s.events = append(s.events, e)
	s.bytes += len(data)
	for len(s.events) > 1 && (len(s.events) > maxKeptEvents || s.bytes > maxKeptBytes) {
		s.bytes -= len(s.events[0].data)
		s.events = s.events[1:]
	}
	return e
}

func (s *stream) writeEvent(e event) {
	if s.conn == nil {
		return
	}
	var b bytes.Buffer
	b.Grow(len(e.data) + 64)
	fmt.Fprintf(&b, "id: %s_%d\n", s.id, e.number)
	if e.data != nil {
		b.WriteString("event: message\n")
	}
	fmt.Fprintf(&b, "data: %s\n\n", e.data)
	if s.write(b.Bytes()) {
		s.sent = max(s.sent, e.number)
	}
}

// write is false when the client has gone; then it may come back.
func (s *stream) write(b []byte) bool {
	if err := s.conn.write(b); err != nil {
		s.finish()
		return false
	}
	return true
}

// finish lets go of the connection.
func (s *stream) finish() {
	if s.conn != nil {
		close(s.conn.done)
		s.conn = nil
	}
}

// comment writes a sign of life.
func (s *stream) comment(conn *eventConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == conn {
		s.write([]byte(": alive\n\n"))
	}
}

func (s *stream) isDone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

func (s *stream) sentUpTo() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// has reports whether all events after number n are kept.
func (s *stream) has(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.next {
		return false
	}
	return n == s.next || len(s.events) > 0 && s.events[0].number <= n+1
}

// endedBefore is false for the stream that belongs to no request: it has no
// end but the session's.
func (s *stream) endedBefore(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done && s.conn == nil && s.ended.Before(t)
}
