package shell

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A processTracker tracks the running commands and the processes that they
// started. There is one per process, because there is one set of children.
//
// On Linux, a process that leaves the group of its command and loses its parent
// is adopted by the worker. Its session, or the [callVariable] in its environment,
// shows to which command it belongs. One without either belongs to the command
// that ends last.
type processTracker struct {
	// starting is read-locked while a command is started and until it is in
	// roots, so that a list of the worker's children never has an unknown
	// command.
	starting sync.RWMutex

	mu    sync.Mutex
	roots map[int]*process // running commands by process id
}

var tracker = processTracker{roots: map[int]*process{}}

// callVariable is the environment variable that marks the processes started by a
// command.
const callVariable = "TOOLGATE_COMMAND_ID"

// A member is a process of a command, or a process group.
type member struct {
	pid  int    // negative for a process group
	name string // "" if unknown

	exiting bool // it is about to exit by itself
}

// mostIdentified is the number of processes that a command left running of which more than the id is
// found out.
const mostIdentified = 100

func (f *processTracker) add(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.roots[p.pid()] = p
}

func (f *processTracker) remove(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.roots, p.pid())
}

func (f *processTracker) running() []*process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.roots))
}

// awaitStarts waits until the commands being started are in roots.
func (f *processTracker) awaitStarts() {
	f.starting.Lock()
	defer f.starting.Unlock()
}

// end terminates all processes of p, and kills the remaining ones after grace or,
// once hurry is closed, after closeGrace. It returns when none is left, or after
// five more seconds if a process cannot be killed.
func (f *processTracker) end(p *process, hurry <-chan struct{}) {
	f.signalUntilGone(p, terminate, false, grace, hurry)
	f.signalUntilGone(p, kill, true, 5*time.Second, nil)
}

// signalUntilGone sends a signal to all members of p and waits until none is left
// or the limit is reached. Closing hurry shortens the limit. If repeat is set, the
// signal is sent repeatedly to all members, including new ones.
func (f *processTracker) signalUntilGone(
	p *process, signal func(member), repeat bool, limit time.Duration, hurry <-chan struct{},
) {
	deadline := time.Now().Add(limit)
	pause := time.Millisecond
	for first := true; ; first = false {
		members := f.members(p)
		if len(members) == 0 || !first && !time.Now().Before(deadline) {
			return
		}
		if first || repeat {
			for _, m := range members {
				signal(m)
			}
		}
		select {
		case <-hurry:
			hurry = nil
			if soon := time.Now().Add(closeGrace); soon.Before(deadline) {
				deadline = soon
			}
		case <-time.After(pause):
			pause = min(2*pause, 50*time.Millisecond)
		}
	}
}

// leftoverLine returns a line for the model that names the leftover processes.
func leftoverLine(members []member) string {
	if len(members) == 0 {
		return ""
	}
	var names []string
	for _, m := range members {
		if m.name != "" && !slices.Contains(names, m.name) {
			names = append(names, m.name)
		}
	}
	what := fmt.Sprintf("%d processes", len(members))
	if len(members) == 1 {
		what = "a process"
	}
	if len(names) > 0 {
		what += " (" + strings.Join(names[:min(len(names), 8)], ", ") + ")"
	}
	return fmt.Sprintf("The command left %s running in the background, now ended; "+
		"to keep a program running, start it in the foreground with exec_command.\n", what)
}
