package shell

import (
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"toolgate/internal/limits"
)

// add makes g watch p, which has been started.
func (g *guard) add(p *process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.commands = append(g.commands, p)
	if !g.running {
		g.running = true
		g.host.ending.Go(g.watch) // ends when no command has processes, or when the caller is gone
	}
}

// keepThreads makes the runtime have threads in reserve: in a fork bomb no more can be
// started, and a Go program that needs one crashes.
var keepThreads = sync.OnceFunc(func() {
	const reserve = 32
	var all sync.WaitGroup
	all.Add(reserve)
	for range reserve {
		go func() { // ends when all have a thread, which the runtime keeps
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			all.Done()
			all.Wait()
		}()
	}
	all.Wait()
})

func (g *guard) watch() {
	keepThreads()
	h := g.host
	watcher := limits.NewWatcher(h.limits(), h.folders(), h.options.Group)
	for {
		select {
		case <-h.closed:
			return
		case <-time.After(limits.Interval):
		}
		if over := watcher.Check(os.Getpid()); over != nil {
			if p := g.largest(over); p != nil {
				h.stopForLimit(p, over)
			}
		}
		if g.idle() {
			return
		}
	}
}

// idle drops the commands that have no processes, and reports whether none is left. It
// then ends the watch.
func (g *guard) idle() bool {
	gone := slices.DeleteFunc(g.list(), func(p *process) bool {
		return !p.hasEnded() || len(tracker.members(p)) > 0
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.commands = slices.DeleteFunc(g.commands, func(p *process) bool { return slices.Contains(gone, p) })
	g.running = len(g.commands) > 0
	return !g.running
}

// list returns the commands. The lock is not held while the tracker is asked, because a
// command is added while the tracker's is held.
func (g *guard) list() []*process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.commands)
}

// largest returns the command with the largest share of an excess.
func (g *guard) largest(over *limits.Excess) (largest *process) {
	commands := g.list()
	if len(commands) == 1 {
		return commands[0]
	}
	most := int64(-1)
	for _, p := range commands {
		var pids []int
		for _, m := range tracker.members(p) {
			pids = append(pids, m.pid)
		}
		if share := over.Share(pids); share > most {
			largest, most = p, share
		}
	}
	return largest
}

// folders returns [Options.Folders] or its default.
func (h *host) folders() []string {
	if len(h.options.Folders) > 0 {
		return h.options.Folders
	}
	return []string{".", os.TempDir()}
}
