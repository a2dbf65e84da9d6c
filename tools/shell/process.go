package shell

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"toolgate/internal/limits"
	"toolgate/tools"
)

// A process is a started command with its output and its child processes.
type process struct {
	refused func() []tools.Denial // what the sandbox refused, see [StartFunc]; never nil

	host    *host
	id      string // marks its child processes; cannot be guessed
	text    string // the command for people
	cmd     *exec.Cmd
	out     *capture
	started time.Time

	terminal *os.File   // nil without one
	inputMu  sync.Mutex // held while writing to the terminal
	keys     keyMode

	over    atomic.Pointer[limits.Excess] // why it was ended, nil if it was not for a limit
	killing atomic.Bool                   // for that limit

	parts    atomic.Int32  // parts still active: the command, its output
	finished sync.Once     // closes done
	done     chan struct{} // closed when both have ended and the fields below are set

	code      int           // exit code, 128+n when signal n ended it
	wall      time.Duration // run time
	leftovers []member      // what it left running

	stop    sync.Once
	stopped atomic.Bool // toolgate ended it

	timeout  time.Duration // after which it is ended; 0 means never
	expiry   *time.Timer   // nil without a timeout
	timedOut atomic.Bool   // it was ended for that

	reportMu sync.Mutex
	reported map[tools.Denial]bool // refused hosts that an answer has reported
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// hasEnded reports whether the command has ended and its output is complete.
func (p *process) hasEnded() bool { return isClosed(p.done) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A launch describes a command to start.
type launch struct {
	argv []string
	dir  string // "" means the worker's
	env  []string
	text string // the command for people

	timeout  time.Duration // after which to end it; 0 means never
	terminal bool
	size     terminalSize
}

// A terminalSize is the size of a terminal in characters.
type terminalSize struct{ rows, cols int }

// sizeOf returns the size of a terminal; 0 means the default of rows or cols.
func sizeOf(rows, cols int) (terminalSize, error) {
	const most = 1000
	size := terminalSize{cmp.Or(rows, 24), cmp.Or(cols, 80)}
	if min(size.rows, size.cols) < 1 || max(size.rows, size.cols) > most {
		return size, fmt.Errorf("a terminal of %d rows and %d cols is not possible; give numbers from 1 to %d",
			size.rows, size.cols, most)
	}
	return size, nil
}

// run starts a command, either in a terminal or with an empty stdin and one pipe
// for stdout and stderr, which keeps the order of the output. Its errors are for the
// model.
func (h *host) run(l launch) (*process, error) {
	cmd, err := command(l)
	if errors.Is(err, errNotOnPath) && h.options.ShortPath {
		err = fmt.Errorf("%w, which outside the sandbox has no folder that commands can write; give its path", err)
	}
	if err != nil {
		return nil, err
	}
	atEnds := max(32<<10, h.options.budget()*tools.BytesPerToken/2) // enough for the longest answer
	p := &process{
		host: h,
		id:   rand.Text(),
		text: l.text,
		cmd:  cmd,
		out:  newCapture(atEnds, h.spool),
		done: make(chan struct{}),

		timeout:  l.timeout,
		reported: map[tools.Denial]bool{},
	}
	cmd.Env = append(slices.Clip(cmd.Env), callVariable+"="+p.id)
	setProcessGroup(cmd)
	ours, theirs, err := p.connect(l)
	if err != nil {
		return nil, err
	}
	err = h.begin(p, ours)
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil, startError(l, err)
	}
	return p, nil
}

// connect sets up the streams of the command. It returns our end, from which to read
// the output, and their end, to be closed once the command has started.
func (p *process) connect(l launch) (ours, theirs *os.File, err error) {
	if l.terminal {
		ours, theirs, err = openTerminal(p.cmd, l.size)
		p.terminal = ours
		return ours, theirs, err
	}
	ours, theirs, err = os.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = theirs, theirs
	return ours, theirs, err
}

// begin starts and tracks p's command and reads its output from ours.
func (h *host) begin(p *process, ours *os.File) error {
	adopt()
	tracker.reap()
	tracker.starting.RLock()
	defer tracker.starting.RUnlock()
	if isClosed(h.closed) {
		return errors.New("toolgate is ending")
	}
	p.started = time.Now()
	var err error
	if p.refused, err = h.start(p.cmd); err != nil {
		return err
	}
	if p.refused == nil {
		p.refused = func() []tools.Denial { return nil }
	}
	tracker.add(p)
	h.guard.add(p)
	if p.timeout > 0 {
		p.expiry = time.AfterFunc(p.timeout, func() { // stopped by finish
			p.timedOut.Store(!p.hasEnded())
			h.ending.Go(func() { h.end(p) }) // ends with the command
		})
	}
	p.parts.Store(2)
	h.waiting.Add(1)
	go h.pump(p, ours)  // ends when the pipe does, or at the deadline that watch sets
	go h.watch(p, ours) // ends when the command does
	return nil
}

var pumpBuffers = sync.Pool{New: func() any {
	buf := make([]byte, 64<<10) // the capacity of a pipe
	return &buf
}}

func (h *host) pump(p *process, r *os.File) {
	pooled := pumpBuffers.Get().(*[]byte)
	defer pumpBuffers.Put(pooled)
	buf := *pooled
	most := h.limits().Output
	for {
		n, err := r.Read(buf)
		if p.terminal != nil {
			p.keys.update(buf[:n])
		}
		p.out.Write(buf[:n])
		if total, _ := p.out.size(); most > 0 && total > most {
			h.stopForLimit(p, limits.OutputExcess(most))
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.drain(r, buf)
		}
		if err != nil {
			break
		}
	}
	h.endPart(p, r)
}

// watch waits for the command but not for processes that it left running.
func (h *host) watch(p *process, r *os.File) {
	_ = p.cmd.Wait() // the exit code is in ProcessState
	tracker.remove(p)
	p.wall = time.Since(p.started)
	p.code = exitCode(p.cmd.ProcessState)
	if p.timedOut.Load() {
		p.code = timeoutExit
	}
	if over := h.options.Group.Met(); over != nil && p.code != 0 { // faster than the guard
		p.over.CompareAndSwap(nil, over)
	}
	if r.SetReadDeadline(time.Now().Add(pipeGrace)) != nil {
		// Pipes have no deadlines on this system.
		time.AfterFunc(pipeGrace, func() { h.finish(p, r) })
	}
	h.endPart(p, r)
}

// endPart is called once when the command ends and once when its output ends. The
// second call finishes.
func (h *host) endPart(p *process, r *os.File) {
	if p.parts.Add(-1) == 0 {
		h.finish(p, r)
	}
}

// finish ends the processes that the command left running, after the answer.
func (h *host) finish(p *process, r *os.File) {
	p.finished.Do(func() {
		defer h.waiting.Done()
		defer close(p.done)
		defer r.Close()
		if p.expiry != nil {
			p.expiry.Stop()
		}
		tracker.reap()
		if p.stopped.Load() {
			return // end cleans up
		}
		members := tracker.members(p)
		if len(members) == 0 {
			return
		}
		for i := range members[:min(len(members), mostIdentified)] {
			members[i].identify()
		}
		p.leftovers = slices.DeleteFunc(members, func(m member) bool { return m.exiting })
		h.ending.Go(func() { // ends when nothing is left
			tracker.end(p, h.closed)
		})
	})
}

// drain takes what is in the pipe already when something still holds it.
func (p *process) drain(r *os.File, buf []byte) {
	conn, err := r.SyscallConn()
	if err != nil || r.SetReadDeadline(time.Time{}) != nil {
		return
	}
	const most = 1 << 20 // a pipe does not hold more
	for taken := 0; taken < most; {
		var n int
		conn.Read(func(fd uintptr) bool {
			n = readNow(fd, buf)
			return true
		})
		if n <= 0 {
			return
		}
		p.out.Write(buf[:n])
		taken += n
	}
}

// end asks the command and everything it started to end, and kills what is
// left after grace. It returns false if the command could not be ended, for example
// because it hangs in the kernel.
func (h *host) end(p *process) bool {
	p.stopped.Store(true)
	p.stop.Do(func() { tracker.end(p, h.closed) })
	select {
	case <-p.done:
	case <-time.After(time.Second):
		return p.hasEnded()
	}
	return true
}

// exitCode returns the exit code of an ended process as a shell reports it.
func exitCode(s *os.ProcessState) int {
	if s == nil {
		return -1
	}
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}

// command returns the command of l. The program is looked up on the PATH that the
// command itself will have.
func command(l launch) (*exec.Cmd, error) {
	if l.dir != "" {
		info, err := os.Stat(l.dir)
		if err != nil {
			return nil, fmt.Errorf("workdir %s: %s; give a folder that exists", l.dir, tools.Reason(err))
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("workdir %s: is not a folder; give a folder", l.dir)
		}
	}
	path, err := lookup(l.argv[0], l.env)
	if err != nil && slices.Contains([]string{"apply_patch", "applypatch"}, l.argv[0]) {
		return nil, errPatch // models expect such a program
	}
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, scriptHint(l.argv))
	}
	return &exec.Cmd{Path: path, Args: l.argv, Dir: l.dir, Env: l.env}, nil
}

