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

// maxRescans is how often a call tries to get a worker with an up-to-date sandbox:
// more files may have appeared each time.
const maxRescans = 3

// acquire returns the worker for c, with a sandbox that covers the names and patterns
// of its profile as the files are now. A running worker whose sandbox cannot be
// updated is replaced; it finishes its calls and sessions as it is. The caller must
// release the worker after the call.
func (w *Workers) acquire(ctx context.Context, c gate.Call, f policy.Profile) (*worker, error) {
	for try := 1; ; try++ {
		if wk := w.retiredForSession(c); wk != nil {
			return wk, nil
		}
		wk, started, err := w.get(ctx, c.Caller, f)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		wk.calls++
		w.mu.Unlock()
		// A read-only call can do no harm if the profile hides nothing.
		harmless := c.Action.ReadOnly && len(f.Hidden) == 0 && !f.Paths.HidesSome()
		if started || harmless || wk.proc.Rescan == nil {
			return wk, nil
		}
		err = wk.proc.Rescan()
		if err == nil || errors.Is(err, sandbox.ErrEnded) { // then the call will fail
			return wk, nil
		}
		stale := errors.Is(err, sandbox.ErrStale) && try < maxRescans
		if stale {
			w.log.Info("worker replaced", "caller", c.Caller, "profile", f.String(), "why", err)
			w.retire(wk)
		}
		w.release(wk)
		if !stale {
			return nil, fmt.Errorf("nothing was run: %w", err)
		}
	}
}

// retiredForSession returns the replaced worker that runs the session which c
// continues, nil when there is none.
func (w *Workers) retiredForSession(c gate.Call) *worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	wk := w.sessions[c.Caller+"\x00"+c.Action.Session]
	if wk == nil || !wk.retired {
		return nil
	}
	wk.calls++
	return wk
}

// release ends the caller's use of wk. An idle worker that was replaced is stopped.
func (w *Workers) release(wk *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wk.calls--
	w.endIfIdle(wk)
}

// maxRetired is the number of replaced workers that are kept for their sessions.
const maxRetired = 4

// retire makes the next call start another worker. wk must have a call under way.
func (w *Workers) retire(wk *worker) {
	w.drop(wk)
	w.mu.Lock()
	defer w.mu.Unlock()
	if wk.retired {
		return
	}
	wk.retired = true
	w.retired = append(w.retired, wk)
	if len(w.retired) > maxRetired {
		oldest := w.retired[0]
		clear(oldest.open)
		w.endIfIdle(oldest)
	}
}

// endIfIdle stops wk if it was replaced and is idle. w.mu must be held.
func (w *Workers) endIfIdle(wk *worker) {
	if !wk.retired || wk.calls > 0 || len(wk.open) > 0 || w.closed {
		return
	}
	w.retired = slices.DeleteFunc(w.retired, func(r *worker) bool { return r == wk })
	w.ending.Go(wk.end) // waited for by Close
}

// recordSession records the session that call c left running, "" for none.
func (w *Workers) recordSession(c gate.Call, session string, wk *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if session == "" {
		delete(wk.open, c.Action.Session) // it has ended
		w.endIfIdle(wk)
		return
	}
	if len(w.sessions) >= maxSessions {
		clear(w.sessions)
	}
	w.sessions[c.Caller+"\x00"+session] = wk
	wk.open[session] = true
}
