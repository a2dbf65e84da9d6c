package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
)

// A Cmd is a process held to a plan. Its fields are those of [exec.Cmd], but a
// nil Env is an empty environment, not the caller's. A Cmd is used once.
type Cmd struct {
	Args  []string // program and arguments; program "" is this very binary
	Dir   string   // "" is the caller's working folder
	Env   []string
	Stdin io.Reader

	Stdout, Stderr io.Writer
	ExtraFiles     []*os.File // become descriptors 3, 4, … of the process

	// AllowRescan says that Rescan will be called. The first process then keeps, in
	// its own namespaces, the capability to mount.
	AllowRescan bool

	plan  Plan
	notes []string
	inner *exec.Cmd
	link  *link // to the first process of the sandbox, once started

	listener net.Listener // see Listener
}

// Command returns a command that is confined by p. A program that is "" or
// the path of this very binary is run without needing its path inside.
// A program without a slash is looked up in the PATH of the command's own
// environment, inside the sandbox.
func (p Plan) Command(argv ...string) *Cmd {
	return &Cmd{Args: argv, plan: p, inner: &exec.Cmd{}}
}

// StdinPipe is like [exec.Cmd.StdinPipe].
func (c *Cmd) StdinPipe() (io.WriteCloser, error) { return c.inner.StdinPipe() }

// StdoutPipe is like [exec.Cmd.StdoutPipe].
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) { return c.inner.StdoutPipe() }

// StderrPipe is like [exec.Cmd.StderrPipe].
func (c *Cmd) StderrPipe() (io.ReadCloser, error) { return c.inner.StderrPipe() }

// Run starts the command and waits for it.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Notes returns, after Start, what of the plan could not be done for the files
// as they are: a root too large to search for protected names, for one. It
// belongs beside [Plan.Unenforced].
func (c *Cmd) Notes() []string { return c.notes }

// Listener returns, after Start, where the process and what it starts knock to
// reach a host: it listens on [policy.ProxyAddress] in their network namespace,
// where nobody else is to be reached, and is served by whoever accepts from it
// out here. It is nil unless the plan's profile has [policy.NetworkHosts]. Who
// takes it closes it.
func (c *Cmd) Listener() net.Listener { return c.listener }

// Pid returns the id, outside the sandbox, of its first process, or 0 before
// Start. All others of the sandbox are its descendants.
func (c *Cmd) Pid() int {
	if c.inner == nil || c.inner.Process == nil {
		return 0
	}
	return c.inner.Process.Pid
}

// An ExitError says that the program did not end well.
type ExitError struct {
	Code   int            // exit code; 128+Signal when a signal ended it
	Signal syscall.Signal // 0 when it exited by itself
}

func (e *ExitError) Error() string {
	if e.Signal != 0 {
		return fmt.Sprintf("signal: %v", e.Signal)
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// ExitCode returns the exit code that err of [Cmd.Wait] tells: 0 for nil, -1
// for an error that is none of the program's.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Code
	}
	return -1
}
