//go:build linux || darwin

package shell

import (
	"os"

	"golang.org/x/sys/unix"
)

func hasDiskSpace(f *os.File) bool {
	var st unix.Statfs_t
	err := unix.Fstatfs(int(f.Fd()), &st)
	return err != nil || st.Bavail*uint64(st.Bsize) > minFreeSpace
}
