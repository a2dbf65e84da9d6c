//go:build linux || darwin

package applypatch

import (
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// links returns how many names the file has.
func links(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Nlink)
	}
	return 1
}

// copyOwner gives the file at path the owner and group of info.
func copyOwner(path string, info fs.FileInfo) error {
	want, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	now, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if st, ok := now.Sys().(*syscall.Stat_t); ok && st.Uid == want.Uid && st.Gid == want.Gid {
		return nil
	}
	return os.Lchown(path, int(want.Uid), int(want.Gid))
}

// copyAttributes gives the file at path the extended attributes of the one at
// like, access lists among them. What the system labels itself is left to it.
func copyAttributes(path, like string) error {
	for _, name := range attributes(like) {
		if strings.HasPrefix(name, "security.") || strings.HasPrefix(name, "com.apple.") {
			continue
		}
		value, err := attribute(like, name)
		if err != nil {
			continue // gone, or not for us to see
		}
		if err := unix.Setxattr(path, name, value, 0); err != nil {
			return &fs.PathError{Op: "setxattr", Path: path, Err: err}
		}
	}
	return nil
}

func attributes(path string) []string {
	n, err := unix.Listxattr(path, nil)
	if err != nil || n == 0 {
		return nil
	}
	buf := make([]byte, n)
	n, err = unix.Listxattr(path, buf)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00")
}

func attribute(path, name string) ([]byte, error) {
	n, err := unix.Getxattr(path, name, nil)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, n)
	n, err = unix.Getxattr(path, name, buf)
	return buf[:max(n, 0)], err
}
