// Package atomicfile replaces files in one step, and creates new ones.
package atomicfile

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
)

// Write makes b the content of file, and mode its permissions. It creates the folder if
// there is none, with mode 0700. If it fails, or the machine does, the file is as before.
// A symbolic link is replaced, not followed.
func Write(file string, b []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	if mode != 0o600 { // CreateTemp's; some file systems cannot change it
		err = cmp.Or(err, tmp.Chmod(mode))
	}
	if err = cmp.Or(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}

// Create is [Write] for a file that must not exist yet, with mode 0600. If it does, the
// error wraps [fs.ErrExist]. Until Create returns, a reader can see part of the content.
func Create(file string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = cmp.Or(err, f.Close()); err != nil {
		os.Remove(file)
	}
	return err
}
