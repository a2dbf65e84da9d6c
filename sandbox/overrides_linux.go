package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolgate/policy"
)

// A mountOverride is a mount over one path that differs from the read-only root.
// As JSON it is sent to another process.
type mountOverride struct {
	Path string       `json:"path"` // with symlinks resolved, except for its last name
	Kind overrideKind `json:"kind"`
	File fileID       `json:"file"`

	// Source is the folder that is mounted at Path, "" for Path itself.
	Source string `json:"source,omitempty"`
	Fixed  bool   `json:"fixed,omitempty"` // of Hidden or ReadOnlyPaths: path must not be replaced
	// Shared is set if it was found in a shared root, where others remove and
	// replace files at any time.
	Shared bool `json:"shared,omitempty"`

	tree    int  // detached copy of the mounts at path, 0 for none
	inMask  bool // lies below a mask or a Source, in which path has to be created
	partial bool // hidden, but a path below it is not
}

// An overrideKind is the kind of a mount override. If two are for one path, the
// greater kind wins.
type overrideKind int

const (
	writable overrideKind = iota
	pinned                // a mount that keeps a writable path from being moved
	readOnly
	hidden // under a mask: a tmpfs over a folder, a device file over a file
)

// A fileID identifies the file at a path at one moment.
type fileID struct {
	Dev, Ino uint64
	Kind     uint32 // the file type bits of its mode
}

func (id fileID) isDir() bool { return id.Kind == unix.S_IFDIR }

// isSymlink reports whether c is for a symlink itself and not for its target.
func (c mountOverride) isSymlink() bool { return c.File.Kind == unix.S_IFLNK }

// Limits of the search for protected names. Folders beyond them are read-only, and
// a note says so.
const (
	maxSearched  = 2_000_000 // names in a root, which take some two seconds
	maxProtected = 2_000
	sharedDepth  = 1 // folders below a shared root
)

// A view is the difference between the read-only root and what a sandbox sees.
type view struct {
	overrides []mountOverride // parents first, so that the more specific path wins
	symlinks  []symlink       // to be created in masks
	notes     []string        // what could not be protected
}

// A scanFunc runs a search and says what changed during it.
type scanFunc func() (scanChange, error)

// layout returns the view of plan, whose roots have no symlinks. Repeat runs the
// search as often as necessary, see [scanUntilStable]. Prescanned is the scan result
// of the shared roots, nil to search them too.
func layout(plan Plan, prescanned *scanResult, repeat func(scanFunc) (note string, err error)) (view, error) {
	p := plan.Profile
	var list []mountOverride
	if p.TempDir != "" {
		c, err := lstatOverride(p.TempDir, writable)
		if err == nil && (c.Path != p.TempDir || !c.File.isDir()) {
			err = errReplaced
		}
		if err != nil {
			return view{}, fmt.Errorf("temporary folder %s: %w", p.TempDir, err)
		}
		c.Path, c.Source = slashTmp, p.TempDir
		list = append(list, c)
		p.WritableRoots = without(p.WritableRoots, slashTmp)
	}
	for _, root := range p.WritableRoots {
		c, err := statOverride(root, writable)
		if err != nil {
			return view{}, fmt.Errorf("writable root %s: %w", root, err)
		}
		if c.Path != root {
			return view{}, fmt.Errorf("writable root %s: %w", root, errReplaced)
		}
		list = append(list, c)
	}
	var protected []mountOverride
	var notes, matched []string
	note, err := repeat(func() (worst scanChange, err error) {
		patterns := splitPatterns(p.ReadOnlySubpaths)
		protected, notes, worst = searchRoots(p.WritableRoots, p.SharedRoots, patterns, prescanned)
		matched, err = findGlobs(p.Paths.DeniedGlobs, p.Paths.GlobDepth)
		return worst, err
	})
	if err != nil {
		return view{}, err
	}
	if note != "" {
		notes = append(notes, note)
	}
	list = append(list, protected...)
	for _, named := range []struct {
		what  string
		paths []string
		kind  overrideKind
		fixed bool
	}{
		{"readable path", p.Paths.Readable, readOnly, false},
		{"read-only path", p.Paths.ReadOnly, readOnly, false},
		{"hidden path", p.Hidden, hidden, true},
		{"denied path", p.Paths.Denied, hidden, false},
		{"denied path", matched, hidden, false},
	} {
		for _, path := range named.paths {
			c, err := statOverride(path, named.kind)
			// What this process cannot reach with its capabilities, no other
			// process of the sandbox can reach.
			if isMissing(err) || errors.Is(err, unix.EACCES) {
				continue
			}
			if err != nil {
				return view{}, fmt.Errorf("%s %s: %w", named.what, path, err)
			}
			c.Fixed = named.fixed
			list = append(list, c)
		}
	}
	if list, err = addFixedPaths(list, p); err != nil {
		return view{}, err
	}
	v := nest(list, p.Paths.Restricted)
	v.notes = notes
	v.addSymlinks(p.Paths)
	return v, nil
}

// addFixedPaths adds to list the paths of ReadOnlyPaths that lie in a writable
// root, and pinned mounts for the folders above them and above hidden paths. If
// such a folder could be moved away, another file could be put at the same path.
func addFixedPaths(list []mountOverride, p policy.Profile) ([]mountOverride, error) {
	var fixed, pins []mountOverride
	for _, path := range p.ReadOnlyPaths {
		c, err := lstatOverride(path, readOnly)
		if isMissing(err) || errors.Is(err, unix.EACCES) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read-only path %s: %w", path, err)
		}
		c.Fixed = true
		if _, ok := outerRoot(c.Path, p.WritableRoots); ok {
			fixed = append(fixed, c)
		}
	}
	seen := map[string]bool{}
	for _, c := range slices.Concat(list, fixed) {
		root, ok := outerRoot(c.Path, p.WritableRoots)
		if !ok || !c.Fixed {
			continue
		}
		for up := filepath.Dir(c.Path); isBelow(up, root) && up != root && !seen[up]; up = filepath.Dir(up) {
			seen[up] = true
			pin, err := lstatOverride(up, pinned)
			if err != nil {
				return nil, fmt.Errorf("folder %s: %w", up, err)
			}
			pins = append(pins, pin)
		}
	}
	return slices.Concat(pins, fixed, list), nil
}

