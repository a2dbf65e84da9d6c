package tools

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// refusedBySandbox returns why the sandbox refused, or "" when err does not
// come from the sandbox.
//
// A sandbox shows itself in two ways. A read-only mount answers EROFS, and
// EBUSY when the mount itself is to be removed or renamed.
// Landlock answers EACCES and a seccomp filter EPERM, and neither is seen by
// access(2), which goes by owner and mode: where access(2) finds nothing to
// forbid, something else forbade it.
func refusedBySandbox(err error, op, path string) string {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return ""
	}
	if errno == unix.EROFS {
		return "it is read-only in the sandbox"
	}
	tried := attempts(err, op, path)
	if errno == unix.EBUSY && slices.ContainsFunc(tried, attempt.readOnlyMount) {
		return "it is read-only in the sandbox"
	}
	if errno != unix.EACCES && errno != unix.EPERM {
		return ""
	}
	for _, a := range tried {
		if !a.permitted(errno) {
			return ""
		}
	}
	if len(tried) == 0 {
		return ""
	}
	return "it is outside what the sandbox opens for that"
}

// An attempt is one thing that a failed system call tried.
type attempt struct {
	path  string
	entry bool   // it tried to create, delete or rename the name itself
	want  uint32 // unix.R_OK or unix.W_OK, when it did not
}

// attempts returns what the call behind err tried, or nothing for a call that
// can be refused for reasons that owner and mode do not tell.
func attempts(err error, op, path string) []attempt {
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		switch le.Op {
		case "rename", "renameat":
			return []attempt{{path: le.Old, entry: true}, {path: le.New, entry: true}}
		case "symlink", "symlinkat":
			return []attempt{{path: le.New, entry: true}}
		}
		return nil
	}
	call := "open"
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		call, path = pe.Op, pe.Path
	}
	switch call {
	case "remove", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "mknod":
		return []attempt{{path: path, entry: true}}
	case "open", "openat", "truncate", "readdirent", "opendir":
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return []attempt{{path: path, entry: true}}
		}
		if op == "read" {
			return []attempt{{path: path, want: unix.R_OK}}
		}
		return []attempt{{path: path, want: unix.W_OK}}
	}
	return nil
}

// permitted reports whether owner and mode of the files allow the attempt
// that ended in errno, so that something else must have refused it.
func (a attempt) permitted(errno unix.Errno) bool {
	parent := filepath.Dir(a.path)
	if a.entry {
		return accessible(parent, unix.W_OK|unix.X_OK) && !sticky(parent, a.path, errno)
	}
	return accessible(a.path, a.want) && !sticky(parent, a.path, errno)
}

// readOnlyMount reports whether the attempt is on a file of a read-only mount.
func (a attempt) readOnlyMount() bool {
	var st unix.Statfs_t
	return unix.Statfs(a.path, &st) == nil && st.Flags&unix.ST_RDONLY != 0
}

// accessible asks the kernel about owner, mode and access list, for the
// effective user.
func accessible(path string, mode uint32) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS) == nil
}

// sticky reports whether errno is explained by the sticky bit of dir: names in
// such a folder are deleted and renamed by their owner only (EPERM), and
// files of others are not opened for creation (EACCES, fs.protected_regular).
func sticky(dir, path string, errno unix.Errno) bool {
	var d, f unix.Stat_t
	if unix.Stat(dir, &d) != nil || d.Mode&unix.S_ISVTX == 0 || unix.Lstat(path, &f) != nil {
		return false
	}
	me := uint32(os.Geteuid())
	if errno == unix.EPERM {
		return me != f.Uid && me != d.Uid
	}
	return me != f.Uid && f.Uid != d.Uid && d.Mode&0o022 != 0
}
