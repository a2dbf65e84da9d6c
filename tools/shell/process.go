package shell

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A process is a started command, what it prints and what it starts.
type process struct {
	host    *host
	id      string // marks what it starts, and cannot be guessed
	argv    []string
	cmd     *exec.Cmd
	out     *capture
	started time.Time

	pumped chan struct{} // closed when nothing more is read from the command
	done   chan struct{} // closed when the command has ended and what follows is set

	code int           // exit code, 128+n when signal n ended it
	wall time.Duration // how long it ran
	left []member      // what it left running

	stop    sync.Once
	stopped atomic.Bool // it was ended by us
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// A launch says what to start.
type launch struct {
	argv []string
	dir  string // "" is the worker's
	env  []string
}

// run starts a command with an empty stdin and with stdout and stderr in one
// pipe, so that what it prints keeps its order. Its errors are for the model.
func (h *host) run(l launch) (*process, error) {
	cmd, err := command(l)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &process{
		host:   h,
		id:     rand.Text(),
		argv:   l.argv,
		cmd:    cmd,
		out:    newCapture(h.memory(), h.spool),
		pumped: make(chan struct{}),
		done:   make(chan struct{}),
	}
	cmd.Stdout, cmd.Stderr = w, w
	cmd.Env = append(cmd.Env, callVariable+"="+p.id)
	ownGroup(cmd)
	err = h.begin(p)
	w.Close()
	if err != nil {
		r.Close()
		return nil, startError(l, err)
	}
	go p.pump(r)    // ends when the pipe does, or at the deadline that wait sets
	go h.wait(p, r) // ends when the command does
	return p, nil
}

// begin starts p's command and makes it one of the family.
func (h *host) begin(p *process) error {
	adopt()
	kin.starting.RLock()
	defer kin.starting.RUnlock()
	p.started = time.Now()
	if err := h.start(p.cmd); err != nil {
		return err
	}
	kin.add(p)
	return nil
}

// pump takes what the command prints until the pipe ends.
func (p *process) pump(r *os.File) {
	defer close(p.pumped)
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		p.out.Write(buf[:n])
		if err != nil {
			return
		}
	}
}

// wait waits for the command, and not for what it left running, which is
// ended behind the answer.
func (h *host) wait(p *process, r *os.File) {
	defer close(p.done)
	defer r.Close()
	err := p.cmd.Wait()
	kin.remove(p)
	p.wall = time.Since(p.started)
	p.code = exitCode(p.cmd.ProcessState, err)
	r.SetReadDeadline(time.Now().Add(patience))
	<-p.pumped
	p.drain(r)
	if p.stopped.Load() {
		return
	}
	if p.left = kin.members(p); len(p.left) > 0 {
		h.ending.Go(func() { kin.end(p, grace) })
	}
}

// drain takes what is in the pipe already when something still holds it.
func (p *process) drain(r *os.File) {
	conn, err := r.SyscallConn()
	if err != nil || r.SetReadDeadline(time.Time{}) != nil {
		return
	}
	const most = 1 << 20 // a pipe does not hold more
	buf := make([]byte, 32<<10)
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
// left after grace. It returns when nothing is left.
func (h *host) end(p *process, grace time.Duration) {
	p.stopped.Store(true)
	p.stop.Do(func() { kin.end(p, grace) })
	<-p.done
}

// exitCode returns the exit code of an ended process as a shell has it.
func exitCode(s *os.ProcessState, err error) int {
	if s == nil {
		return -1
	}
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && signalled(ws) > 0 {
		return 128 + signalled(ws)
	}
	return s.ExitCode()
}

// command returns the command of l, its program looked up on the PATH that it
// will see itself.
func command(l launch) (*exec.Cmd, error) {
	if l.dir != "" {
		info, err := os.Stat(l.dir)
		if err != nil {
			return nil, fmt.Errorf("workdir %s: %s; give a folder that exists", l.dir, reason(err))
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("workdir %s: is not a folder; give a folder", l.dir)
		}
	}
	path, err := lookup(l.argv[0], l.dir, l.env)
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: path, Args: l.argv, Dir: l.dir, Env: l.env}, nil
}

// lookup returns the file that the program name is, for a command that runs
// in dir with env.
func lookup(name, dir string, env []string) (string, error) {
	if runtime.GOOS == "windows" {
		path, err := exec.LookPath(name)
		if err != nil && !errors.Is(err, exec.ErrDot) {
			return "", fmt.Errorf("cannot start %s: not found on PATH", name)
		}
		return path, nil
	}
	if strings.Contains(name, "/") {
		return name, nil // the kernel takes it as relative to dir
	}
	for _, folder := range filepath.SplitList(variable(env, "PATH")) {
		path := filepath.Join(folder, name)
		if !filepath.IsAbs(path) {
			path = "." + string(filepath.Separator) + path // a relative folder counts from dir
		}
		at := path
		if !filepath.IsAbs(path) {
			at = filepath.Join(dir, path)
		}
		if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("cannot start %s: not found on PATH", name)
}

// startError returns err of starting l in words for the model.
func startError(l launch, err error) error {
	name := l.argv[0]
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot start %s: no such file; give the path of a program, or the name of one on PATH", name)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("cannot start %s: it is not a program for this machine; a script needs a first line such as #!/bin/sh", name)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("cannot start %s: it is a folder; give the path of a program", name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot start %s: permission denied; see whether it is executable", name)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("cannot start %s: the arguments are too long; put them in a file", name)
	}
	return fmt.Errorf("cannot start %s: %w", name, err)
}

// reason returns what is wrong with a path, without naming it.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}
