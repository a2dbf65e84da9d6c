package applypatch

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"toolgate/tools"
)

// A folder holds named files for the store. Writes are atomic.
type folder interface {
	sizes() (map[string]int64, error)
	read(name string, off, n int64) ([]byte, error) // n < 0 reads to the end
	write(name string, data []byte) error
	rename(from, to string) error
	remove(name string) error
	open() error // makes the folder if it does not exist
}

// A diskFolder is a folder on disk. Completed changes survive a crash.
type diskFolder struct {
	dir  string
	disk *disk
}

const (
	lockName  = "lock"
	tmpSuffix = ".tmp"
)

func (f *diskFolder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *diskFolder) open() error { return f.wrap(f.disk.mkdirAll(f.dir)) }

func (f *diskFolder) wrap(err error) error {
	if err == nil {
		return nil
	}
	return recordError(f.dir, err)
}

func recordError(dir string, err error) error {
	return fmt.Errorf("the record of changes in %s cannot be written: %w", dir, tools.Reason(err))
}

func (f *diskFolder) sizes() (map[string]int64, error) {
	entries, err := os.ReadDir(f.dir)
	sizes := map[string]int64{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.Name() != lockName {
			sizes[e.Name()] = info.Size()
		}
	}
	return sizes, err
}

func (f *diskFolder) read(name string, off, n int64) ([]byte, error) {
	file, err := os.Open(f.path(name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if n < 0 {
		n = info.Size() - off
	}
	if off+n > info.Size() {
		return nil, io.ErrUnexpectedEOF
	}
	data := make([]byte, n)
	_, err = file.ReadAt(data, off)
	return data, err
}

func (f *diskFolder) write(name string, data []byte) error {
	tmp := f.path(name + tmpSuffix)
	if exists(tmp) { // left by a process that crashed
		f.disk.remove(tmp)
	}
	err := f.disk.create(tmp, data, 0o600)
	if err == nil {
		err = f.disk.sync([]string{tmp})
	}
	if err == nil {
		err = f.rename(name+tmpSuffix, name)
	}
	return f.wrap(err)
}

func (f *diskFolder) rename(from, to string) error {
	err := f.disk.rename(f.path(from), f.path(to))
	if err == nil {
		err = f.disk.sync([]string{f.dir})
	}
	return f.wrap(err)
}

func (f *diskFolder) remove(name string) error { return f.wrap(f.disk.remove(f.path(name))) }

// A memoryFolder is a folder in memory.
type memoryFolder map[string][]byte

func (f memoryFolder) open() error { return nil }

func (f memoryFolder) sizes() (map[string]int64, error) {
	sizes := map[string]int64{}
	for name, data := range f {
		sizes[name] = int64(len(data))
	}
	return sizes, nil
}

func (f memoryFolder) read(name string, off, n int64) ([]byte, error) {
	data, ok := f[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	if n < 0 {
		n = int64(len(data)) - off
	}
	if off+n > int64(len(data)) {
		return nil, io.ErrUnexpectedEOF
	}
	return data[off : off+n], nil
}

func (f memoryFolder) write(name string, data []byte) error {
	f[name] = bytes.Clone(data)
	return nil
}

func (f memoryFolder) rename(from, to string) error {
	f[to] = f[from]
	delete(f, from)
	return nil
}

func (f memoryFolder) remove(name string) error {
	delete(f, name)
	return nil
}
