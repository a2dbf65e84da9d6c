package aggregator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"toolgate/policy"
)

// A Running is a worker that runs.
type Running struct {
	ID      string // unique, and reveals nothing else
	Caller  string
	Profile policy.Profile
	Level   string
}

// Running returns the workers that run.
func (w *Workers) Running() []Running {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []Running
	for k, wk := range w.running {
		if !wk.isReady() {
			continue
		}
		list = append(list, Running{ID: peekID(k), Caller: wk.caller, Profile: wk.profile, Level: wk.proc.Level})
	}
	slices.SortFunc(list, func(a, b Running) int { return strings.Compare(a.Caller+a.ID, b.Caller+b.ID) })
	return list
}

func peekID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:6])
}

func (wk *worker) isReady() bool {
	select {
	case <-wk.ready:
		return wk.link != nil
	default:
		return false
	}
}

// Peek calls a read-only tool on the running worker with that id, for the console. It
// bypasses policy and audit log, so a model must not reach it; it starts no worker.
func (w *Workers) Peek(ctx context.Context, id, tool string, args json.RawMessage) (json.RawMessage, error) {
	w.mu.Lock()
	var found *worker
	for k, wk := range w.running {
		if peekID(k) == id && wk.isReady() {
			found = wk
		}
	}
	w.mu.Unlock()
	if found == nil {
		return nil, errors.New("this worker does not run any more")
	}
	return found.link.do(ctx, &request{method: "tools/call", body: toolCall(tool, args)})
}

// Restart ends the server with that name and starts it again. It waits for
// neither.
func (s *Downstreams) Restart(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.servers[name]
	if old == nil || s.ctx.Err() != nil {
		return fmt.Errorf("there is no server %s any more", name)
	}
	d := newDownstream(s, old.spec)
	d.requestAttempt() // also one that starts only when it is needed
	s.start(d, old, errors.New("it is started again, as the user wished"))
	return nil
}
