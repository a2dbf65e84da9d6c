package audit

import (
	"os"
	"time"
)

// A fileLock serializes the processes that use the same log.
type fileLock struct{ file *os.File }

func openLock(path string) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &fileLock{f}, nil
}

func (l *fileLock) close() { l.file.Close() }

// lockWait limits the wait for another process, which normally holds the lock for
// microseconds. A stopped process must not block all others.
const lockWait = 2 * time.Second

// acquire takes the lock; alone is false if it timed out. Then an event can still be
// written, but no file may be renamed.
func (l *fileLock) acquire() (release func(), alone bool) {
	for give := time.Now().Add(lockWait); ; {
		if tryLock(l.file) == nil {
			return func() { unlock(l.file) }, true
		}
		if time.Now().After(give) {
			return func() {}, false
		}
		time.Sleep(time.Millisecond)
	}
}
