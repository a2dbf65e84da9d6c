package audit

import (
	"os"
	"time"
)

// A fileLock keeps processes apart that write the same record.
type fileLock struct{ file *os.File }

func openLock(path string) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &fileLock{f}, nil
}

func (l *fileLock) close() { l.file.Close() }

// lockWait is how long another process may hold the lock, which it does for
// microseconds. One that was stopped meanwhile must not stop everybody.
const lockWait = 2 * time.Second

// take takes the lock; alone is false when it could not be had. An event is
// written all the same then, but nothing is renamed.
func (l *fileLock) take() (release func(), alone bool) {
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
