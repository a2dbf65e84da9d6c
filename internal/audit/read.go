package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolgate/internal/gate"
	"toolgate/internal/printable"
	"toolgate/policy"
)

// An Entry is one call in the log.
type Entry struct {
	Event gate.Event
	Line  []byte // raw line, without newline
}

// A Filter selects calls. The zero value selects all.
type Filter struct {
	Since   time.Time
	Tool    string // a tool's name, a server's, or "server/tool"
	Outcome string
	Caller  string
	Last    int // only the latest ones; 0: all
}

// wants reports whether e is selected, not considering Last.
func (f Filter) wants(e gate.Event) bool {
	return !e.Time.Before(f.Since) &&
		(f.Outcome == "" || e.Outcome == f.Outcome) &&
		(f.Caller == "" || e.Caller == f.Caller || e.Agent == f.Caller) &&
		(f.Tool == "" || f.Tool == e.Tool || f.Tool == e.Server && e.Server != "" || f.Tool == e.Server+"/"+e.Tool)
}

// Read calls each for the selected calls in the log, oldest first, until it returns an
// error. Invalid lines are skipped. A missing log is empty.
func Read(dir string, f Filter, each func(Entry) error) error {
	_, err := read(dir, position{}, f, each)
	return err
}

// followInterval is the time between checks for new lines.
const followInterval = 200 * time.Millisecond

// Follow is [Read], continued with new calls until ctx ends. It returns the error of ctx.
func Follow(ctx context.Context, dir string, f Filter, each func(Entry) error) error {
	at, err := read(dir, position{}, f, each)
	if err != nil {
		return err
	}
	f.Last = 0
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if at, err = read(dir, at, f, each); err != nil {
			return err
		}
	}
}

// A position is the progress of a reader. The zero value is the beginning.
type position struct {
	file   os.FileInfo // identifies the file even after rotation
	offset int64       // after the last complete line read
}

// read reads what follows position at and returns the new position.
func read(dir string, at position, f Filter, each func(Entry) error) (position, error) {
	files, err := openFrom(filepath.Join(dir, fileName), at.file)
	defer func() {
		for _, file := range files {
			file.Close()
		}
	}()
	if err != nil {
		return at, err
	}
	var last []Entry
	use := each
	if f.Last > 0 {
		use = func(e Entry) error {
			if len(last) == f.Last {
				last = slices.Delete(last, 0, 1)
			}
			last = append(last, e)
			return nil
		}
	}
	for _, file := range files {
		info, err := file.Stat()
		if err != nil {
			return at, err
		}
		if at.file == nil || !os.SameFile(at.file, info) || info.Size() < at.offset {
			at = position{file: info}
		}
		n, err := lines(io.NewSectionReader(file, at.offset, info.Size()-at.offset), f, use)
		at.offset += n
		if err != nil {
			return at, err
		}
	}
	for _, e := range last {
		if err := each(e); err != nil {
			return at, err
		}
	}
	return at, nil
}

// openFrom opens the files of the log starting with from, oldest first. If from is nil
// or gone, it opens all.
func openFrom(path string, from os.FileInfo) (files []*os.File, err error) {
	lock, err := openLock(filepath.Join(filepath.Dir(path), lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing logged yet
	}
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	defer lock.Close()
	acquire(lock) // prevents rotation
	for n := 0; ; n++ {
		file, err := os.Open(rotatedPath(path, n))
		if errors.Is(err, fs.ErrNotExist) {
			if n == 0 {
				continue // rotated, and not yet created again
			}
			break
		}
		if err != nil {
			return files, fmt.Errorf("reading the audit log: %w", err)
		}
		files = append(files, file)
		info, err := file.Stat()
		if err != nil {
			return files, err
		}
		if from != nil && os.SameFile(from, info) {
			break
		}
	}
	slices.Reverse(files)
	return files, nil
}

// lines calls use for each selected event of r. It returns the number of bytes of
// complete lines.
func lines(r io.Reader, f Filter, use func(Entry) error) (n int64, err error) {
	for br := bufio.NewReaderSize(r, 64<<10); ; {
		line, err := br.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return n, nil // an incomplete line is still being written
		}
		if err != nil {
			return n, fmt.Errorf("reading the audit log: %w", err)
		}
		n += int64(len(line))
		e := Entry{Line: bytes.TrimSuffix(line, []byte("\n"))}
		if json.Unmarshal(e.Line, &e.Event) != nil || !f.wants(e.Event) {
			continue
		}
		if err := use(e); err != nil {
			return n, err
		}
	}
}

// String returns the call as one line for a person.
func (e Entry) String() string {
	ev := e.Event
	tool := ev.Tool
	if ev.Server != "" {
		tool = ev.Server + "/" + tool
	}
	parts := []string{
		ev.Time.Local().Format("2006-01-02 15:04:05"),
		fmt.Sprintf("%-10s", ev.Outcome),
		fmt.Sprintf("%7s", shortDuration(ev.Duration)),
		tool,
	}
	if what := e.Subject(); what != "" {
		parts = append(parts, what)
	}
	if ev.Asked != "" {
		parts = append(parts, fmt.Sprintf("[asked: %s by %s]", ev.Asked, ev.AnsweredBy))
	}
	if ev.Profile == policy.DangerFullAccess.String() && ev.Running > 0 {
		parts = append(parts, "[no sandbox]")
	}
	if ev.Denied != nil {
		parts = append(parts, "["+ev.Denied.Error()+"]")
	}
	if ev.Error != "" {
		parts = append(parts, "- "+ev.Error)
	}
	return printable.Line(strings.Join(parts, "  "))
}

// Subject returns a short description of the call. It contains text from a model, so the
// caller must escape it.
func (e Entry) Subject() string {
	a := e.Event.Action
	command := strings.Join(a.Command, " ")
	if len(a.Command) == 3 && (a.Command[1] == "-c" || a.Command[1] == "-lc") {
		command = a.Command[2]
	}
	text := cmp.Or(command, strings.Join(a.Writes, " "), strings.Join(a.Reads, " "), string(e.Event.Args))
	const maxSubject = 100 // characters
	if r := []rune(text); len(r) > maxSubject {
		text = string(r[:maxSubject]) + "…"
	}
	return text
}

func shortDuration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
