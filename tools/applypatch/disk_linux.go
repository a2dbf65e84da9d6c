package applypatch

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameNew renames from to to and fails if to exists.
func renameNew(from, to string) error {
	return renameat2("rename", from, to, unix.RENAME_NOREPLACE, func() error {
		if _, err := os.Lstat(to); err == nil {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: unix.EEXIST}
		}
		return os.Rename(from, to)
	})
}

func exchange(a, b string) error {
	return renameat2("rename", a, b, unix.RENAME_EXCHANGE, func() error { return errors.ErrUnsupported })
}

// renameat2 renames with flags. It calls otherwise if the file system does not
// support them.
func renameat2(op, from, to string, flags uint, otherwise func() error) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags)
	switch err {
	case nil:
		return nil
	case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP:
		return otherwise()
	}
	return &os.LinkError{Op: op, Old: from, New: to, Err: err}
}
