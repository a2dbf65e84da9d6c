package applypatch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"toolgate/internal/filelock"
)

// A disk makes all changes to the file system, so that a test can make any of them
// fail or simulate a crash after it.
type disk struct {
	// fault, if not nil, is called before every change. If it returns an error,
	// the change fails with it.
	fault func(op, path string) error
}

// try makes a change, unless fault returns an error.
func (d *disk) try(op, path string, change func() error) error {
	if d.fault != nil {
		if err := d.fault(op, path); err != nil {
			return &fs.PathError{Op: op, Path: path, Err: err}
		}
	}
	return change()
}

func (d *disk) open(path string, flag int, mode fs.FileMode) (f *os.File, err error) {
	err = d.try("open", path, func() error {
		f, err = os.OpenFile(path, os.O_WRONLY|flag, mode)
		return err
	})
	return f, err
}

// create creates a file with the content data. The mode is subject to the umask.
func (d *disk) create(path string, data []byte, mode fs.FileMode) error {
	f, err := d.open(path, os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return errors.Join(d.write(f, data), f.Close())
}

// overwrite replaces the content of the file at path in place. Until it returns,
// the content is a mixture of both.
func (d *disk) overwrite(path string, data []byte) error {
	f, err := d.open(path, 0, 0)
	if err != nil {
		return err
	}
	err = d.write(f, data)
	if err == nil {
		err = d.try("truncate", path, func() error { return f.Truncate(int64(len(data))) })
	}
	if err == nil {
		err = d.try("sync", path, f.Sync)
	}
	return errors.Join(err, f.Close())
}

// write writes data in pieces, so that a test can stop it between them.
func (d *disk) write(f *os.File, data []byte) error {
	const most = 1 << 20
	for piece := range slices.Chunk(data, most) {
		err := d.try("write", f.Name(), func() error {
			_, err := f.Write(piece)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) symlink(target, path string) error {
	return d.try("symlink", path, func() error { return os.Symlink(target, path) })
}

func (d *disk) mkdir(path string, mode fs.FileMode) error {
	return d.try("mkdir", path, func() error { return os.Mkdir(path, mode) })
}

// mkdirAll makes dir, which only this user may read, and the folders above it unless they exist.
func (d *disk) mkdirAll(dir string) error {
	if isDir(dir) {
		return nil
	}
	return d.try("mkdir", dir, func() error { return os.MkdirAll(dir, 0o700) })
}

// lock waits for the lock on the file at path, which is created if it does not exist,
// and holds it until unlock is called. An empty path is no lock.
func (d *disk) lock(ctx context.Context, path string) (unlock func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	var f *os.File
	err = d.mkdirAll(filepath.Dir(path))
	if err == nil {
		err = d.try("open", path, func() error {
			f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
			return err
		})
	}
	if err == nil {
		err = filelock.Lock(ctx, f, 0)
	}
	switch {
	case err == nil:
		return func() { f.Close() }, nil
	case f != nil:
		f.Close()
	}
	return nil, recordError(filepath.Dir(path), err)
}

func (d *disk) remove(path string) error {
	return d.try("remove", path, func() error { return os.Remove(path) })
}

func (d *disk) chmod(path string, mode fs.FileMode) error {
	return d.try("chmod", path, func() error { return os.Chmod(path, mode) })
}

// rename renames from to to and replaces to if it exists.
func (d *disk) rename(from, to string) error {
	return d.try("rename", to, func() error { return os.Rename(from, to) })
}

// renameNew renames from to to and fails if to exists. Without support of the system, the
// check and the rename are not atomic.
func (d *disk) renameNew(from, to string) error {
	return d.try("rename", to, func() error {
		err := renameNoReplace(from, to)
		switch {
		case !errors.Is(err, errors.ErrUnsupported):
			return err
		case exists(to):
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.EEXIST}
		}
		return os.Rename(from, to)
	})
}

// exchange exchanges the files at a and b atomically. The error is
// [errors.ErrUnsupported] if the file system does not support that.
func (d *disk) exchange(a, b string) error {
	return d.try("rename", b, func() error { return exchange(a, b) })
}

// copyMetadata copies the owner and the extended attributes of the file at like to
// the one at path. Unless must is set, it ignores those that cannot be set.
func (d *disk) copyMetadata(path, like string, must bool) error {
	ignore := func(err error) error {
		if must {
			return err
		}
		return nil
	}
	err := d.try("chown", path, func() error { return ignore(copyOwner(path, like)) })
	if err != nil {
		return err
	}
	return d.try("setxattr", path, func() error { return ignore(copyAttributes(path, like)) })
}

func (d *disk) sync(paths []string) error {
	for _, p := range paths {
		if err := d.try("sync", p, func() error { return nil }); err != nil {
			return err
		}
	}
	const syncers = 32 // a file system writes its journal once for all of them
	var wg sync.WaitGroup
	errs := make([]error, len(paths))
	for s := range min(syncers, len(paths)) {
		wg.Go(func() {
			for i := s; i < len(paths); i += syncers {
				errs[i] = syncOne(paths[i])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func syncOne(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) && isDir(path) {
		return nil // a folder that cannot be opened cannot be synced
	}
	if err != nil {
		return err
	}
	err = f.Sync()
	if info, e := f.Stat(); e == nil && info.IsDir() && !syncsFolders(err) {
		err = nil // folders cannot be synced here
	}
	return errors.Join(err, f.Close())
}

// syncsFolders reports whether err means anything but that the system or the file
// system cannot sync folders.
func syncsFolders(err error) bool {
	return runtime.GOOS != "windows" && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported)
}
