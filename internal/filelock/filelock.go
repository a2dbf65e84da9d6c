// Package filelock locks files across processes. Closing a file releases its lock.
package filelock

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Lock locks f. It waits until the lock is free, ctx ends or the timeout is over; a
// timeout of zero is none.
func Lock(ctx context.Context, f *os.File, timeout time.Duration) error {
	const longest = 20 * time.Millisecond
	began := time.Now()
	for wait := time.Millisecond; ; wait = min(2*wait, longest) {
		free, err := try(f)
		if err != nil {
			return fmt.Errorf("locking %s: %w", f.Name(), err)
		}
		if free {
			return nil
		}
		if timeout > 0 && time.Since(began) > timeout {
			return fmt.Errorf("locking %s: %w", f.Name(), context.DeadlineExceeded)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
