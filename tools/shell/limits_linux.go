package shell

import "golang.org/x/sys/unix"

// apply sets the limits of the process pid and of those that it starts from now on.
// It ignores errors: such a process runs as another user, with the limits of that
// user.
func (l Limits) apply(pid int) {
	lower(pid, unix.RLIMIT_NPROC, orDefault(l.Processes, defaultProcesses))
	lower(pid, unix.RLIMIT_NOFILE, orDefault(l.OpenFiles, defaultOpenFiles))
	lower(pid, unix.RLIMIT_FSIZE, orDefault(l.FileSize, defaultFileSize))
	lower(pid, unix.RLIMIT_CORE, l.CoreSize)
}

// lower sets a limit, unless it is negative or above the current one.
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
