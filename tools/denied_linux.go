package tools

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// refusedBySandbox returns why the sandbox refused, or "" if err does not come from
// the sandbox.
//
// There are two kinds of denials. A read-only mount returns EROFS, or EBUSY for
// removing or renaming the mount itself. Landlock returns EACCES and a seccomp filter
// EPERM. Neither affects access(2), which checks owner and mode: if access(2) succeeds,
// the sandbox was the cause.
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

// An attempt is an access that a failed system call tried.
type attempt struct {
	path  string
	entry bool   // it tried to create, delete or rename the directory entry
	want  uint32 // otherwise, unix.R_OK or unix.W_OK
}

// attempts returns what the call that returned err tried, or nil for calls that can be
// refused for reasons other than owner and mode.
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

// permitted reports whether owner and mode allow the attempt that failed with errno, so
// that something else must have refused it.
func (a attempt) permitted(errno unix.Errno) bool {
	parent := filepath.Dir(a.path)
	if a.entry {
		return accessible(parent, unix.W_OK|unix.X_OK) && !sticky(parent, a.path, errno)
	}
	return accessible(a.path, a.want) && !sticky(parent, a.path, errno)
}

func (a attempt) readOnlyMount() bool {
	var st unix.Statfs_t
	return unix.Statfs(a.path, &st) == nil && st.Flags&unix.ST_RDONLY != 0
}

// accessible reports whether owner, mode and access control list allow access for the
// effective user.
func accessible(path string, mode uint32) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS) == nil
}

// sticky reports whether the sticky bit of dir explains errno: in such a folder, only
// owners can delete and rename entries (EPERM), and files of others cannot be opened
// with O_CREAT (EACCES, fs.protected_regular).
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
