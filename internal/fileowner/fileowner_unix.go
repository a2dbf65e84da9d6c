//go:build !windows

package fileowner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLinks limits the symlinks followed in one path, as on Linux.
const maxLinks = 40

// Check returns an *[Error] if a user other than this one and root could change or
// replace the file or folder at path: it, or a folder or symlink on the way to it, belongs
// to someone else or can be written by others. A folder with the sticky bit, such as
// /tmp, may be written by others, and what is the user's by the user's private group.
// Nothing is wrong with what does not exist.
func Check(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, rest := "/", parts(path)
	if err := checkOne(at); err != nil {
		return err
	}
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0]) // also for ".."
		rest = rest[1:]
		if err := checkOne(next); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		target, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return fmt.Errorf("%s: too many symlinks", path)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(parts(target), rest...)
	}
	return nil
}

func parts(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// checkOne is [Check] for one file, without the folders on the way.
func checkOne(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	stat := info.Sys().(*syscall.Stat_t)
	owner := stat.Uid
	if owner != 0 && int(owner) != os.Geteuid() && !isUnmapped(owner) {
		return &Error{
			Path: path,
			Why:  fmt.Sprintf("belongs to another user (uid %d)", owner),
			Fix:  fmt.Sprintf("check what is in it, then run `chown %d '%s'`", os.Geteuid(), path),
		}
	}
	mode := info.Mode()
	isLink, isSticky := mode&fs.ModeSymlink != 0, mode.IsDir() && mode&fs.ModeSticky != 0
	if mode.Perm()&0o022 == 0 || isLink || isSticky {
		return nil
	}
	if mode.Perm()&0o002 == 0 && isPrivate(stat.Gid) {
		return nil
	}
	if unix.Access(path, unix.W_OK) == unix.EROFS {
		return nil // as in a mounted Kubernetes volume
	}
	return &Error{
		Path: path,
		Why:  fmt.Sprintf("can be written by other users (mode %04o)", mode.Perm()),
		Fix:  fmt.Sprintf("check what is in it, then run `chmod go-w '%s'`", path),
	}
}

// isPrivate reports whether the group with this id has this user alone as a member. Many
// systems give each user such a group and a umask of 0002 (pam_umask(8), usergroups).
func isPrivate(gid uint32) bool {
	me, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil || me.Gid != strconv.FormatUint(uint64(gid), 10) {
		return false
	}
	groups, err := os.ReadFile("/etc/group")
	return err == nil && hasOnly(string(groups), me.Gid, me.Username)
}

// hasOnly reports whether groups, in the format of group(5), has a group of the user's
// name and with this id, without other members.
func hasOnly(groups, gid, name string) bool {
	found := false
	for line := range strings.Lines(groups) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 4 || f[2] != gid {
			continue
		}
		if f[0] != name || f[3] != "" && f[3] != name {
			return false
		}
		found = true
	}
	return found
}

// overflowID is how a user namespace shows the owner of a file whom it has no id for,
// which often is the root outside.
const overflowID = 65534

// isUnmapped reports whether owner stands for users outside this user namespace.
func isUnmapped(owner uint32) bool {
	if owner != overflowID {
		return false
	}
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		var first, outside, count int64
		if _, err := fmt.Sscan(line, &first, &outside, &count); err != nil {
			return false
		}
		if first <= overflowID && overflowID < first+count {
			return false
		}
	}
	return true
}
