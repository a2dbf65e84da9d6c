package shell

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A processTracker is the commands that run, and what they started. There is one in a
// process, as there is one set of children.
//
// A process that leaves its command's group and loses its parent is found
// again where the system lets the worker adopt it (Linux). To whom it belongs
// is told by its session, or by the [callVariable] in its environment; one that
// got rid of both belongs to whichever command ends last.
type processTracker struct {
	// starting is held for reading while a command is started and until it
	// is in roots, so that a look at the worker's children never meets a
	// command that is not yet known.
	starting sync.RWMutex

	mu    sync.Mutex
	roots map[int]*process // commands that run, by process id
}

var tracker processTracker

// callVariable marks what a command starts, through all that inherits its
// environment.
const callVariable = "TOOLGATE_COMMAND_ID"

// A member is one process of a command, or a whole group of them.
type member struct {
	pid  int    // negative for a process group
	name string // what it is called, "" when not known

	exiting bool // it is about to end by itself
}

func (f *processTracker) add(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.roots == nil {
		f.roots = make(map[int]*process)
	}
	f.roots[p.pid()] = p
}

func (f *processTracker) remove(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.roots, p.pid())
}

// running returns the commands that run.
func (f *processTracker) running() []*process {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*process
	for _, p := range f.roots {
		all = append(all, p)
	}
	return all
}

// awaitStarts returns when the commands that are being started are known.
func (f *processTracker) awaitStarts() {
	f.starting.Lock()
	defer f.starting.Unlock()
}

// end asks everything that belongs to p to end, and kills what is left after
// grace, or, once hurry is closed, after closeGrace. It returns when nothing is
// left, or after five more seconds, when a process cannot be killed.
func (f *processTracker) end(p *process, grace time.Duration, hurry <-chan struct{}) {
	f.signalUntilGone(p, terminate, false, grace, hurry)
	p.group.kill()
	f.signalUntilGone(p, kill, true, 5*time.Second, nil)
}

// signalUntilGone sends a signal to all members of p and waits until none is
// left or the limit is reached, which hurry brings nearer. When repeat is set
// the signal is sent again to what is still there, and to what was started
// since.
func (f *processTracker) signalUntilGone(p *process, signal func(member), repeat bool, limit time.Duration, hurry <-chan struct{}) {
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

// leftoverLine returns a line that names the processes, for the model.
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
	return fmt.Sprintf("The command left %s running in the background, now ended; to keep a program running, start it in the foreground with exec_command.\n", what)
}
