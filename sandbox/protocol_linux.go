package sandbox

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// An initConfig is what the starting process tells the first process of a sandbox.
type initConfig struct {
	Plan        Plan             `json:"plan"`
	Self        bool             `json:"self,omitempty"` // run this very binary
	Args        []string         `json:"args"`
	Env         []string         `json:"env"`
	Dir         string           `json:"dir"`
	Extra       int              `json:"extra,omitempty"`        // number of extra files
	AllIDs      bool             `json:"all_ids,omitempty"`      // every user id is mapped
	AllowRescan bool             `json:"allow_rescan,omitempty"` // it will be asked to look again, see [Cmd.Rescan]
	Probe       bool             `json:"probe,omitempty"`        // set the sandbox up and end
	Overrides   []overrideRecord `json:"overrides,omitempty"`    // what bubblewrap was asked to carve out
	ListenerFd  int              `json:"listener_fd,omitempty"`  // descriptor through which the proxy's listener goes out, 0 for none

	Prescan bool `json:"prescan,omitempty"` // what was found in the shared roots comes next

	// Found out by the first process itself.
	prescanned <-chan scanResult // nil without Prescan
	resolved   Plan              // the plan with its paths as they are on disk
	exe        int               // descriptor of this binary
	notes      []string          // what could not be protected
}

// A report is what the first process tells back: one when the program runs or
// could not be started, one for each look, one when it has ended.
type report struct {
	Error  string   `json:"error,omitempty"`
	Denied bool     `json:"denied,omitempty"` // the system refused the sandbox itself
	Notes  []string `json:"notes,omitempty"`  // what could not be protected

	Rescanned bool   `json:"rescanned,omitempty"` // it is one for a look
	Stale     string `json:"stale,omitempty"`     // what only a new process would be held to

	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
}

// A link is what a started sandbox hangs on. Orders go down through it; that
// it stays open is the sign that the starting process lives.
type link struct {
	once     sync.Once
	lifeline *os.File // closed to end the sandbox
	reports  *bufio.Reader
	file     *os.File // behind reports

	mu    sync.Mutex // held while a report is waited for
	ended *report    // that of the end, when it came in place of another
}

// closeLifeline ends the sandbox.
func (l *link) closeLifeline() { l.once.Do(func() { l.lifeline.Close() }) }

// failure returns the error that the first report tells.
func (r report) failure() error {
	if r.Error == "" {
		return nil
	}
	err := errors.New(r.Error)
	if r.Denied {
		err = fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return fmt.Errorf("starting the sandbox: %w", err)
}

// nextReport waits for the next report.
func (l *link) nextReport() (report, error) {
	var r report
	line, err := l.reports.ReadBytes('\n')
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(line, &r)
}

// exitError returns the error that the last report tells, or that it did not come.
func (r report) exitError(rerr error) error {
	switch {
	case rerr != nil: // it was killed before it could tell
		return &ExitError{Code: 128 + int(syscall.SIGKILL), Signal: syscall.SIGKILL}
	case r.Signal != 0:
		return &ExitError{Code: 128 + r.Signal, Signal: syscall.Signal(r.Signal)}
	case r.Code != 0:
		return &ExitError{Code: r.Code}
	}
	return nil
}

// lastReport returns the report of the end.
func (l *link) lastReport() (report, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return *l.ended, nil
	}
	return l.nextReport()
}

// reportWriter returns what writes reports to w, one at a time.
func reportWriter(w *os.File) func(report) {
	var mu sync.Mutex
	return func(r report) {
		line, err := json.Marshal(r)
		if err != nil {
			panic(fmt.Sprintf("sandbox: a report cannot be written as JSON: %v", err))
		}
		mu.Lock()
		defer mu.Unlock()
		w.Write(append(line, '\n'))
	}
}

// writeMessage sends v as JSON, with its length before it.
func writeMessage(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// readMessage reads what writeMessage sent into v, and nothing after it.
func readMessage(r io.Reader, v any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	text := make([]byte, binary.LittleEndian.Uint32(size[:]))
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}
