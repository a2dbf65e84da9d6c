package shell

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"toolgate/internal/limits"
)

// adopt makes this process the parent of all orphaned descendants, so that no
// process that a command started is lost.
var adopt = sync.OnceFunc(func() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })

// members returns the live processes of p, including p itself. It reads no file whose reader waits
// for the process itself, as for its command line: in a fork bomb, that takes seconds for each.
func (f *processTracker) members(p *process) []member {
	if noChildren() {
		return nil
	}
	f.starting.Lock()
	children, running := limits.Children(os.Getpid()), f.running()
	f.starting.Unlock()
	var pids []int
	add := func(more ...int) {
		for _, pid := range more {
			if !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	if slices.Contains(running, p) {
		add(p.pid())
	}
	alone := len(running) == 0 || len(running) == 1 && running[0] == p
	for _, pid := range children {
		if !hasPid(running, pid) && isStray(pid) && owns(p, pid, alone) {
			add(pid)
		}
	}
	for i := 0; i < len(pids); i++ { // pids grows
		add(limits.Children(pids[i])...)
	}
	members := make([]member, 0, len(pids))
	for _, pid := range pids {
		members = append(members, member{pid: pid})
	}
	return members
}

// identify fills in what m is.
func (m *member) identify() {
	m.name = string(bytes.TrimSpace(procFile(m.pid, "comm")))
	// A process without a command line is about to exit, or is in the middle of exec. Its
	// environment is unreadable too, so its owner is a guess.
	m.exiting = len(procFile(m.pid, "cmdline")) == 0
}

// reap reaps adopted processes that have ended, so that they do not accumulate in
// a long session. It does nothing while another goroutine lists the children.
func (f *processTracker) reap() {
	if !f.starting.TryLock() {
		return
	}
	defer f.starting.Unlock()
	// WNOWAIT: only check whether any child has ended.
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err != nil || info.Signo == 0 {
		return
	}
	running := f.running()
	for _, pid := range limits.Children(os.Getpid()) {
		if !hasPid(running, pid) {
			isStray(pid) // reaps it when it has ended
		}
	}
}

func hasPid(running []*process, pid int) bool {
	return slices.ContainsFunc(running, func(r *process) bool { return r.pid() == pid })
}

// noChildren reports whether this process has no child at all, so that no process
// of any command is alive. It costs one system call.
func noChildren() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == unix.ECHILD
}

// isStray reports whether a child that is not a running command was adopted from
// one and is alive. It reaps an adopted child that has ended. Children that other
// code in this process started are in the session of this process; commands never
// are.
func isStray(pid int) bool {
	sid, err := unix.Getsid(pid)
	if own, _ := unix.Getsid(0); err != nil || sid == own {
		return false
	}
	reaped, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return err == nil && reaped == 0
}

// owns reports whether the stray pid belongs to p. alone means that no other
// command is running, so that unmarked processes belong to p.
func owns(p *process, pid int, alone bool) bool {
	if sid, _ := unix.Getsid(pid); sid == p.pid() {
		return true
	}
	id := commandIDOf(pid)
	return id == p.id || id == "" && alone
}

func commandIDOf(pid int) string {
	for v := range bytes.SplitSeq(procFile(pid, "environ"), []byte{0}) {
		if id, ok := bytes.CutPrefix(v, []byte(callVariable+"=")); ok {
			return string(id)
		}
	}
	return ""
}

// procFile returns the content of a file that the kernel has about pid, or nothing if it
// cannot be read.
func procFile(pid int, name string) []byte {
	content, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
	return content
}
