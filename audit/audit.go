// Package audit keeps the record of what happened: one line of JSON a call.
//
//	log, err := audit.Open(dir)
//	gate.Record = log.Record
//
// The file holds what calls asked for, so it is readable by its owner alone,
// and lies where no tool can read or write it.
package audit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"toolgate/policy"
)

const (
	fileName = "audit.jsonl"
	maxFile  = 16 << 20 // bytes in a file before it is put aside
	maxArgs  = 4 << 10  // bytes of a call's arguments that are kept
)

// A Log is an open record. Close it.
type Log struct {
	path string

	mu   sync.Mutex
	file *os.File
	size int64
	err  error // the first write that failed
}

// Open opens the record in dir, which is made if it is missing.
func Open(dir string) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the record: %w", err)
	}
	l := &Log{path: filepath.Join(dir, fileName)}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("opening the record: %w", err)
	}
	return l, nil
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Record appends one event. Each event is written with one call, so that
// several processes can share the file. What cannot be written is reported by
// [Log.Close].
func (l *Log) Record(e policy.Event) {
	if len(e.Args) > maxArgs {
		e.Args, _ = json.Marshal(fmt.Sprintf("%d bytes, not kept", len(e.Args)))
	}
	line, err := json.Marshal(e)
	if err != nil {
		e.Args = nil // arguments that are not JSON were refused before they did anything
		line, err = json.Marshal(e)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.size > maxFile {
		err = l.rotate()
	}
	if err == nil {
		var n int
		n, err = l.file.Write(append(line, '\n'))
		l.size += int64(n)
	}
	if l.err == nil {
		l.err = err
	}
}

// rotate puts the full file aside, in place of the one put aside before.
func (l *Log) rotate() error {
	l.file.Close()
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		return err
	}
	return l.open()
}

// Close closes the record and returns the first error there was in writing it.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.file.Close(); l.err == nil {
		l.err = err
	}
	return l.err
}
