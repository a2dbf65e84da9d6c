//go:build !linux

package applypatch

import (
	"errors"
	"io/fs"
	"os"
)

// renameNew renames from to to and fails if to exists. The check and the rename
// are not atomic.
func renameNew(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	}
	return os.Rename(from, to)
}

func exchange(string, string) error { return errors.ErrUnsupported }
