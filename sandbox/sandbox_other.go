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

// Main must be the first call in main and in TestMain. On this system it returns
// at once.
func Main() {}

// Current returns the plan that this process is confined to: none on this system.
func Current() (Plan, bool) { return Plan{}, false }

// Guess is the same as [Probe] on this system.
func Guess() System { return Probe() }

// Probe returns what this system can enforce: nothing yet.
func Probe() System { return System{OS: runtime.GOOS, Root: os.Geteuid() == 0} }

// A link says that the command was started.
type link struct{}

// Start starts the program. On this system only a plan that confines nothing can
// be started, and processes that the program starts may outlive it.
func (c *Cmd) Start() error {
	if err := c.check(); err != nil {
		return err
	}
	if c.plan.confined() {
		return fmt.Errorf("%w: there is no sandbox for %s", ErrUnsupported, runtime.GOOS)
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
	c.setStdio()
	c.inner.ExtraFiles = c.ExtraFiles
	c.link = &link{}
	return c.inner.Start()
}

// Wait waits for the program to end and for its output to be copied. The error is
// an [*ExitError] if the program ran and did not exit with 0.
func (c *Cmd) Wait() error {
	err := c.inner.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return &ExitError{Code: exit.ExitCode()}
	}
	return err
}

// WaitEnded is the same as Wait on this system.
func (c *Cmd) WaitEnded() error { return c.Wait() }

// Rescan does nothing on this system, where nothing is confined.
func (c *Cmd) Rescan() error { return nil }

// Kill kills the program. The caller must still call Wait.
func (c *Cmd) Kill() error {
	if c.inner.Process == nil {
		return errors.New("sandbox: not started")
	}
	return c.inner.Process.Kill()
}

// A Spawner starts commands. On this system it adds no restrictions.
type Spawner struct{}

// NewSpawner returns a Spawner for commands confined to p, which must confine
// nothing on this system.
func NewSpawner(p Plan) (*Spawner, error) {
	if p.Digest == "" {
		return nil, errors.New("sandbox: plan was not made by NewPlan")
	}
	if p.confined() {
		return nil, fmt.Errorf("%w: there is no sandbox for %s", ErrUnsupported, runtime.GOOS)
	}
	return &Spawner{}, nil
}

// NewSpawnerIn is NewSpawner on this system.
func NewSpawnerIn(p Plan, _ *os.File) (*Spawner, error) { return NewSpawner(p) }

// Start is cmd.Start.
func (s *Spawner) Start(cmd *exec.Cmd) error { return cmd.Start() }

// StartWatched is Start with a watch that records nothing on this system.
func (s *Spawner) StartWatched(cmd *exec.Cmd) (*Watch, error) { return &Watch{}, s.Start(cmd) }

// A Watch records what the sandbox refused to one command: nothing on this system.
type Watch struct{}

// Denials returns nothing on this system.
func (w *Watch) Denials() []Denial { return nil }
