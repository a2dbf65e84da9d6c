package applypatch

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func renameNoReplace(from, to string) error { return renameat2(from, to, unix.RENAME_NOREPLACE) }

func exchange(a, b string) error { return renameat2(a, b, unix.RENAME_EXCHANGE) }

// renameat2 renames with flags. The error is [errors.ErrUnsupported] if the file system
// does not support them.
func renameat2(from, to string, flags uint) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags)
	switch err {
	case nil:
		return nil
	case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP:
		return errors.ErrUnsupported
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}
