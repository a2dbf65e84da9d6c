package aggregator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"toolgate/internal/gate"
	"toolgate/policy"
	"toolgate/sandbox"
)

// An openSession is a session that a call left running.
type openSession struct {
	profile policy.Profile
	worker  *worker
}

// maxRescans is how often a call tries to get a worker that holds everything as
// it is: each time, something more may have come into being.
const maxRescans = 3

// acquire returns the worker for c once it holds what its profile says of names
// and patterns, as the files are now. Where the one that runs cannot be made
// to, it is replaced: what it still does goes on as it began. The caller
// leaves the worker after the call.
func (w *Workers) acquire(ctx context.Context, c gate.Call, f policy.Profile) (*worker, error) {
	for try := 1; ; try++ {
		if wk := w.retiredForSession(c); wk != nil {
			return wk, nil
		}
		wk, started, err := w.get(ctx, c.Caller, f)
		if err != nil {
			return nil, err
		}
		w.retain(wk)
		// A call that changes nothing can only see what it should not.
		harmless := c.Action.ReadOnly && len(f.Hidden) == 0 && !f.Paths.HidesSome()
		if started || harmless || wk.proc.Rescan == nil {
			return wk, nil
		}
		err = wk.proc.Rescan()
		switch {
		case errors.Is(err, sandbox.ErrEnded):
			return wk, nil // the call finds out
		case err == nil:
			return wk, nil
		case errors.Is(err, sandbox.ErrStale) && try < maxRescans:
			w.log.Info("worker replaced", "caller", c.Caller, "profile", f.String(), "why", err)
			w.retire(c.Caller, f, wk)
			w.release(wk)
			continue
		}
		w.release(wk)
		return nil, fmt.Errorf("nothing was run: %w", err)
	}
}

// retiredForSession returns the worker that was replaced and still has the session
// that c goes on with, nil when there is none.
func (w *Workers) retiredForSession(c gate.Call) *worker {
	if c.Action.Session == "" {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.sessions[c.Caller+"\x00"+c.Action.Session]
	if !ok || !s.worker.retired {
		return nil
	}
	s.worker.calls++
	return s.worker
}

func (w *Workers) retain(wk *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wk.calls++
}

// release ends a worker that was replaced, once it has nothing to do.
func (w *Workers) release(wk *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wk.calls--
	w.endIfIdle(wk)
}

// maxRetired is how many workers are kept that were replaced.
const maxRetired = 4

// retire replaces wk: the next call starts another. The caller has entered it.
func (w *Workers) retire(caller string, f policy.Profile, wk *worker) {
	w.drop(caller, f, wk)
	w.mu.Lock()
	defer w.mu.Unlock()
	if wk.retired {
		return
	}
	wk.retired = true
	w.retired = append(w.retired, wk)
	if len(w.retired) > maxRetired {
		oldest := w.retired[0]
		oldest.open = nil
		w.endIfIdle(oldest)
	}
}

// endIfIdle ends wk if it was replaced and has nothing to do. The caller holds
// the lock.
func (w *Workers) endIfIdle(wk *worker) {
	if !wk.retired || wk.calls > 0 || len(wk.open) > 0 || w.closed {
		return
	}
	w.retired = slices.DeleteFunc(w.retired, func(r *worker) bool { return r == wk })
	w.ending.Go(func() { wk.end(w.grace) }) // waited for by Close
}

// recordSession notes what session a call left running, "" when none.
func (w *Workers) recordSession(c gate.Call, session string, f policy.Profile, wk *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if session == "" {
		delete(wk.open, c.Action.Session) // it has ended
		w.endIfIdle(wk)
		return
	}
	if w.sessions == nil || len(w.sessions) >= maxSessions {
		w.sessions = map[string]openSession{}
	}
	w.sessions[c.Caller+"\x00"+session] = openSession{f, wk}
	if wk.open == nil {
		wk.open = map[string]bool{}
	}
	wk.open[session] = true
}
