package limits

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// A Delegation is the control group of this process (cgroups(7), version 2), which it may
// divide.
type Delegation struct {
	Dir         string
	Controllers []string // "pids", "memory": those that it has
}

// A Group is a control group with one sandbox in it, which the kernel holds to the limits.
// Nil limits nothing. It may be used concurrently.
type Group struct {
	Dir *os.File // the group, to start the sandbox in; nil in the sandbox

	// Files are what a worker needs: cgroup.threads of its commands, which moves a thread
	// that writes "0" there; pids.events and memory.events, empty if there is no limit.
	Files [3]*os.File

	limits Limits
	worker bool            // it only limits the memory of the worker itself
	last   [3]atomic.Int64 // what the files counted
}

const pids, memory = 1, 2 // in Files

// GroupFrom returns, in a worker, the group whose Files are its descriptors from first on.
func GroupFrom(l Limits, first uintptr) *Group {
	g := &Group{limits: l.WithDefaults()}
	for i := range g.Files {
		g.Files[i] = os.NewFile(first+uintptr(i), "cgroup")
	}
	return g
}

// count returns how often a limit was met. It returns false if there is none.
func (g *Group) count(limit int) (int64, bool) {
	if g == nil {
		return 0, false
	}
	buf := make([]byte, 512)
	size, _ := g.Files[limit].ReadAt(buf, 0)
	return number(buf[:size], [...]string{pids: "max", memory: "oom"}[limit])
}

// grew reports whether a limit was met since the last call.
func (g *Group) grew(limit int) bool {
	n, ok := g.count(limit)
	return ok && n > g.last[limit].Swap(n)
}

// Met returns a limit that was met since the last call, or nil.
func (g *Group) Met() *Excess {
	switch {
	case g.grew(pids):
		return g.limits.processesExcess()
	case g.grew(memory):
		return g.limits.memoryExcess()
	}
	return nil
}

// End kills what is left in the group of a sandbox that ended with err, and removes it. It
// returns the limit that was met, if there is one, instead of an err.
func (g *Group) End(err error) error {
	if g == nil {
		return err
	}
	if g.worker {
		g.grew(pids) // a command met it, which ends no worker
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

// commandsGroup is the part of a worker's group that its commands are in.
const commandsGroup = "commands"

// removeGroup removes a sandbox's group. The kernel takes a moment for processes that have
// just ended.
func removeGroup(dir string) {
	os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	for range 1000 {
		os.Remove(filepath.Join(dir, commandsGroup))
		if err := os.Remove(dir); err == nil || os.IsNotExist(err) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
