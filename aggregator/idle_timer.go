package aggregator

import (
	"sync"
	"time"
)

// An idleTimer calls late once it has run for d without a restart. It does not
// run while it is held.
type idleTimer struct {
	d    time.Duration
	late func()

	mu    sync.Mutex
	timer *time.Timer
	end   time.Time // when it expires, unless it is held
	held  int
	over  bool // it was stopped, or has called late
}

// newIdleTimer returns a running timer. The caller must call stop.
func newIdleTimer(d time.Duration, late func()) *idleTimer {
	t := &idleTimer{d: d, late: late, end: time.Now().Add(d)}
	t.timer = time.AfterFunc(d, t.expire)
	return t
}

func (t *idleTimer) expire() {
	t.mu.Lock()
	expired := !t.over && t.held == 0 && !time.Now().Before(t.end) // else it was changed meanwhile
	t.over = t.over || expired
	t.mu.Unlock()
	if expired {
		t.late()
	}
}

// restart has the timer run for d from now on.
func (t *idleTimer) restart() { t.change(0) }

// hold stops the timer until resume has been called as often as hold.
func (t *idleTimer) hold() { t.change(1) }

// resume ends a hold. After the last one the timer starts anew.
func (t *idleTimer) resume() { t.change(-1) }

func (t *idleTimer) change(held int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held += held
	switch {
	case t.over:
	case t.held > 0:
		t.timer.Stop()
	default:
		t.end = time.Now().Add(t.d)
		t.timer.Reset(t.d)
	}
}

func (t *idleTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.timer.Stop()
}
