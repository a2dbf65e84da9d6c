//go:build !linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
)

// Main must be the first thing in main, and in TestMain. It returns at once
// here.
func Main() {}

// Current returns the plan that this process is held to: none here.
func Current() (Plan, bool) { return Plan{}, false }

// Guess returns what Probe does: here that costs nothing.
func Guess() System { return Probe() }

// Probe returns what this system can enforce: nothing yet here.
func Probe() System { return System{OS: runtime.GOOS, Root: os.Geteuid() == 0} }

// A link says that the command was started.
type link struct{}

// Start starts the program. Here only a plan that confines nothing can be
// started; ending what the program itself started is left to the program.
func (c *Cmd) Start() error {
	if c.link != nil {
		return errors.New("sandbox: already started")
	}
	if c.plan.Digest == "" || c.plan.seal().Digest != c.plan.Digest {
		return errors.New("sandbox: plan was not made by NewPlan")
	}
	if c.plan.confined() {
		return fmt.Errorf("%w: there is no sandbox for %s", ErrUnsupported, runtime.GOOS)
	}
	if len(c.Args) == 0 {
		return errors.New("sandbox: no program")
	}
	args := slices.Clone(c.Args)
	if args[0] == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		args[0] = self
	}
	named := exec.Command(args[0])
	if named.Err != nil {
		return named.Err
	}
	c.inner.Path, c.inner.Args = named.Path, args
	c.inner.Dir = c.Dir
	c.inner.Env = append([]string{}, c.Env...)
	if c.Stdin != nil {
		c.inner.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		c.inner.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		c.inner.Stderr = c.Stderr
	}
	c.inner.ExtraFiles = c.ExtraFiles
	c.link = &link{}
	return c.inner.Start()
}

// Wait waits for the program to end and its output to be copied. The error is
// an [*ExitError] when the program ran and did not end well.
func (c *Cmd) Wait() error {
	err := c.inner.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return &ExitError{Code: exit.ExitCode()}
	}
	return err
}

// WaitEnded is Wait here.
func (c *Cmd) WaitEnded() error { return c.Wait() }

// Kill ends the program. Wait still has to be called.
func (c *Cmd) Kill() error {
	if c.inner.Process == nil {
		return errors.New("sandbox: not started")
	}
	return c.inner.Process.Kill()
}

// A Spawner starts commands. Here it adds no restriction.
type Spawner struct{}

// NewSpawner returns a Spawner for commands held to p, which must confine
// nothing here.
func NewSpawner(p Plan) (*Spawner, error) {
	if p.Digest == "" {
		return nil, errors.New("sandbox: plan was not made by NewPlan")
	}
	if p.confined() {
		return nil, fmt.Errorf("%w: there is no sandbox for %s", ErrUnsupported, runtime.GOOS)
	}
	return &Spawner{}, nil
}

// Start is cmd.Start.
func (s *Spawner) Start(cmd *exec.Cmd) error { return cmd.Start() }

// StartWatched is Start with a watch that sees nothing here.
func (s *Spawner) StartWatched(cmd *exec.Cmd) (*Watch, error) { return &Watch{}, s.Start(cmd) }

// A Watch tells what the sandbox refused to one command: nothing here.
type Watch struct{}

// Denials returns what was refused: nothing here.
func (w *Watch) Denials() []Denial { return nil }

// Close ends the spawner. Commands that run go on.
func (s *Spawner) Close() error { return nil }
