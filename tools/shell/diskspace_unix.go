//go:build linux || darwin

package shell

import (
	"os"

	"golang.org/x/sys/unix"
)

func hasDiskSpace(f *os.File) bool {
	conn, err := f.SyscallConn()
	if err != nil {
		return true
	}
	var st unix.Statfs_t
	cerr := conn.Control(func(fd uintptr) { err = unix.Fstatfs(int(fd), &st) })
	return cerr != nil || err != nil || st.Bavail*uint64(st.Bsize) > minFreeSpace
}
