package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// verifyMounts checks, from inside, that bubblewrap has made the mounts in list
// and no other writable ones. Bubblewrap mounts by path: a process that can write
// a folder on the way could have put a symlink there in the meantime, and so make
// a folder of its choice writable or visible. Notes say what can be replaced.
func verifyMounts(list []mountOverride) (notes []string, err error) {
	for _, m := range list {
		if m.isSymlink() {
			continue // see pinSymlinks
		}
		err := m.verify()
		switch {
		case err != nil && !m.Shared:
			return nil, step(m.Path, err)
		case err != nil && !m.inPlace():
			notes = append(notes, fmt.Sprintf("%q can be replaced: %v", m.Path, err))
		}
	}
	mounts, err := writableMounts()
	if err != nil {
		return nil, step("checking the mounts", err)
	}
	for _, path := range mounts {
		mine := slices.ContainsFunc(list, func(m mountOverride) bool {
			return m.Kind <= pinned && isBelow(path, m.Path)
		})
		if !mine && !isBelow(path, "/dev") {
			return nil, step(path, errReplaced)
		}
	}
	return notes, nil
}

// verify returns an error unless m is in place.
func (m mountOverride) verify() error {
	found, err := lstatOverride(m.Path, m.Kind)
	if err != nil {
		return err
	}
	same := found.File == m.File
	switch {
	case found.Path != m.Path, m.Kind != hidden && !same:
		return errReplaced
	case m.Kind == hidden && same:
		return errors.New("is not hidden")
	}
	return nil
}

// writableMounts returns the mount points of writable file systems.
func writableMounts() ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var paths []string
	for line := range strings.Lines(string(text)) {
		// id parent device root place options …
		fields := strings.Split(line, " ") // not Fields: a path may contain other white space
		if len(fields) < 6 {
			return nil, fmt.Errorf("mount %q", line)
		}
		if slices.Contains(strings.Split(fields[5], ","), "rw") {
			paths = append(paths, unescapeMount(fields[4]))
		}
	}
	return paths, nil
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
func pinSymlinks(list []mountOverride) (notes []string, err error) {
	list = slices.DeleteFunc(slices.Clone(list), func(m mountOverride) bool { return !m.isSymlink() })
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
func (m mountOverride) pin() error {
	m.Kind = readOnly
	if err := m.clone(); err != nil {
		return err
	}
	return m.attach()
}
