// Package limits finds out when processes use more of the machine than they may.
//
//	w := limits.NewWatcher(l, writableFolders, nil)
//	if over := w.Check(pid); over != nil {
//		// end what runs below pid, and report over
//	}
//
// It measures by reading /proc, so it exists on Linux only, and it notices an excess
// a moment late. What it does not measure is listed in docs/sandbox.md. In a [Group], the
// kernel measures and limits processes and memory.
package limits

import (
	"cmp"
	"fmt"
	"sync"
	"time"
)

// Limits are the limits of what runs in a sandbox. In each field, 0 means the
// default and a negative number no limit.
type Limits struct {
	Processes int64 `json:"processes,omitempty"` // processes and threads, default 8192
	Memory    int64 `json:"memory,omitempty"`    // bytes, default three quarters of the machine's memory
	Disk      int64 `json:"disk,omitempty"`      // bytes to keep free, default 1 GiB, see [NewWatcher]
	Output    int64 `json:"output,omitempty"`    // bytes that one command prints, default 2 GiB

	// For each process. They are the kernel's limits and come without a Watcher.
	OpenFiles int64 `json:"open_files,omitempty"` // default 16384
	FileSize  int64 `json:"file_size,omitempty"`  // bytes, default 64 GiB
	CoreSize  int64 `json:"core_size,omitempty"`  // bytes of a memory dump, default none
}

// WithDefaults returns l with its defaults. A negative field stays as it is.
func (l Limits) WithDefaults() Limits {
	l.Processes = cmp.Or(l.Processes, 8192)
	if l.Memory == 0 {
		l.Memory = totalMemory() / 4 * 3 // 0, no limit, if it is unknown
	}
	l.Disk = cmp.Or(l.Disk, 1<<30)
	l.Output = cmp.Or(l.Output, 2<<30)
	l.OpenFiles = cmp.Or(l.OpenFiles, 16384)
	l.FileSize = cmp.Or(l.FileSize, 64<<30)
	return l
}

// Interval is the time between two checks.
const Interval = 250 * time.Millisecond

// An Excess is a limit that was exceeded.
type Excess struct {
	Key  string // of the limit in the config
	What string // "it used more than 6.0 GiB of memory"
}

func (e *Excess) Error() string {
	change := "raise"
	if e.Key == "disk" {
		change = "lower"
	}
	return fmt.Sprintf("%s; the user can %s %s in [limits] of toolgate's config", e.What, change, e.Key)
}

// OutputExcess returns the error of a command that printed more than most bytes.
func OutputExcess(most int64) *Excess {
	return &Excess{"output", "it printed more than " + size(most)}
}

func (l Limits) processesExcess() *Excess {
	return &Excess{"processes", fmt.Sprintf("it had more than %d processes and threads", l.Processes)}
}

func (l Limits) memoryExcess() *Excess {
	return &Excess{"memory", fmt.Sprintf("it used more than %s of memory", size(l.Memory))}
}

// size returns n bytes in words.
func size(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// A Watcher checks processes against limits. It may be used concurrently.
type Watcher struct {
	limits Limits
	disks  []disk
	group  *Group
}

// A disk is a file system that must not fill up.
type disk struct {
	folder string // on it
	keep   int64  // bytes to keep free
}

// NewWatcher returns a Watcher for l and for the file systems of folders. On each of
// them l.Disk bytes stay free, but at most a twentieth of its size, and at most half
// of what is free now. Group is the group of the processes or nil.
func NewWatcher(l Limits, folders []string, group *Group) *Watcher {
	w := &Watcher{limits: l.WithDefaults(), group: group}
	seen := map[any]bool{}
	for _, folder := range folders {
		if s, err := statDisk(folder); w.limits.Disk > 0 && err == nil && !seen[s.id] {
			seen[s.id] = true
			w.disks = append(w.disks, disk{folder, min(w.limits.Disk, s.size/20, s.free/2)})
		}
	}
	return w
}

// A diskState is how full a file system is.
type diskState struct {
	id         any // identifies it
	size, free int64
}

// Check returns the limit that all descendants of pid exceed together, or nil. In a group,
// a limit of processes that was met is exceeded, but not one of memory: the kernel ends
// the largest process. See [Group.Met].
func (w *Watcher) Check(pid int) *Excess {
	if w.group.grew(pids) {
		return w.limits.processesExcess()
	}
	l := w.limits
	_, byPids := w.group.count(pids)
	_, byMemory := w.group.count(memory)
	var u usage
	if !byPids || !byMemory {
		if l.Processes > 0 && listed(pid) > l.Processes {
			return l.processesExcess()
		}
		u = measure(pid, l.Processes)
	}
	switch {
	case l.Processes > 0 && u.tasks > l.Processes:
		return l.processesExcess()
	case l.Memory > 0 && u.memory > l.Memory && memoryOf(u.pids) > l.Memory:
		return l.memoryExcess()
	}
	for _, d := range w.disks {
		if s, err := statDisk(d.folder); err == nil && s.free < d.keep {
			return &Excess{"disk", fmt.Sprintf("less than %s were left on the disk of %s", size(d.keep), d.folder)}
		}
	}
	return nil
}

// A usage is what processes use together.
type usage struct {
	pids   []int
	tasks  int64 // processes and threads
	memory int64 // bytes; what they share counts for each
}

// Share returns how much of what was exceeded is due to the processes pids.
func (e *Excess) Share(pids []int) int64 {
	switch e.Key {
	case "processes":
		return int64(len(pids))
	case "memory":
		return memoryOf(pids)
	}
	return sum(pids, written)
}

// mostMeasured is the largest number of processes among which shared memory is divided.
const mostMeasured = 256

// memoryOf returns the memory of pids in bytes. Of more than mostMeasured, the memory of files does not
// count, and what they share since a fork counts for each: to divide it, the kernel has the reader wait
// for each process, which takes seconds in a fork bomb.
func memoryOf(pids []int) int64 {
	if len(pids) > mostMeasured {
		return sum(pids, anonymous)
	}
	return sum(pids, proportional)
}

func sum(pids []int, of func(pid int) int64) (total int64) {
	for _, pid := range pids {
		total += of(pid)
	}
	return total
}

// Watch checks the descendants of pid once a second until end is called, and calls stop
// at the first excess or limit met, which end returns instead of err.
func (w *Watcher) Watch(pid int, stop func() error) (end func(err error) error) {
	done := make(chan struct{})
	var over *Excess
	var watching sync.WaitGroup
	watching.Go(func() { // ends with done
		for over == nil {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
			if over = cmp.Or(w.Check(pid), w.group.Met()); over != nil {
				stop()
			}
		}
	})
	return func(err error) error {
		close(done)
		if watching.Wait(); over != nil {
			return fmt.Errorf("stopped: %w", over)
		}
		return err
	}
}
