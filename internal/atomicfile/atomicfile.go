// Package atomicfile replaces files in one step.
package atomicfile

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
)

// Write makes b the content of file, and mode its permissions, whatever the umask is. It
// creates the folder if there is none, with mode 0700. If it fails, or the machine does,
// the file is as before. A symbolic link is replaced, not followed.
func Write(file string, b []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	if err = cmp.Or(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}
