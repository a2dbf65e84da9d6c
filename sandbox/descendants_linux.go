package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// killDescendants kills every descendant of this process, which must be a child
// subreaper, and returns when none is left. It is for sandboxes without a pid
// namespace.
func killDescendants() { endDescendants(os.Getpid(), descendants) }

// endDescendants is killDescendants with self, the id of this process, and find,
// which returns the descendants of a process. What find returns may be outdated,
// and it may miss some.
func endDescendants(self int, find func(self int) []int) {
	if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err == unix.ECHILD {
		return
	}
	// Stop all of them first, so that none can fork during the search.
	stopped := map[int]bool{}
	for range 100 {
		fresh := false
		for _, pid := range find(self) {
			if !stopped[pid] {
				stopped[pid], fresh = true, true
				signalDescendant(self, pid, unix.SIGSTOP)
			}
		}
		if !fresh {
			break
		}
	}
	// One pass can miss a process whose parent exits during the search. So do not
	// block in wait, but search again until none is left.
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		for _, pid := range find(self) {
			signalDescendant(self, pid, unix.SIGKILL)
		}
		if reapAll() {
			return
		}
		time.Sleep(pause)
	}
}

// reapAll reaps the children that have ended and reports whether none is left.
func reapAll() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return true // ECHILD
		case pid == 0:
			return false
		}
	}
}

// signalDescendant sends sig to pid if it is still a descendant of self: the id
// may have been reused. Its process group gets it at once, since a fork bomb is faster
// than one signal after the other. The group consists of descendants, unless it is the
// one of self; while pid is stopped, no other group can have its id.
func signalDescendant(self, pid int, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for up := pid; up != self; {
		if up = parentOf(up); up <= 1 {
			return
		}
	}
	unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0)
	own, _ := unix.Getpgid(self)
	if group, err := unix.Getpgid(pid); err == nil && group > 1 && group != own {
		unix.Kill(-group, sig)
	}
	unix.PidfdSendSignal(fd, sig, nil, 0)
}

// descendants returns the descendants of self.
func descendants(self int) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	children := map[int][]int{}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			parent := parentOf(pid)
			children[parent] = append(children[parent], pid)
		}
	}
	var found []int
	for next := children[self]; len(next) > 0; {
		pid := next[0]
		found = append(found, pid)
		next = append(next[1:], children[pid]...)
	}
	return found
}

// parentOf returns the parent of pid, or 0 if pid is gone.
func parentOf(pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// pid (name) state parent …; the name may contain any character.
	rest := stat[bytes.LastIndexByte(stat, ')')+1:]
	fields := bytes.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}
