package gate

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// turnLock is a fair read/write lock whose wait can be cancelled: calls that
// only read share it, any other call holds it alone.
type turnLock struct {
	once sync.Once
	sem  *semaphore.Weighted
}

const maxParallel = 1 << 10 // calls at once

// turn waits until the call may use the workspace, and returns the function
// that ends its turn. A call of a downstream server needs no turn: it does not
// work on the workspace, and it may wait for a person. A call that continues a
// session needs none either: its command runs anyway, and waiting for it must
// not block other calls.
func (g *Gate) turn(ctx context.Context, c Call) (done func(), err error) {
	if c.Action.Server != "" || c.Action.Session != "" {
		return func() {}, nil
	}
	g.turns.once.Do(func() { g.turns.sem = semaphore.NewWeighted(maxParallel) })
	n := int64(maxParallel)
	if c.Action.ReadOnly {
		n = 1
	}
	if err := g.turns.sem.Acquire(ctx, n); err != nil {
		return nil, err
	}
	return func() { g.turns.sem.Release(n) }, nil
}
