//go:build unix

package files

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

func links(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

// inode identifies a file on this system as long as it exists.
func inode(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	return ""
}

// keepOwner sets the owner and group of f to those of old. If that is not permitted, it
// tries to set the group alone.
func keepOwner(f *os.File, old fs.FileInfo) error {
	want, ok := old.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if have, ok := info.Sys().(*syscall.Stat_t); ok && (have.Uid != want.Uid || have.Gid != want.Gid) {
		if f.Chown(int(want.Uid), int(want.Gid)) != nil {
			_ = f.Chown(-1, int(want.Gid)) // an ordinary user cannot give files away
		}
	}
	return nil
}

// syncFolder flushes a rename in dir to the disk, if possible.
func syncFolder(dir string) {
	if f, err := os.Open(dir); err == nil {
		_ = f.Sync()
		f.Close()
	}
}
