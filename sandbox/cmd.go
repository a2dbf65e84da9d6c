package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
)

// A Cmd is a process confined to a plan. Its fields are those of [exec.Cmd],
// except that a nil Env is an empty environment. A Cmd can be used once.
type Cmd struct {
	Args  []string // program and arguments; program "" is this very binary
	Dir   string   // "" is the caller's working folder
	Env   []string
	Stdin io.Reader

	Stdout, Stderr io.Writer
	ExtraFiles     []*os.File // become descriptors 3, 4, … of the process

	// AllowRescan must be set if Rescan will be called. The first process then
	// keeps the capability to mount in its own namespaces.
	AllowRescan bool

	// Rlimits are limits of each process of the sandbox, by the kernel's number, such
	// as unix.RLIMIT_NOFILE. A limit is never raised. Linux only.
	Rlimits map[int]uint64

	// Cgroup is the folder of the control group (version 2) to start in, or nil. Linux
	// only. The caller closes it.
	Cgroup *os.File

	plan  Plan
	notes atomic.Pointer[[]string] // see Notes
	inner *exec.Cmd
	link  *link // to the first process of the sandbox, once started

	listener net.Listener // see Listener
}

// Command returns a command confined to p. A program that is "" or the path of
// the current executable runs even if that path is not visible inside. A program
// without a slash is looked up inside the sandbox, in the PATH of the command's
// own environment.
func (p Plan) Command(argv ...string) *Cmd {
	return &Cmd{Args: argv, plan: p, inner: &exec.Cmd{}}
}

// check returns an error if c cannot be started on any system.
func (c *Cmd) check() error {
	switch {
	case c.link != nil:
		return errors.New("sandbox: already started")
	case c.plan.Digest == "" || c.plan.seal().Digest != c.plan.Digest:
		return errors.New("sandbox: plan was not made by NewPlan")
	case len(c.Args) == 0:
		return errors.New("sandbox: no program")
	}
	return nil
}

// setStdio passes on the standard streams, unless they are pipes of inner already.
func (c *Cmd) setStdio() {
	if c.Stdin != nil {
		c.inner.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		c.inner.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		c.inner.Stderr = c.Stderr
	}
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

// Notes returns which parts of the plan could not be applied to the files as they
// were at Start or at the last Rescan, such as a folder that is read-only because it
// cannot be searched for protected names. It complements [Plan.Unenforced].
func (c *Cmd) Notes() []string {
	if notes := c.notes.Load(); notes != nil {
		return *notes
	}
	return nil
}

// Listener returns, after Start, the listener for the proxy. It listens on
// [policy.ProxyAddress] in the network namespace of the sandbox, where nothing
// else can be reached; connections are accepted outside. It is nil unless the
// plan's profile has [policy.NetworkHosts]. The caller closes it.
func (c *Cmd) Listener() net.Listener { return c.listener }

// Pid returns the id of the sandbox's first process as seen from outside, or 0
// before Start. All other processes of the sandbox are its descendants.
func (c *Cmd) Pid() int {
	if c.inner == nil || c.inner.Process == nil {
		return 0
	}
	return c.inner.Process.Pid
}

// An ExitError reports an unsuccessful exit of the program.
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

// ExitCode returns the exit code in an error of [Cmd.Wait]: 0 for nil, -1 for an
// error that does not come from the program.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Code
	}
	return -1
}
