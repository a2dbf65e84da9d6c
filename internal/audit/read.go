package audit

import (
	"bufio"
	"bytes"
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
	"toolgate/policy"
)

// An Entry is one call of the record.
type Entry struct {
	Event gate.Event
	Line  []byte // as it stands in the file, without its end
}

// A Filter says which calls are wanted. The zero value wants all.
type Filter struct {
	Since   time.Time
	Tool    string // a tool's name, a server's, or "server/tool"
	Outcome string
	Caller  string
	Last    int // only so many, the latest; 0: all
}

// wants reports whether e is wanted, Last aside.
func (f Filter) wants(e gate.Event) bool {
	return !e.Time.Before(f.Since) &&
		(f.Outcome == "" || e.Outcome == f.Outcome) &&
		(f.Caller == "" || e.Caller == f.Caller || e.Agent == f.Caller) &&
		(f.Tool == "" || f.Tool == e.Tool || f.Tool == e.Server && e.Server != "" || f.Tool == e.Server+"/"+e.Tool)
}

// Read calls each with the calls in the record of dir, oldest first, until it
// errs. Lines that are no events are left out. A record that is not there yet
// is empty.
func Read(dir string, f Filter, each func(Entry) error) error {
	_, err := read(dir, position{}, f, each)
	return err
}

// followInterval is how often the record is looked at.
const followInterval = 200 * time.Millisecond

// Follow is [Read], and goes on with what is added until ctx ends, whose error
// it returns.
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

// A position is how far a reader has come. The zero value is the beginning.
type position struct {
	file   os.FileInfo // which survives that the file is put aside
	offset int64       // behind the last whole line read
}

// read reads what lies behind at, and returns where it ended.
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

// openFrom opens the files of the record from the one given on, oldest first;
// nil, or one that is gone, means all.
func openFrom(path string, from os.FileInfo) (files []*os.File, err error) {
	lock, err := openLock(filepath.Join(filepath.Dir(path), lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing was recorded yet
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	defer lock.close()
	release, _ := lock.take() // nothing is put aside meanwhile
	defer release()
	for n := 0; ; n++ {
		file, err := os.Open(aside(path, n))
		if errors.Is(err, fs.ErrNotExist) {
			if n == 0 {
				continue // a process died between putting aside and making anew
			}
			break
		}
		if err != nil {
			return files, fmt.Errorf("reading the record: %w", err)
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

// lines calls use for each wanted event of r, and returns how many bytes the
// whole lines were.
func lines(r io.Reader, f Filter, use func(Entry) error) (n int64, err error) {
	for br := bufio.NewReaderSize(r, 64<<10); ; {
		line, err := br.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return n, nil // what has no end is being written
		}
		if err != nil {
			return n, fmt.Errorf("reading the record: %w", err)
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
	if what := subject(ev); what != "" {
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
	return printable(strings.Join(parts, "  "))
}

// Subject returns in some words what the call was about. It is what a model
// wrote: it must be made harmless to whatever shows it.
func (e Entry) Subject() string { return subject(e.Event) }

// subject is what the call was about.
func subject(ev gate.Event) string {
	text := ""
	switch a := ev.Action; {
	case len(a.Command) == 3 && (a.Command[1] == "-c" || a.Command[1] == "-lc"):
		text = a.Command[2]
	case len(a.Command) > 0:
		text = strings.Join(a.Command, " ")
	case len(a.Writes) > 0:
		text = strings.Join(a.Writes, " ")
	case len(a.Reads) > 0:
		text = strings.Join(a.Reads, " ")
	default:
		text = string(ev.Args)
	}
	const most = 100 // characters
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
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

// printable keeps what a model wrote from steering the terminal.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteByte(' ')
		case r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x2028 || r == 0x2029:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
