// Package audit keeps the record of what happened: one line of JSON a call.
//
//	log, err := audit.Open(dir)
//	gate.Record = log.Record
//	…
//	err = audit.Read(dir, audit.Filter{Tool: "shell"}, func(e audit.Entry) error { … })
//
// The file holds what calls asked for, so it is readable by its owner alone,
// and lies where no tool can read or write it. Secrets are taken out as far as
// their names and shapes give them away, see [Redact], and long values are
// cut. When the file has grown, it is put aside under a number, and the oldest
// is dropped. Several processes may write and read it at once.
//
// A line is written when its call has ended: what ran while the gate itself
// was killed is not in it.
package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"

	"toolgate/internal/gate"
)

const (
	fileName = "audit.jsonl"
	lockName = "audit.lock"
)

// Options are the limits of a record. Zero values mean the defaults.
type Options struct {
	MaxBytes int64 // in a file before it is put aside; default 16 MiB
	Keep     int   // files put aside; default 5
}

// A Log is an open record. Close it. It may be used concurrently.
type Log struct {
	path string
	opts Options
	lock *fileLock

	mu   sync.Mutex
	file *os.File // kept open between events, nil when it is not
	info os.FileInfo
	size int64 // of it when we last wrote: then its end is ours and whole
	err  error // the first write that failed
	lost int   // events that could not be written
}

// Open opens the record in dir, which is made if it is missing.
func Open(dir string) (*Log, error) { return OpenWith(dir, Options{}) }

// OpenWith is [Open] with other limits.
func OpenWith(dir string, o Options) (*Log, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 16 << 20
	}
	if o.Keep <= 0 {
		o.Keep = 5
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the record: %w", err)
	}
	l := &Log{path: filepath.Join(dir, fileName), opts: o}
	f, err := l.open()
	if err != nil {
		return nil, fmt.Errorf("opening the record: %w", err)
	}
	defer f.Close()
	if err := f.Chmod(0o600); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("closing the record to others: %w", err)
	}
	if l.lock, err = openLock(filepath.Join(dir, lockName)); err != nil {
		return nil, fmt.Errorf("opening the record: %w", err)
	}
	return l, nil
}

func (l *Log) open() (*os.File, error) {
	return os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
}

// Record appends one event. What cannot be written is reported by [Log.Close].
func (l *Log) Record(e gate.Event) {
	line := lineOf(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.write(line); err != nil {
		l.lost++
		if l.err == nil {
			l.err = err
		}
	}
}

// encode returns the line for an event, without what must not be kept.
func encode(e gate.Event) []byte {
	e = clean(e)
	line, err := json.Marshal(e)
	if err != nil {
		// Nothing but arguments of odd bytes can be at fault.
		e.Args, e.Rewritten = nil, nil
		if line, err = json.Marshal(e); err != nil {
			line, _ = json.Marshal(gate.Event{Time: e.Time, ID: e.ID, Tool: e.Tool, Outcome: e.Outcome, Error: "the event does not marshal: " + err.Error()})
		}
	}
	return append(line, '\n')
}

// write appends line with one call, so that it stays whole whoever else
// writes.
func (l *Log) write(line []byte) error {
	unlock, alone := l.lock.take()
	defer unlock()
	size, err := l.current()
	if err != nil {
		return err
	}
	if alone && size > 0 && size+int64(len(line)) > l.opts.MaxBytes {
		l.drop()
		l.rotate() // what cannot be put aside grows: better too long than lost
		if size, err = l.current(); err != nil {
			return err
		}
	}
	last := []byte{'\n'}
	if size > 0 && size != l.size { // somebody else wrote last
		if _, err := l.file.ReadAt(last, size-1); err != nil {
			last[0] = '\n'
		}
	}
	if last[0] != '\n' {
		line = append([]byte{'\n'}, line...) // behind what a crash left unfinished
	}
	n, err := l.file.Write(line)
	l.size = size + int64(n)
	if err != nil || !staysOpen {
		err = errors.Join(err, l.drop())
	}
	return err
}

// staysOpen tells whether the file is kept open between events: where an open
// file can be renamed.
const staysOpen = runtime.GOOS != "windows"

// current sees to it that the file is open that has the record's name now,
// which another process may have put aside, and returns its size.
func (l *Log) current() (size int64, err error) {
	if l.file != nil {
		info, err := os.Stat(l.path)
		if err == nil && os.SameFile(info, l.info) {
			return info.Size(), nil
		}
		l.drop()
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

func (l *Log) drop() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file, l.info, l.size = nil, nil, 0
	return err
}

// rotate puts the file aside as number 1, and the others one further, as far
// as that can be done.
func (l *Log) rotate() {
	for n := l.opts.Keep; n > 0; n-- {
		err := os.Rename(aside(l.path, n-1), aside(l.path, n))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return // or the next would be put over this one
		}
	}
}

// aside is the path of the file put aside as number n; 0 is the current one.
func aside(path string, n int) string {
	if n == 0 {
		return path
	}
	return path + "." + strconv.Itoa(n)
}

// Close closes the record and returns the first error there was in writing it.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lock.close()
	l.drop()
	if l.err != nil {
		return fmt.Errorf("%d calls are not recorded: %w", l.lost, l.err)
	}
	return nil
}
