package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// An overrideRecord is a mountOverride as sent to another process, with the file
// that its path led to. It comes from the prescan or is one that bubblewrap was
// asked to mount.
type overrideRecord struct {
	Path string       `json:"path"`
	Kind overrideKind `json:"kind"`
	File fileID       `json:"file"`

	Fixed bool `json:"fixed,omitempty"` // see mountOverride.fixed
}

// recordsOf returns the records of overrides.
func recordsOf(overrides []mountOverride) []overrideRecord {
	var list []overrideRecord
	for _, c := range overrides {
		list = append(list, overrideRecord{c.path, c.kind, c.file, c.fixed})
	}
	return list
}

// verifyMounts checks, from inside, that bubblewrap has made the mounts in list
// and no other writable ones. Bubblewrap mounts by path: a process that can write
// a folder on the way could have put a symlink there in the meantime, and so make
// a folder of its choice writable or visible.
func verifyMounts(list []overrideRecord) error {
	for _, m := range list {
		if m.File.Kind == unix.S_IFLNK {
			continue // see pinSymlinks
		}
		if err := m.verify(); err != nil {
			return step(m.Path, err)
		}
	}
	mounts, err := writableMounts()
	if err != nil {
		return step("checking the mounts", err)
	}
	for _, path := range mounts {
		mine := slices.ContainsFunc(list, func(m overrideRecord) bool {
			return m.Kind <= pinned && isBelow(path, m.Path)
		})
		if !mine && !isBelow(path, "/dev") {
			return step(path, errReplaced)
		}
	}
	return nil
}

// verify returns an error unless m is in place.
func (m overrideRecord) verify() error {
	fd, err := unix.Open(m.Path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil || real != m.Path {
		return errReplaced
	}
	err = m.File.check(fd)
	if m.Kind == hidden {
		if err == nil {
			return errors.New("is not hidden")
		}
		return nil
	}
	return err
}

// writableMounts returns the mount points of writable file systems.
func writableMounts() ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var paths []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// id parent device root place options …
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 {
			return nil, fmt.Errorf("mount %q", lines.Text())
		}
		if slices.Contains(strings.Split(fields[5], ","), "rw") {
			paths = append(paths, unescapeMount(fields[4]))
		}
	}
	return paths, lines.Err()
}

// unescapeMount undoes the kernel's escaping of blanks and the like in a path: a
// backslash and three octal digits.
func unescapeMount(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '\\' && i+3 < len(path) {
			if c, err := strconv.ParseUint(path[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

// pinSymlinks mounts the symlinks of list on themselves, so that they can be
// neither replaced nor removed. It does so in a mount namespace of this thread and
// what it starts. Notes say which could not be mounted, which is the case where
// AppArmor lets only bubblewrap mount, and on older kernels.
func pinSymlinks(list []overrideRecord) (notes []string, err error) {
	list = slices.DeleteFunc(slices.Clone(list), func(m overrideRecord) bool { return m.File.Kind != unix.S_IFLNK })
	if len(list) == 0 {
		return nil, nil
	}
	cannot := unix.Unshare(unix.CLONE_NEWNS)
	for _, m := range list {
		err := cannot
		if err == nil {
			err = m.pin()
		}
		if errors.Is(err, errReplaced) || isMissing(err) {
			return nil, step(m.Path, errReplaced)
		}
		if err != nil && m.Fixed {
			return nil, step(m.Path, fmt.Errorf("the symlink could be replaced: %w", err))
		}
		if err != nil {
			notes = append(notes, fmt.Sprintf("the symlink %s can be replaced: %v", m.Path, err))
		}
	}
	return notes, nil
}

// pin mounts the symlink m on itself, read-only.
func (m overrideRecord) pin() error {
	c := mountOverride{path: m.Path, kind: readOnly, file: m.File, tree: -1}
	if err := c.clone(); err != nil {
		return err
	}
	return c.attach()
}
