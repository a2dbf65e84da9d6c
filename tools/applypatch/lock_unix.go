//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package applypatch

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile waits for an exclusive lock of f. The lock is released when f is closed
// or the process ends.
func lockFile(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}
