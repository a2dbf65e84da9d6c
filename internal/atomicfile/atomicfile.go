// Package atomicfile replaces files in one step.
package atomicfile

import (
	"cmp"
	"os"
	"path/filepath"
)

// Write makes b the content of file, with mode 0600. It creates the folder if there is
// none, with mode 0700. If it fails, or the machine does, the file is as before.
func Write(file string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	if err == nil {
		err = tmp.Sync()
	}
	if err = cmp.Or(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}
