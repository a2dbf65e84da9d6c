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

// An initConfig is sent by the starting process to the first process of a
// sandbox.
type initConfig struct {
	Plan        Plan             `json:"plan"`
	Self        bool             `json:"self,omitempty"` // run the current executable
	Args        []string         `json:"args"`
	Env         []string         `json:"env"`
	Dir         string           `json:"dir"`
	Extra       int              `json:"extra,omitempty"`        // number of extra files
	AllIDs      bool             `json:"all_ids,omitempty"`      // all user ids are mapped
	AllowRescan bool             `json:"allow_rescan,omitempty"` // see [Cmd.AllowRescan]
	Probe       bool             `json:"probe,omitempty"`        // set up the sandbox and exit
	Overrides   []overrideRecord `json:"overrides,omitempty"`    // mounts that bubblewrap was asked to make
	ListenerFd  int              `json:"listener_fd,omitempty"`  // socket for sending the proxy's listener, 0 for none
	Prescan     bool             `json:"prescan,omitempty"`      // a scanResult for the shared roots follows

	// Set by the first process itself.
	prescanned <-chan scanResult // nil without Prescan
	resolved   Plan              // Plan with symlinks in its paths resolved
	exe        int               // descriptor of the current executable
	notes      []string          // what could not be protected
}

// A report is sent back by the first process: one when the program runs or could
// not be started, one per rescan, one when the program has ended.
type report struct {
	Error  string   `json:"error,omitempty"`
	Denied bool     `json:"denied,omitempty"` // the system refused the sandbox itself
	Notes  []string `json:"notes,omitempty"`  // what could not be protected

	Rescanned bool   `json:"rescanned,omitempty"` // answers a rescan request
	Stale     string `json:"stale,omitempty"`     // a path that only a new process would protect

	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
}

// A link connects the starting process to a sandbox. The config and rescan
// requests are written to the lifeline; closing it ends the sandbox.
type link struct {
	once     sync.Once
	lifeline *os.File // closed to end the sandbox
	reports  *bufio.Reader
	file     *os.File // underlies reports

	mu    sync.Mutex // held while waiting for a report
	ended *report    // the last report, if it arrived in place of another
}

// closeLifeline ends the sandbox.
func (l *link) closeLifeline() { l.once.Do(func() { l.lifeline.Close() }) }

// failure returns the error in the first report.
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

// exitError returns the error for the last report, or for its absence if rerr is
// not nil.
func (r report) exitError(rerr error) error {
	switch {
	case rerr != nil: // the first process was killed before it could report
		return &ExitError{Code: 128 + int(syscall.SIGKILL), Signal: syscall.SIGKILL}
	case r.Signal != 0:
		return &ExitError{Code: 128 + r.Signal, Signal: syscall.Signal(r.Signal)}
	case r.Code != 0:
		return &ExitError{Code: r.Code}
	}
	return nil
}

// lastReport waits for the report that the program has ended.
func (l *link) lastReport() (report, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return *l.ended, nil
	}
	return l.nextReport()
}

// reportWriter returns a function that writes reports to w. It may be called
// concurrently.
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

// writeMessage writes v to w as JSON, preceded by its length.
func writeMessage(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// readMessage reads one message of writeMessage into v, and nothing after it.
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
