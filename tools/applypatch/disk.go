package applypatch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
)

// A disk makes all changes to the file system, so that a test can make any of them
// fail or simulate a crash after it.
type disk struct {
	// fault, if not nil, is called before every change. If it returns an error,
	// the change fails with it.
	fault func(op, path string) error
}

func (d *disk) before(op, path string) error {
	if d.fault == nil {
		return nil
	}
	if err := d.fault(op, path); err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return nil
}

// chunk is the maximum size of one write, in bytes.
const chunk = 1 << 20

// create creates a file with the content data. The mode is subject to the umask.
func (d *disk) create(path string, data []byte, mode fs.FileMode) error {
	if err := d.before("open", path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return errors.Join(d.write(f, data, 0), f.Close())
}

// overwrite replaces the content of the file at path in place. Until it returns,
// the content is a mixture of both.
func (d *disk) overwrite(path string, data []byte) error {
	if err := d.before("open", path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = d.write(f, data, 0)
	if err == nil {
		err = d.before("truncate", path)
	}
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err == nil {
		err = d.before("sync", path)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// write writes data at offset off.
func (d *disk) write(f *os.File, data []byte, off int64) error {
	for len(data) > 0 {
		n := min(len(data), chunk)
		if err := d.before("write", f.Name()); err != nil {
			return err
		}
		if _, err := f.WriteAt(data[:n], off); err != nil {
			return err
		}
		data, off = data[n:], off+int64(n)
	}
	return nil
}

func (d *disk) symlink(target, path string) error {
	if err := d.before("symlink", path); err != nil {
		return err
	}
	return os.Symlink(target, path)
}

func (d *disk) mkdir(path string, mode fs.FileMode) error {
	if err := d.before("mkdir", path); err != nil {
		return err
	}
	return os.Mkdir(path, mode)
}

func (d *disk) remove(path string) error {
	if err := d.before("remove", path); err != nil {
		return err
	}
	return os.Remove(path)
}

func (d *disk) chmod(path string, mode fs.FileMode) error {
	if err := d.before("chmod", path); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// rename renames from to to and replaces to if it exists.
func (d *disk) rename(from, to string) error {
	if err := d.before("rename", to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// renameNew renames from to to, which must not exist.
func (d *disk) renameNew(from, to string) error {
	if err := d.before("rename", to); err != nil {
		return err
	}
	return renameNew(from, to)
}

// exchange exchanges the files at a and b atomically. The error is
// [errors.ErrUnsupported] if the file system does not support that.
func (d *disk) exchange(a, b string) error {
	if err := d.before("rename", b); err != nil {
		return err
	}
	return exchange(a, b)
}

// copyMetadata copies the owner and the extended attributes of the file at like to
// the one at path. Unless must is set, it ignores those that cannot be set.
func (d *disk) copyMetadata(path, like string, info fs.FileInfo, must bool) error {
	if err := d.before("chown", path); err != nil {
		return err
	}
	if err := copyOwner(path, info); err != nil && must {
		return err
	}
	if err := d.before("setxattr", path); err != nil {
		return err
	}
	if err := copyAttributes(path, like); err != nil && must {
		return err
	}
	return nil
}

// syncers is the number of concurrent calls of fsync. A file system writes its
// journal once for all of them.
const syncers = 32

// sync flushes files and folders to the disk.
func (d *disk) sync(paths []string) error {
	for _, p := range paths {
		if err := d.before("sync", p); err != nil {
			return err
		}
	}
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

// parentsOf returns the parent folders of paths without duplicates.
func parentsOf(paths []string) []string {
	var dirs []string
	seen := map[string]bool{}
	for _, p := range paths {
		if dir := filepath.Dir(p); !seen[dir] {
			seen[dir] = true
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
