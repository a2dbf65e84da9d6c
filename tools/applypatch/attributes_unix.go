//go:build linux || darwin

package applypatch

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func links(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Nlink)
	}
	return 1
}

// copyOwner sets the owner and group of the file at path to those of the one at like.
func copyOwner(path, like string) error {
	var want, now unix.Stat_t
	if err := errors.Join(unix.Lstat(like, &want), unix.Lstat(path, &now)); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if now.Uid == want.Uid && now.Gid == want.Gid {
		return nil
	}
	return os.Lchown(path, int(want.Uid), int(want.Gid))
}

// copyAttributes copies the extended attributes of the file at like, including
// access control lists, to the file at path. It skips labels that the system sets.
func copyAttributes(path, like string) error {
	names, _ := sized(func(buf []byte) (int, error) { return unix.Listxattr(like, buf) })
	for name := range strings.SplitSeq(string(names), "\x00") {
		if name == "" || strings.HasPrefix(name, "security.") || strings.HasPrefix(name, "com.apple.") {
			continue
		}
		value, err := sized(func(buf []byte) (int, error) { return unix.Getxattr(like, name, buf) })
		if err != nil {
			continue // removed, or not readable
		}
		if err := unix.Setxattr(path, name, value, 0); err != nil {
			return &fs.PathError{Op: "setxattr", Path: path, Err: err}
		}
	}
	return nil
}

// sized returns what get writes. For an empty buffer, get returns the size that it needs.
func sized(get func(buf []byte) (int, error)) ([]byte, error) {
	n, err := get(nil)
	if err != nil || n == 0 {
		return nil, err
	}
	buf := make([]byte, n)
	n, err = get(buf)
	return buf[:max(n, 0)], err
}
