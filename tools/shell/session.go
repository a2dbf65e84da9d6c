package shell

import (
	"crypto/rand"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"toolgate/tools"
)

// maxSessions is the maximum number of sessions, including ended ones.
const maxSessions = 64

// A session is a command that outlived the call that started it, or whose
// output did not fit the answer.
type session struct {
	*process
	id int64

	// The fields below are guarded by the table's lock.
	used      time.Time // time of the last call for it
	delivered int64     // bytes of the output that the caller has received
	lines     int64     // lines among them

	endReported atomic.Bool // the caller knows that the command has ended
}

// A table holds the sessions.
type table struct {
	mu       sync.Mutex
	sessions map[int64]*session
}

// keep makes p a session with no output delivered. If there are too many sessions, it
// removes one from the table and returns it as out: an ended one if there is one, and
// the least recently used.
func (t *table) keep(p *process) (s, out *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.sessions) >= maxSessions {
		out = t.evictionCandidate()
		delete(t.sessions, out.id)
	}
	s = &session{process: p, id: newID(), used: time.Now()}
	for t.sessions[s.id] != nil {
		s.id = newID()
	}
	t.sessions[s.id] = s
	return s, out
}

func (t *table) evictionCandidate() *session {
	return slices.MinFunc(t.list(), func(a, b *session) int {
		if a.hasEnded() != b.hasEnded() {
			if a.hasEnded() {
				return -1
			}
			return 1
		}
		return a.used.Compare(b.used)
	})
}

func (t *table) list() []*session {
	return slices.SortedFunc(maps.Values(t.sessions), func(a, b *session) int { return a.started.Compare(b.started) })
}

// all returns the sessions, oldest first.
func (t *table) all() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.list()
}

// clear removes all sessions from the table and returns them.
func (t *table) clear() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.list()
	clear(t.sessions)
	return all
}

// find returns the session named id. Its error is for the model.
func (t *table) find(id int64) (*session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[id]
	if s == nil {
		return nil, fmt.Errorf("unknown session %d; list_sessions names those that there are", id)
	}
	s.used = time.Now()
	return s, nil
}

// unread returns the range of the output that the caller has not received.
func (t *table) unread(s *session) (from, to int64) {
	to, _ = s.out.size()
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.delivered, to
}

// A chunk is the output between two answers.
type chunk struct {
	from, to int64 // bytes
	lines    int64
}

// take returns the unread output and marks it as delivered. While the command is
// running, an incomplete character is left for the next call. finished means that the
// answer will report the end of the command.
func (t *table) take(s *session, finished bool) chunk {
	to, lines := s.out.size()
	if !finished {
		last := s.out.read(max(to-4, 0), to)
		to -= int64(len(last) - len(tools.WholeRunes(last)))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := chunk{s.delivered, max(s.delivered, to), max(0, lines-s.lines)}
	s.delivered, s.lines = c.to, lines
	if finished {
		s.endReported.Store(true)
	}
	return c
}

// newID returns a session id of 15 digits: too many to be guessed, and few enough to
// survive a client that reads numbers as floating point.
func newID() int64 {
	n, err := rand.Int(rand.Reader, big.NewInt(900_000_000_000_000))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return 100_000_000_000_000 + n.Int64()
}
