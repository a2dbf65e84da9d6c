package shell

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

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
