package sandbox

import (
	"encoding/json"
	"io"
	"os"
	"sync"
	"syscall"
)

// An initConfig is sent by the starting process to the first process of a
// sandbox.
type initConfig struct {
	Plan        Plan            `json:"plan"`
	Self        bool            `json:"self,omitempty"` // run the current executable
	Args        []string        `json:"args"`
	Env         []string        `json:"env"`
	Dir         string          `json:"dir"`
	Extra       int             `json:"extra,omitempty"`        // number of extra files
	Rlimits     map[int]uint64  `json:"rlimits,omitempty"`      // see [Cmd.Rlimits]
	AllIDs      bool            `json:"all_ids,omitempty"`      // all user ids are mapped
	AllowRescan bool            `json:"allow_rescan,omitempty"` // see [Cmd.AllowRescan]
	Probe       bool            `json:"probe,omitempty"`        // set up the sandbox and exit
	Overrides   []mountOverride `json:"overrides,omitempty"`    // mounts that bubblewrap was asked to make
	ListenerFd  int             `json:"listener_fd,omitempty"`  // socket for sending the proxy's listener, 0 for none
	Prescan     bool            `json:"prescan,omitempty"`      // a scanResult for the shared roots follows
	Notes       []string        `json:"notes,omitempty"`        // what could not be protected

	// Set by the first process itself.
	prescanned <-chan *scanResult // nil without Prescan
	resolved   Plan               // Plan with symlinks in its paths resolved
	exe        int                // descriptor of the current executable
	pins       int                // descriptor for pinFolders, at level full
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
	reports  *json.Decoder
	file     *os.File // underlies reports

	mu    sync.Mutex // held while waiting for a report
	ended *report    // the last report, if it arrived in place of another
}

// closeLifeline ends the sandbox.
func (l *link) closeLifeline() { l.once.Do(func() { l.lifeline.Close() }) }

// nextReport waits for the next report.
func (l *link) nextReport() (r report, err error) {
	err = l.reports.Decode(&r)
	return r, err
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
func reportWriter(w io.Writer) func(report) {
	var mu sync.Mutex
	enc := json.NewEncoder(w)
	return func(r report) {
		mu.Lock()
		defer mu.Unlock()
		enc.Encode(r) // if this fails, nobody is left to read it
	}
}
