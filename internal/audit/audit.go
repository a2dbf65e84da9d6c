// Package audit keeps the audit log, which has one line of JSON per call.
//
//	log, err := audit.Open(dir)
//	gate.Record = log.Record
//	…
//	err = audit.Read(dir, audit.Filter{Tool: "shell"}, func(e audit.Entry) error { … })
//
// The log contains arguments of calls, so only its owner can read it, and no tool can read
// or write its folder. Secrets that are recognizable by name or shape are redacted, see
// [Redact], and long values are truncated. Large files are rotated under a number, and the
// oldest one is deleted. Several processes may write and read the log at the same time.
//
// A line is written when its call ends: calls that run while the gate is killed are
// missing.
package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"toolgate/internal/filelock"
	"toolgate/internal/gate"
)

const (
	fileName = "audit.jsonl"
	lockName = "audit.lock"
)

// Limits of the log.
const (
	maxFileSize = 16 << 20 // bytes of a file before it is rotated
	maxRotated  = 5        // rotated files
)

// A Log is an open audit log. The caller must close it. It may be used concurrently.
type Log struct {
	path        string
	maxFileSize int64
	maxRotated  int
	lock        *os.File // serializes the processes that use the log

	mu   sync.Mutex
	file *os.File // kept open between events; nil if closed
	info os.FileInfo
	size int64 // of the file after our last write
	err  error // the first write that failed
	lost int   // events that could not be written
}

// Open opens the log in dir, which is created if missing.
func Open(dir string) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of the audit log: %w", err)
	}
	l := &Log{path: filepath.Join(dir, fileName), maxFileSize: maxFileSize, maxRotated: maxRotated}
	f, err := l.open()
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	defer f.Close()
	err = f.Chmod(0o600)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("restricting access to the audit log: %w", err)
	}
	if l.lock, err = openLock(filepath.Join(dir, lockName)); err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	return l, nil
}

func (l *Log) open() (*os.File, error) {
	return os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
}

// Record appends one event. [Log.Close] reports write errors.
func (l *Log) Record(e gate.Event) {
	line := encode(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.write(line); err != nil {
		l.lost++
		l.err = cmp.Or(l.err, err)
	}
}

// encode returns the redacted line for an event.
func encode(e gate.Event) []byte {
	e = clean(e)
	line, err := json.Marshal(e)
	if err != nil {
		line, _ = json.Marshal(gate.Event{
			Time: e.Time, ID: e.ID, Tool: e.Tool, Outcome: e.Outcome,
			Error: "encoding the event: " + err.Error(),
		})
	}
	return append(line, '\n')
}

// write appends line with one system call, so that lines of several processes do not mix.
func (l *Log) write(line []byte) error {
	alone := acquire(l.lock)
	defer filelock.Unlock(l.lock)
	size, err := l.ensureOpen()
	if err != nil {
		return err
	}
	if alone && size > 0 && size+int64(len(line)) > l.maxFileSize {
		l.closeFile()
		l.rotate() // if it fails, the file grows past the limit
		if size, err = l.ensureOpen(); err != nil {
			return err
		}
	}
	last := []byte{'\n'}
	if size > 0 && size != l.size { // another process wrote last
		if _, err := l.file.ReadAt(last, size-1); err != nil {
			last[0] = '\n'
		}
	}
	if last[0] != '\n' {
		line = append([]byte{'\n'}, line...) // after a line that a crash left incomplete
	}
	n, err := l.file.Write(line)
	l.size = size + int64(n)
	if err != nil || !keepOpen {
		err = errors.Join(err, l.closeFile())
	}
	return err
}

func openLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// lockWait limits the wait for another process, which normally holds the lock for
// microseconds. A stopped process must not block all others.
const lockWait = 2 * time.Second

// acquire locks the file lock and reports whether that worked. If not, an event can still
// be written, but no file may be renamed.
func acquire(lock *os.File) (alone bool) {
	return filelock.Lock(context.Background(), lock, lockWait) == nil
}

// keepOpen is whether the file stays open between events, where an open file can be renamed.
const keepOpen = runtime.GOOS != "windows"

// ensureOpen opens the current file, which another process may have rotated, and returns
// its size.
func (l *Log) ensureOpen() (size int64, err error) {
	if l.file != nil {
		info, err := os.Stat(l.path)
		if err == nil && os.SameFile(info, l.info) {
			return info.Size(), nil
		}
		l.closeFile()
	}
	f, err := l.open()
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return 0, err
	}
	l.file, l.info, l.size = f, info, 0
	return info.Size(), nil
}

func (l *Log) closeFile() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file, l.info, l.size = nil, nil, 0
	return err
}

// rotate renames the current file to number 1 and increments the numbers of the others.
// It stops at the first error.
func (l *Log) rotate() {
	for n := l.maxRotated; n > 0; n-- {
		err := os.Rename(rotatedPath(l.path, n-1), rotatedPath(l.path, n))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return // the next rename would overwrite this file
		}
	}
}

// rotatedPath returns the path of rotated file n; 0 is the current file.
func rotatedPath(path string, n int) string {
	if n == 0 {
		return path
	}
	return path + "." + strconv.Itoa(n)
}

// Close closes the log and returns the first write error.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lock.Close()
	l.closeFile()
	if l.err != nil {
		return fmt.Errorf("%d calls are not recorded: %w", l.lost, l.err)
	}
	return nil
}
