package applypatch

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockFile waits until no other process holds f. The lock ends when f is
// closed, also by the death of the process.
func lockFile(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &windows.Overlapped{})
}