// outerRoot returns the outermost of roots that contains path.
func outerRoot(path string, roots []string) (root string, ok bool) {
	for _, r := range roots {
		if path != r && isBelow(path, r) && (!ok || len(r) < len(root)) {
			root, ok = r, true
		}
	}
	return root, ok
}

// nest sorts the overrides and finds out which of them lie below a mask. With
// restricted, the whole root is one.
func nest(list []mountOverride, restricted bool) view {
	slices.SortStableFunc(list, func(a, b mountOverride) int {
		if d := strings.Count(a.Path, "/") - strings.Count(b.Path, "/"); d != 0 {
			return d
		}
		if d := strings.Compare(a.Path, b.Path); d != 0 {
			return d
		}
		return int(a.Kind) - int(b.Kind)
	})
	v := view{}
	at := map[string]int{} // index of the override at a path
	for i, c := range list {
		if i+1 < len(list) && list[i+1].Path == c.Path {
			continue // two names may lead to one path: the stricter kind wins
		}
		mask, masked, closed := -1, restricted, false
		for up := c.Path; up != "/"; {
			up = filepath.Dir(up)
			if i, ok := at[up]; ok {
				mask, masked, closed = i, v.overrides[i].Kind == hidden, v.overrides[i].Kind == readOnly
				if v.overrides[i].Source != "" {
					mask, masked = -1, true
				}
				break
			}
		}
		switch {
		case masked && (c.Kind == hidden || c.Kind == pinned || c.Fixed):
			continue // hidden by the mask already
		case closed && c.Kind == pinned:
			continue // it would make the path writable
		case masked && mask >= 0:
			v.overrides[mask].partial = true
		}
		c.inMask = masked
		at[c.Path] = len(v.overrides)
		v.overrides = append(v.overrides, c)
	}
	return v
}

// A symlink is created in a mask if a readable path leads through it.
type symlink struct{ path, target string }

// addSymlinks adds the symlinks, such as /bin, that readable paths lead through.
func (v *view) addSymlinks(p policy.Paths) {
	masks := map[string]bool{"/": p.Restricted}
	for _, c := range v.overrides {
		masks[c.Path] = c.Kind == hidden
	}
	inMask := func(path string) bool {
		for {
			if masked, ok := masks[path]; ok {
				return masked
			}
			path = filepath.Dir(path)
		}
	}
	seen := map[string]bool{}
	for _, path := range p.Readable {
		rest := strings.Split(strings.TrimPrefix(path, "/"), "/")
		for here, hops := "/", 0; len(rest) > 0 && hops < 40; {
			next := filepath.Join(here, rest[0])
			rest = rest[1:]
			target, err := os.Readlink(next)
			if err != nil {
				here = next
				continue
			}
			hops++
			if !seen[next] && inMask(filepath.Dir(next)) {
				seen[next] = true
				v.symlinks = append(v.symlinks, symlink{next, target})
			}
			if filepath.IsAbs(target) {
				here = "/"
			}
			rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
		}
	}
}

// isMissing reports whether err says that a path does not exist.
func isMissing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
}

// statOverride returns the override for path, or for its target if it is a symlink.
func statOverride(path string, kind overrideKind) (mountOverride, error) {
	return openOverride(path, kind, 0)
}

// lstatOverride returns the override for path, even if it is a symlink.
func lstatOverride(path string, kind overrideKind) (mountOverride, error) {
	return openOverride(path, kind, unix.O_NOFOLLOW)
}

func openOverride(path string, kind overrideKind, flags int) (mountOverride, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return mountOverride{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return mountOverride{}, err
	}
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return mountOverride{}, err
	}
	return mountOverride{Path: real, Kind: kind, File: idOf(st)}, nil
}

// inPlace reports whether c is mounted, or its path does not exist.
func (c mountOverride) inPlace() bool {
	fd, err := unix.Open(c.Path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return isMissing(err)
	}
	defer unix.Close(fd)
	mounted, protected := mountState(fd)
	switch c.Kind {
	case readOnly:
		return protected
	case hidden:
		return mounted && isMask(fd)
	}
	return mounted || protected
}

// mountState reports whether the file is the root of a mount, and whether that
// mount is read-only, so that the file can be neither changed nor moved.
func mountState(fd int) (root, protected bool) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_NO_AUTOMOUNT, 0, &st); err == nil {
		root = st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err == nil {
		protected = fs.Flags&unix.ST_RDONLY != 0
	}
	return root, protected
}

// isMask reports whether the root of a mount is a mask: a read-only tmpfs, or the
// null device.
func isMask(fd int) bool {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Fstat(fd, &st) != nil || unix.Fstatfs(fd, &fs) != nil {
		return false
	}
	if st.Mode&unix.S_IFMT == unix.S_IFCHR {
		return st.Rdev == unix.Mkdev(1, 3)
	}
	return fs.Type == unix.TMPFS_MAGIC && fs.Flags&unix.ST_RDONLY != 0
}

// idOf returns the id of the file that st describes.
func idOf(st unix.Stat_t) fileID {
	return fileID{uint64(st.Dev), st.Ino, st.Mode & unix.S_IFMT}
}
