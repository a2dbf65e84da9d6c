package relay

import (
	"sync"
	"time"
)

// patience is how long a loop may be held up before another goroutine takes
// it over: longer than what does not block ever takes on a free machine.
const patience = 10 * time.Millisecond

// maxHeldUp is how many turns may be held up at a time. With more, the loop
// waits as well: what it reads would pile up.
const maxHeldUp = 64

// A Baton is with the goroutine that runs a loop for all, such as one that
// reads messages and sees to each. When that is held up by a message, another
// goroutine gets the baton and goes on with the loop. The zero value is ready.
//
//	for {
//		m := read()
//		turn := baton.Begin(goOn)
//		see(m)
//		if !baton.End(turn) {
//			return // goOn runs the loop
//		}
//	}
//
// It is for what blocks although it should not, which must hold up neither
// what comes after it nor, if that is what it waits for, itself. To call
// [Leave] in time is cheaper.
type Baton struct {
	mu    sync.Mutex
	turn  int64  // counts what was begun
	goOn  func() // with the turn under way; nil when there is none
	held  int    // turns under way that have lost the baton
	seen  int64  // the turn when the clock was looked at last
	runs  bool   // the clock
	clock *time.Timer
}

// Begin says that what follows, until End, may take its time. If it takes too
// much, goOn is called in a goroutine of its own, in which it may stay.
func (b *Baton) Begin(goOn func()) (turn int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	b.goOn = goOn
	if !b.runs {
		b.runs, b.seen = true, b.turn
		if b.clock == nil {
			b.clock = time.AfterFunc(patience, b.look)
		} else {
			b.clock.Reset(patience)
		}
	}
	return b.turn
}

// End reports whether the caller still has the baton.
func (b *Baton) End(turn int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.turn != turn || b.goOn == nil {
		b.held--
		return false
	}
	b.goOn = nil
	return true
}

// look passes the baton on when it finds the same turn as last time, and stops
// the clock when it finds that nothing happens.
func (b *Baton) look() {
	b.mu.Lock()
	same := b.turn == b.seen
	b.seen = b.turn
	if !same || b.goOn != nil && b.held == maxHeldUp {
		b.clock.Reset(patience)
		b.mu.Unlock()
		return
	}
	goOn := b.goOn
	b.goOn, b.runs = nil, false
	if goOn != nil {
		b.held++
	}
	b.mu.Unlock()
	if goOn != nil {
		goOn()
	}
}
