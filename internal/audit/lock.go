package audit

import (
	"os"
	"time"
)

func openLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// lockWait limits the wait for another process, which normally holds the lock for
// microseconds. A stopped process must not block all others.
const lockWait = 2 * time.Second

// acquire locks the file lock; alone is false if it timed out. Then an event can still be
// written, but no file may be renamed.
func acquire(lock *os.File) (release func(), alone bool) {
	for give := time.Now().Add(lockWait); ; {
		if tryLock(lock) == nil {
			return func() { unlock(lock) }, true
		}
		if time.Now().After(give) {
			return func() {}, false
		}
		time.Sleep(time.Millisecond)
	}
}
