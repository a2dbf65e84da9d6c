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

// A mountOverride is one path that differs from the read-only rest.
type mountOverride struct {
	path string // without symlinks, but for its last name when it is one
	kind overrideKind
	file fileID
	tree int // a detached copy of the mounts there, -1 without

	inMask  bool // what it lies in is masked: its place has to be made
	partial bool // hidden, but something in it is not
	fixed   bool // of Hidden or ReadOnlyPaths: nothing else may take its place
}

// A overrideKind says how. Where two carvings are about one path, the later
// kind wins.
type overrideKind int

const (
	writable overrideKind = iota
	pinned                // writable as before, but cannot be moved away
	readOnly
	hidden
)

// A fileID is what a path led to when it was looked at.
type fileID struct {
	Dev, Ino uint64
	Kind     uint32 // the file type bits of its mode
}

func (id fileID) isDir() bool { return id.Kind == unix.S_IFDIR }

// isSymlink reports whether it is a symlink itself that is carved out.
func (c mountOverride) isSymlink() bool { return c.file.Kind == unix.S_IFLNK }

// Limits on how far a writable root is searched for protected names. What
// lies beyond them is not protected, and the note says so.
const (
	maxSearched  = 200_000
	maxProtected = 2_000
	sharedDepth  = 1 // folders below a shared root
)

// A view is what differs from the read-only rest.
type view struct {
	overrides []mountOverride // outermost first, so that the more exact path wins
	symlinks  []symlink       // to be made in masks
	notes     []string        // what was left out
}

// layout returns what plan, whose roots have no symlinks, carves out of the
// read-only root, once nobody moves folders about. Early is what is known of
// the shared roots, nil when they are to be searched.
func layout(plan Plan, early *scanResult) (view, error) {
	return layoutWith(plan, early, scanUntilStable)
}

// layoutOnce is layout at once. It is for a sandbox that runs, which is told of
// what is moved later.
func layoutOnce(plan Plan) (view, error) {
	return layoutWith(plan, nil, func(search func() (scanChange, error)) (note string, err error) {
		_, err = search()
		return "", err
	})
}

func layoutWith(plan Plan, early *scanResult, settle func(search func() (scanChange, error)) (note string, err error)) (view, error) {
	p := plan.Profile
	var list []mountOverride
	for _, root := range p.WritableRoots {
		c, err := statOverride(root, writable)
		if err != nil {
			return view{}, fmt.Errorf("writable root %s: %w", root, err)
		}
		if c.path != root {
			return view{}, fmt.Errorf("writable root %s: %w", root, errReplaced)
		}
		list = append(list, c)
	}
	var protected []mountOverride
	var notes, matched []string
	note, err := settle(func() (worst scanChange, err error) {
		protected, notes, worst = searchRoots(p.WritableRoots, p.SharedRoots, splitPatterns(p.ReadOnlySubpaths), early)
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
			// What this process, with its capabilities, cannot reach, no
			// other of the sandbox can.
			if isMissing(err) || errors.Is(err, unix.EACCES) {
				continue
			}
			if err != nil {
				return view{}, fmt.Errorf("%s %s: %w", named.what, path, err)
			}
			c.fixed = named.fixed
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

// addFixedPaths adds to list the paths of ReadOnlyPaths that lie in a writable root,
// and pins the folders there that lead to them and to what is hidden: with one
// of those moved away, another file could be put under the same path.
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
		c.fixed = true
		if _, ok := outerRoot(c.path, p.WritableRoots); ok {
			fixed = append(fixed, c)
		}
	}
	seen := map[string]bool{}
	for _, c := range slices.Concat(list, fixed) {
		root, ok := outerRoot(c.path, p.WritableRoots)
		if !ok || !c.fixed {
			continue
		}
		for up := filepath.Dir(c.path); isBelow(up, root) && up != root && !seen[up]; up = filepath.Dir(up) {
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

// outerRoot returns the outermost of roots that path lies in.
func outerRoot(path string, roots []string) (root string, ok bool) {
	for _, r := range roots {
		if path != r && isBelow(path, r) && (!ok || len(r) < len(root)) {
			root, ok = r, true
		}
	}
	return root, ok
}

// nest brings the carvings into order and finds out which of them lie in what
// is masked, as the whole root is when it is restricted.
func nest(list []mountOverride, restricted bool) view {
	slices.SortStableFunc(list, func(a, b mountOverride) int {
		if d := strings.Count(a.path, "/") - strings.Count(b.path, "/"); d != 0 {
			return d
		}
		if d := strings.Compare(a.path, b.path); d != 0 {
			return d
		}
		return int(a.kind) - int(b.kind)
	})
	v := view{}
	at := map[string]int{} // path → its carving
	for i, c := range list {
		if i+1 < len(list) && list[i+1].path == c.path {
			continue // two names may lead to one path: the stricter holds
		}
		mask, masked, closed := -1, restricted, false
		for up := c.path; up != "/"; {
			up = filepath.Dir(up)
			if i, ok := at[up]; ok {
				mask, masked, closed = i, v.overrides[i].kind == hidden, v.overrides[i].kind == readOnly
				break
			}
		}
		switch {
		case masked && (c.kind == hidden || c.kind == pinned || c.fixed):
			continue // there is nothing left to hide
		case closed && c.kind == pinned:
			continue // it would be writable
		case masked && mask >= 0:
			v.overrides[mask].partial = true
		}
		c.inMask = masked
		at[c.path] = len(v.overrides)
		v.overrides = append(v.overrides, c)
	}
	return v
}

// A isSymlink is made in a mask, where a path that can be read leads through it.
type symlink struct{ path, target string }

// addSymlinks adds the symlinks that the readable paths lead through, as /bin
// often is one.
func (v *view) addSymlinks(p policy.Paths) {
	masks := map[string]bool{"/": p.Restricted}
	for _, c := range v.overrides {
		masks[c.path] = c.kind == hidden
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

// statOverride returns the carving of what path leads to.
func statOverride(path string, kind overrideKind) (mountOverride, error) {
	return openOverride(path, kind, 0)
}

// lstatOverride is look for path itself, also when it is a symlink.
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
	return mountOverride{path: real, kind: kind, tree: -1, file: fileID{uint64(st.Dev), st.Ino, st.Mode & unix.S_IFMT}}, nil
}

// inPlace reports whether c is in place.
func (c mountOverride) inPlace() bool {
	fd, err := unix.Open(c.path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return isMissing(err)
	}
	defer unix.Close(fd)
	mounted, protected := mountState(fd)
	switch c.kind {
	case readOnly:
		return protected
	case hidden:
		return mounted && isMask(fd)
	}
	return mounted || protected
}

// mountState reports whether the file is the root of a mount, and whether it lies
// in one that is read-only, so that it can be neither changed nor moved.
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

// isMask reports whether the root of a mount is a mask: an empty folder of its
// own, or the null device.
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
