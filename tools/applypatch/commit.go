package applypatch

import (
	"bytes"
	"os"
	"path/filepath"

	"toolgate/tools"
)

// commit brings the files to what the plan says; all of them or, when one
// cannot be written, none.
func (pl *plan) commit() error {
	for i, path := range pl.order {
		f := pl.files[path]
		if err := f.write(); err != nil {
			for _, done := range pl.order[:i+1] {
				pl.files[done].restore()
			}
			return tools.AsDenial(err, "write", f.written)
		}
	}
	return nil
}

func (f *file) changed() bool {
	return f.was.exists != f.now.exists || f.was.mode != f.now.mode || !bytes.Equal(f.was.data, f.now.data)
}

func (f *file) write() error {
	switch {
	case !f.changed():
		return nil
	case !f.now.exists:
		return os.Remove(f.path)
	case !f.was.exists:
		if err := os.MkdirAll(filepath.Dir(f.path), 0o777); err != nil {
			return err
		}
		return os.WriteFile(f.path, f.now.data, f.now.mode)
	}
	if err := os.WriteFile(f.path, f.now.data, f.now.mode); err != nil {
		return err
	}
	if f.was.mode != f.now.mode {
		return os.Chmod(f.path, f.now.mode)
	}
	return nil
}

func (f *file) restore() {
	if !f.was.exists {
		os.Remove(f.path)
		return
	}
	if data, err := os.ReadFile(f.path); err != nil || !bytes.Equal(data, f.was.data) {
		os.WriteFile(f.path, f.was.data, f.was.mode)
	}
	os.Chmod(f.path, f.was.mode)
}
