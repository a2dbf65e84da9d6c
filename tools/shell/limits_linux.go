package shell

import "golang.org/x/sys/unix"

// apply holds the process pid, and what it starts from now on, to the limits.
// What the system refuses is left as it is: such a process has changed its user
// and has that user's limits.
func (l Limits) apply(pid int) {
	lower(pid, unix.RLIMIT_NPROC, orDefault(l.Processes, defaultProcesses))
	lower(pid, unix.RLIMIT_NOFILE, orDefault(l.OpenFiles, defaultOpenFiles))
	lower(pid, unix.RLIMIT_FSIZE, orDefault(l.FileSize, defaultFileSize))
	lower(pid, unix.RLIMIT_CORE, l.CoreSize)
}

// lower sets a limit that is not negative, where it is less than the present
// one.
func lower(pid, resource int, limit int64) {
	if limit < 0 {
		return
	}
	var now unix.Rlimit
	if unix.Prlimit(pid, resource, nil, &now) != nil {
		return
	}
	wanted := unix.Rlimit{Cur: min(now.Cur, uint64(limit)), Max: min(now.Max, uint64(limit))}
	if wanted != now {
		_ = unix.Prlimit(pid, resource, &wanted, nil)
	}
}
