// Package filelock locks files across processes. Closing a file releases its lock.
package filelock

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Lock locks f. It waits until the lock is free or ctx ends.
func Lock(ctx context.Context, f *os.File) error {
	const longest = 20 * time.Millisecond
	for wait := time.Millisecond; ; wait = min(2*wait, longest) {
		free, err := try(f)
		if err != nil {
			return fmt.Errorf("locking %s: %w", f.Name(), err)
		}
		if free {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
