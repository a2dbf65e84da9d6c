package aggregator

import (
	"sync"
	"time"
)

// alarms ring for the clocks that have run out. They share one timer, because
// to set one for each call would have the runtime wake a thread that waits for
// it, and nearly no call takes so long. The zero value is ready.
type alarms struct {
	mu     sync.Mutex
	clocks map[*clock]struct{}
	timer  *time.Timer
	next   time.Time // when it rings; zero: it does not
}

// A clock calls late when it has run for d since it was last restarted. While
// it is held it stands still.
type clock struct {
	of   *alarms
	d    time.Duration
	late func()

	// Under of.mu.
	end  time.Time
	held int
}

// start returns a clock that runs. Stop must be called.
func (a *alarms) start(d time.Duration, late func()) *clock {
	c := &clock{of: a, d: d, late: late}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.clocks == nil {
		a.clocks = map[*clock]struct{}{}
	}
	a.clocks[c] = struct{}{}
	a.wind(c, time.Now())
	return c
}

// wind has c run for its time from now on. a.mu is held.
func (a *alarms) wind(c *clock, now time.Time) {
	c.end = now.Add(c.d)
	if !a.next.IsZero() && !c.end.Before(a.next) {
		return // ring sees then how long it still has
	}
	a.next = c.end
	if a.timer == nil {
		a.timer = time.AfterFunc(c.d, a.ring)
	} else {
		a.timer.Reset(c.d)
	}
}

// ring calls those that are late and sets the timer for the next one.
func (a *alarms) ring() {
	a.mu.Lock()
	now := time.Now()
	var late []func()
	a.next = time.Time{}
	for c := range a.clocks {
		switch {
		case c.held > 0:
		case !c.end.After(now):
			late = append(late, c.late)
			delete(a.clocks, c)
		case a.next.IsZero() || c.end.Before(a.next):
			a.next = c.end
		}
	}
	if !a.next.IsZero() {
		a.timer.Reset(a.next.Sub(now))
	}
	a.mu.Unlock()
	for _, f := range late {
		f()
	}
}

func (c *clock) restart() { c.change(0) }
func (c *clock) hold()    { c.change(1) }
func (c *clock) resume()  { c.change(-1) }

func (c *clock) change(by int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.held += by
	if _, runs := c.of.clocks[c]; runs && c.held == 0 {
		c.of.wind(c, time.Now())
	}
}

func (c *clock) stop() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	delete(c.of.clocks, c)
}
