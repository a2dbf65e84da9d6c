// Package relay has work done by whichever goroutine has news for it.
//
// Work that waits in the usual way sleeps in a goroutine of its own: to wake
// it costs a hand-over between threads, which is more than all else that a
// call through a gateway costs. Here the work is a coroutine. The goroutine
// that starts it gets on with its own loop as soon as the work waits, and the
// one that has what it waited for goes on with the work where it stood.
//
//	var team relay.Team
//	team.Start(ctx, func(ctx context.Context) {
//		…
//		w := relay.Of(ctx)
//		ask(question, func(answer) { …; w.Resume() })
//		w.Wait() // team.Start returns; Resume goes on from here
//	})
//
// Whoever starts or resumes work should not be held up, so the work should not
// block in any other way than by Wait. Before it may, it calls [Leave], and has
// a goroutine of its own from then on. A [Baton] sees to work that does not.
package relay

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
)

// A Team keeps what runs work, because its stacks have grown to what the work
// needs. The zero value is ready. Close it.
type Team struct {
	mu     sync.Mutex
	closed bool
	idle   []*runner
}

// maxIdle is how many idle runners are kept.
const maxIdle = 4

// A Work is work under way.
type Work struct {
	run   func(context.Context)
	by    *runner
	state atomic.Int32
	left  atomic.Bool
}

// What a Work's state may be.
const (
	running int32 = iota
	waiting
	resumed // before it came to wait
)

// A runner is a coroutine that does one piece of work after the other.
type runner struct {
	team *Team
	work *Work
	ctx  context.Context
	next func() (event, bool)
	stop func()
	tell func(event) bool
}

// An event is why a runner gives the goroutine back that runs it.
type event int

const (
	done event = iota
	waits
	leaves
)

type key struct{}

// Start runs f, with a context from which [Of] returns its Work, and returns
// when f has ended, waits or leaves.
func (t *Team) Start(ctx context.Context, f func(context.Context)) {
	r := t.take()
	w := &Work{run: f, by: r}
	r.work, r.ctx = w, context.WithValue(ctx, key{}, w)
	w.drive()
}

// Close ends the idle runners; those that work end with it.
func (t *Team) Close() {
	t.mu.Lock()
	t.closed = true
	idle := t.idle
	t.idle = nil
	t.mu.Unlock()
	for _, r := range idle {
		r.stop()
	}
}

func (t *Team) take() *runner {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.idle); n > 0 {
		r := t.idle[n-1]
		t.idle = t.idle[:n-1]
		return r
	}
	r := &runner{team: t}
	r.next, r.stop = iter.Pull(r.loop) // ends with stop
	return r
}

// give takes a runner back that has done its work.
func (t *Team) give(r *runner) {
	t.mu.Lock()
	keep := !t.closed && len(t.idle) < maxIdle
	if keep {
		t.idle = append(t.idle, r)
	}
	t.mu.Unlock()
	if !keep {
		r.stop()
	}
}

func (r *runner) loop(tell func(event) bool) {
	r.tell = tell
	for {
		r.work.run(r.ctx)
		r.work, r.ctx = nil, nil
		if !tell(done) {
			return
		}
	}
}

// drive runs the work on this goroutine until it gives it back.
func (w *Work) drive() {
	r := w.by
	for {
		switch e, _ := r.next(); e {
		case done:
			r.team.give(r)
			return
		case leaves:
			go w.drive() // ends with the work, which does not wait here again
			return
		}
		if w.state.CompareAndSwap(running, waiting) {
			return
		}
		w.state.Store(running)
	}
}

// Of returns the work that ctx is of, nil where there is none, or where it has
// left: then it may block.
func Of(ctx context.Context) *Work {
	w, _ := ctx.Value(key{}).(*Work)
	if w == nil || w.left.Load() {
		return nil
	}
	return w
}

// Wait returns when Resume is called, which may have been before. The work
// calls it, once for each Resume.
func (w *Work) Wait() {
	if !w.state.CompareAndSwap(resumed, running) {
		w.by.tell(waits)
	}
}

// Resume goes on with work that waits, and returns when that has ended, or
// waits or leaves again. Work that is yet to wait will not do so.
func (w *Work) Resume() {
	for {
		if w.state.CompareAndSwap(waiting, running) {
			w.drive()
			return
		}
		if w.state.CompareAndSwap(running, resumed) {
			return
		}
	}
}

// Leave gives the work that ctx is of a goroutine of its own, if it has none:
// what follows may block.
func Leave(ctx context.Context) {
	if w := Of(ctx); w != nil {
		w.left.Store(true)
		w.by.tell(leaves)
	}
}
