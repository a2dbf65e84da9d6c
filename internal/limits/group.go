package limits

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// A Group is a control group (cgroups(7), version 2) with one sandbox in it, which the
// kernel holds to the limits. Nil limits nothing. It may be used concurrently.
type Group struct {
	Dir *os.File // the group, to start the sandbox in; nil in the sandbox

	// Files are what a worker needs, see [GroupFrom]: cgroup.threads of its commands,
	// pids.events and memory.events. A limit that the group lacks has an empty file.
	Files [3]*os.File

	limits       Limits
	pids, memory counter
}

// GroupFrom returns the group that has these files.
func GroupFrom(l Limits, files [3]*os.File) *Group {
	g := &Group{Files: files, limits: l.WithDefaults()}
	g.pids.of(files[1], "max")
	g.memory.of(files[2], "oom")
	return g
}

// A counter reads how often a limit was met.
type counter struct {
	file *os.File // nil if the group does not have this limit
	name string   // of the number in it
	last atomic.Int64
}

func (c *counter) of(file *os.File, name string) {
	c.file, c.name = file, name
	if _, ok := c.read(); !ok {
		c.file = nil
	}
}

func (c *counter) read() (n int64, ok bool) {
	if c.file == nil {
		return 0, false
	}
	buf := make([]byte, 512)
	size, _ := c.file.ReadAt(buf, 0)
	return number(buf[:size], c.name)
}

// grew reports whether the limit was met since the last call.
func (c *counter) grew() bool {
	n, ok := c.read()
	return ok && n > c.last.Swap(n)
}

// Met returns a limit that was met since the last call, or nil.
func (g *Group) Met() *Excess {
	switch {
	case g == nil:
	case g.pids.grew():
		return g.limits.processesExcess()
	case g.memory.grew():
		return g.limits.memoryExcess()
	}
	return nil
}

// measures reports whether the kernel measures all that a [Watcher] would.
func (g *Group) measures() bool { return g != nil && g.pids.file != nil && g.memory.file != nil }

// End kills what is left in the group of a sandbox that ended with err, and removes it. It
// returns the limit that was met, if there is one, instead of an err.
func (g *Group) End(err error) error {
	if g == nil {
		return err
	}
	if over := g.Met(); err != nil && over != nil {
		err = fmt.Errorf("stopped: %w", over)
	}
	removeGroup(g.Dir.Name())
	for _, f := range append(g.Files[:], g.Dir) {
		f.Close()
	}
	return err
}

// removeGroup removes a sandbox's group. The kernel takes a moment for processes that have
// just ended.
func removeGroup(path string) {
	os.WriteFile(filepath.Join(path, "cgroup.kill"), []byte("1"), 0)
	for range 1000 {
		os.Remove(filepath.Join(path, commandsGroup))
		if err := os.Remove(path); err == nil || os.IsNotExist(err) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// commandsGroup is the part of a worker's group that its commands are in.
const commandsGroup = "commands"
