//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package applypatch

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile waits until no other process holds f. The lock ends when f is
// closed, also by the death of the process.
func lockFile(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}