var errNotOnPath = errors.New("not found on PATH")

// lookup returns the file of the program name for a command with environment env.
func lookup(name string, env []string) (string, error) {
	if runtime.GOOS == "windows" {
		path, err := lookupOnWindows(name, env)
		if err != nil {
			return "", fmt.Errorf("cannot start %s: %w", name, errNotOnPath)
		}
		return path, nil
	}
	if strings.Contains(name, "/") {
		return name, nil // the kernel resolves it relative to dir
	}
	for _, folder := range filepath.SplitList(variable(env, "PATH")) {
		if !filepath.IsAbs(folder) {
			continue // a program in the workspace must be named with a slash
		}
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("cannot start %s: %w", name, errNotOnPath)
}

var startErrors = []struct {
	err error
	why string
}{
	{fs.ErrNotExist, "no such file; give the path of a program, or the name of one on PATH"},
	{syscall.ENOEXEC, "it is not a program for this machine; a script needs a first line such as #!/bin/sh"},
	{syscall.EISDIR, "it is a folder; give the path of a program"},
	{fs.ErrPermission, "permission denied; see whether it is executable"},
	{syscall.E2BIG, "the arguments are too long; put them in a file"},
}

// scriptHint returns what to send instead of an argv that is rather a script, or "".
func scriptHint(argv []string) string {
	isOfShell := func(arg string) bool {
		return slices.Contains([]string{"&&", "||", "|", ";", ">", ">>", "<", "2>&1"}, arg)
	}
	builtin := slices.Contains([]string{"cd", "export", "source", ".", "set", "if", "for", "while"}, argv[0])
	line := len(argv) == 1 && strings.ContainsAny(argv[0], " \t\n|&;<>$`*")
	if !line && !builtin && !slices.ContainsFunc(argv, isOfShell) {
		return ""
	}
	const most = 200
	text := strings.Join(argv, " ")
	if len(text) > most {
		text = tools.Cut(text, most) + "..."
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string always encodes
	return `; a script is ["bash", "-c", ` + strings.TrimSpace(b.String()) + "]"
}

func startError(l launch, err error) error {
	for _, e := range startErrors {
		if hint := scriptHint(l.argv); errors.Is(err, fs.ErrNotExist) && hint != "" {
			return fmt.Errorf("cannot start %s: no such file%s", l.argv[0], hint)
		}
		if errors.Is(err, e.err) {
			return fmt.Errorf("cannot start %s: %s", l.argv[0], e.why)
		}
	}
	return fmt.Errorf("cannot start %s: %w", l.argv[0], err)
}
