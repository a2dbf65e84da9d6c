package shell

import (
	"cmp"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// apply sets the limits of the process pid and of those that it starts from now on.
// It ignores errors: such a process runs as another user, with the limits of that
// user.
func (l Limits) apply(pid int) {
	lower(pid, unix.RLIMIT_NPROC, cmp.Or(l.Processes, defaultProcesses))
	lower(pid, unix.RLIMIT_NOFILE, cmp.Or(l.OpenFiles, defaultOpenFiles))
	lower(pid, unix.RLIMIT_FSIZE, cmp.Or(l.FileSize, defaultFileSize))
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

func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("toolgate-output", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "toolgate-output"), nil
}

// readOnlyMount reports whether path, or its nearest existing parent, is on a
// read-only mount.
func readOnlyMount(path string) bool {
	var st unix.Statfs_t
	for unix.Statfs(path, &st) != nil {
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
	return st.Flags&unix.ST_RDONLY != 0
}

// canCreate reports whether a file can be created in folder. It creates an unnamed
// one, which disappears at once.
func canCreate(folder string) bool {
	fd, err := unix.Open(folder, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}
