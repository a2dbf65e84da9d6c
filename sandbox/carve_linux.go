package sandbox

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolgate/policy"
)

// A carving is one path that differs from the read-only rest.
type carving struct {
	path string // without symlinks, but for its last name when it is one
	kind carvingKind
	file fileID
	tree int // a detached copy of the mounts there, -1 without

	inMask bool // what it lies in is masked: its place has to be made
	opened bool // hidden, but something in it is not
	fixed  bool // of Hidden or ReadOnlyPaths: nothing else may take its place
}

// A carvingKind says how. Where two carvings are about one path, the later
// kind wins.
type carvingKind int

const (
	writable carvingKind = iota
	pinned               // writable as before, but cannot be moved away
	readOnly
	hidden
)

// A fileID is what a path led to when it was looked at.
type fileID struct {
	Dev, Ino uint64
	Kind     uint32 // the file type bits of its mode
}

func (id fileID) dir() bool { return id.Kind == unix.S_IFDIR }

// symlink reports whether it is a symlink itself that is carved out.
func (c carving) symlink() bool { return c.file.Kind == unix.S_IFLNK }

// Limits on how far a writable root is searched for protected names. What
// lies beyond them is not protected, and the note says so.
const (
	maxSearched  = 200_000
	maxProtected = 2_000
	sharedDepth  = 1 // folders below a shared root
)

// A view is what differs from the read-only rest.
type view struct {
	carvings []carving // outermost first, so that the more exact path wins
	links    []symlink // to be made in masks
	notes    []string  // what was left out
}

// layout returns what plan, whose roots have no symlinks, carves out of the
// read-only root, once nobody moves folders about. Early is what is known of
// the shared roots, nil when they are to be searched.
func layout(plan Plan, early *finds) (view, error) { return layoutWith(plan, early, settle) }

// layoutNow is layout at once. It is for a sandbox that runs, which is told of
// what is moved later.
func layoutNow(plan Plan) (view, error) {
	return layoutWith(plan, nil, func(search func() (stir, error)) (note string, err error) {
		_, err = search()
		return "", err
	})
}

func layoutWith(plan Plan, early *finds, settle func(search func() (stir, error)) (note string, err error)) (view, error) {
	p := plan.Profile
	var list []carving
	for _, root := range p.WritableRoots {
		c, err := look(root, writable)
		if err != nil {
			return view{}, fmt.Errorf("writable root %s: %w", root, err)
		}
		if c.path != root {
			return view{}, fmt.Errorf("writable root %s: %w", root, errReplaced)
		}
		list = append(list, c)
	}
	var protected []carving
	var notes, matched []string
	note, err := settle(func() (worst stir, err error) {
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
		kind  carvingKind
		fixed bool
	}{
		{"readable path", p.Paths.Readable, readOnly, false},
		{"read-only path", p.Paths.ReadOnly, readOnly, false},
		{"hidden path", p.Hidden, hidden, true},
		{"denied path", p.Paths.Denied, hidden, false},
		{"denied path", matched, hidden, false},
	} {
		for _, path := range named.paths {
			c, err := look(path, named.kind)
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
	if list, err = addFixed(list, p); err != nil {
		return view{}, err
	}
	v := nest(list, p.Paths.Restricted)
	v.notes = notes
	v.addLinks(p.Paths)
	return v, nil
}

// addFixed adds to list the paths of ReadOnlyPaths that lie in a writable root,
// and pins the folders there that lead to them and to what is hidden: with one
// of those moved away, another file could be put under the same path.
func addFixed(list []carving, p policy.Profile) ([]carving, error) {
	var fixed, pins []carving
	for _, path := range p.ReadOnlyPaths {
		c, err := lookAt(path, readOnly)
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
			pin, err := lookAt(up, pinned)
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
func nest(list []carving, restricted bool) view {
	slices.SortStableFunc(list, func(a, b carving) int {
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
				mask, masked, closed = i, v.carvings[i].kind == hidden, v.carvings[i].kind == readOnly
				break
			}
		}
		switch {
		case masked && (c.kind == hidden || c.kind == pinned || c.fixed):
			continue // there is nothing left to hide
		case closed && c.kind == pinned:
			continue // it would be writable
		case masked && mask >= 0:
			v.carvings[mask].opened = true
		}
		c.inMask = masked
		at[c.path] = len(v.carvings)
		v.carvings = append(v.carvings, c)
	}
	return v
}

// A symlink is made in a mask, where a path that can be read leads through it.
type symlink struct{ path, target string }

// addLinks adds the symlinks that the readable paths lead through, as /bin
// often is one.
func (v *view) addLinks(p policy.Paths) {
	masks := map[string]bool{"/": p.Restricted}
	for _, c := range v.carvings {
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
				v.links = append(v.links, symlink{next, target})
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

// look returns the carving of what path leads to.
func look(path string, kind carvingKind) (carving, error) { return lookWith(path, kind, 0) }

// lookAt is look for path itself, also when it is a symlink.
func lookAt(path string, kind carvingKind) (carving, error) {
	return lookWith(path, kind, unix.O_NOFOLLOW)
}

func lookWith(path string, kind carvingKind, flags int) (carving, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return carving{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return carving{}, err
	}
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return carving{}, err
	}
	return carving{path: real, kind: kind, tree: -1, file: fileID{uint64(st.Dev), st.Ino, st.Mode & unix.S_IFMT}}, nil
}

// A pattern is a protected name. Its first part is looked for in every
// folder, the others below that.
type pattern []string

func splitPatterns(subpaths []string) []pattern {
	var list []pattern
	for _, s := range subpaths {
		list = append(list, strings.Split(s, "/"))
	}
	return list
}

// optional reports whether what p names may be missing.
func (p pattern) optional() bool { return strings.ContainsAny(strings.Join(p, ""), wildcards) }

// wildcards are the characters that mean something in a pattern.
const wildcards = `*?[\`

// matches reports whether the part of a pattern names name. Case does not
// count: some file systems fold it.
func matches(part, name string) bool {
	if strings.EqualFold(part, name) {
		return true
	}
	if !strings.ContainsAny(part, wildcards) {
		return false
	}
	ok, err := filepath.Match(strings.ToLower(part), strings.ToLower(name))
	return err == nil && ok
}

// A search looks for protected names below the writable roots.
type search struct {
	patterns []pattern
	first    [256]bool // what a protected name may begin with
	roots    []string
	done     map[string]bool // folders that need no search again
	buf      []byte

	looks    *looks // nil where changes do not count
	closed   bool   // a folder of this user could not be read
	searched int
	found    []carving
	notes    []string
}

// newSearch returns a search below roots.
func newSearch(roots []string, patterns []pattern) *search {
	s := &search{patterns: patterns, roots: roots, done: map[string]bool{}, buf: make([]byte, 64<<10)}
	for _, p := range patterns {
		s.admit(p[0], true)
	}
	return s
}

// searchRoots returns what is to be protected below roots, of which shared
// are searched shallowly unless early is what was found there, notes on what
// was left out, and what was changed meanwhile in the others.
func searchRoots(roots, shared []string, patterns []pattern, early *finds) ([]carving, []string, stir) {
	seen := &looks{begun: time.Now()}
	s := newSearch(roots, patterns)
	s.each(func(root string) {
		switch {
		case !slices.Contains(shared, root):
			s.looks = seen
			s.tree(root, math.MaxInt)
		case early == nil:
			s.shared(root)
		}
	})
	if early != nil {
		s.found = append(s.found, early.carvings()...)
		s.notes = append(s.notes, early.Notes...)
	}
	return s.found, s.notes, seen.stirred(s)
}

// each has every root searched, innermost first: the search of an outer one
// then passes it by.
func (s *search) each(look func(root string)) {
	inward := slices.Clone(s.roots)
	slices.SortStableFunc(inward, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	for _, root := range inward {
		s.searched = 0
		look(root)
		s.done[root] = true
	}
}

// shared searches a root in which others make and remove things all the time.
func (s *search) shared(root string) {
	s.looks = nil
	s.tree(root, sharedDepth)
}

// admit makes entries return files whose names the part of a pattern may
// match. Fold says that case does not count.
func (s *search) admit(part string, fold bool) {
	for c := range 256 {
		same := part[0] == byte(c) || fold && (strings.EqualFold(part[:1], string(rune(c))) || c >= 0x80)
		s.first[c] = s.first[c] || same || strings.ContainsAny(part[:1], wildcards)
	}
}

// tree searches root and the folders that lie up to depth below it, those
// nearer to it first, so that a limit cuts off what lies deep.
func (s *search) tree(root string, depth int) {
	if len(s.patterns) == 0 {
		return
	}
	for level := []string{root}; len(level) > 0 && depth >= 0; depth-- {
		var below []string
		for _, dir := range level {
			if s.searched > maxSearched || len(s.found) > maxProtected {
				s.notes = append(s.notes, fmt.Sprintf("%s is too large to search: protected names from %s on are not protected", root, dir))
				return
			}
			for _, e := range s.entries(dir, depth > 0) {
				path := dir + "/" + e.name
				protected := s.first[e.name[0]] && s.protect(path, e)
				if !protected && e.kind == unix.S_IFDIR && depth > 0 && !s.done[path] {
					below = append(below, path)
				}
			}
		}
		level = below
	}
}

// An entry is a name in a folder, and its file type bits.
type entry struct {
	name string
	kind uint32
}

// entries returns the entries of dir that may be protected and, when it goes
// deeper, the folders.
// Everything else is most of a tree, and is passed by without more work than
// reading its name. A folder that cannot be read has none: this process has
// every capability, and what it cannot read nobody inside can.
func (s *search) entries(dir string, deeper bool) []entry {
	found, _ := s.read(dir, deeper, s.looks)
	return found
}

// read is entries with the sum of what it returns, which it also puts into
// seen.
func (s *search) read(dir string, deeper bool, seen *looks) (found []entry, names uint64) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		if isMissing(err) || err == unix.ELOOP {
			seen.lost(dir)
		}
		s.closed = s.closed || err == unix.EACCES && isOurs(dir)
		return nil, 0
	}
	defer unix.Close(fd)
	is := seen.note(fd, dir, deeper)
	for {
		n, err := unix.Getdents(fd, s.buf)
		if err != nil || n <= 0 {
			is.names = names
			return found, names
		}
		for rest := s.buf[:n]; len(rest) > 0; {
			// struct linux_dirent64: inode, offset, 16 bits of length, type, name.
			size := binary.NativeEndian.Uint16(rest[16:])
			kind := uint32(rest[18]) << 12 // as in a mode
			name := rest[19:size]
			name = name[:bytes.IndexByte(name, 0)]
			rest = rest[size:]
			s.searched++
			folder := kind == unix.S_IFDIR || kind == 0 // or the file system does not say
			if !(folder && deeper) && !s.first[name[0]] || string(name) == "." || string(name) == ".." {
				continue
			}
			names += nameSum(name, binary.NativeEndian.Uint64(s.buf[n-len(rest)-int(size):]))
			e := entry{string(name), kind}
			if kind == 0 {
				var st unix.Stat_t
				if unix.Fstatat(fd, e.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
					e.kind = st.Mode & unix.S_IFMT
				}
			}
			found = append(found, e)
		}
	}
}

// protect adds what is needed when the entry at path has a protected name,
// and reports whether it has.
func (s *search) protect(path string, e entry) bool {
	if s.done[path] {
		return false // named as a writable root itself
	}
	var below []pattern
	for _, p := range s.patterns {
		if !matches(p[0], e.name) {
			continue
		}
		if len(p) == 1 {
			s.add(path, readOnly)
			s.pointers(path, e)
			return true
		}
		below = append(below, p[1:])
	}
	if len(below) == 0 {
		return false
	}
	if e.kind != unix.S_IFDIR || !s.protectBelow(path, below) {
		s.add(path, readOnly)
		s.pointers(path, e)
	}
	return true
}

// protectBelow protects parts of the folder dir. It is false when one of them
// is missing: it could then be made, so the whole folder is to be protected.
func (s *search) protectBelow(dir string, below []pattern) bool {
	var parts []string
	for _, p := range below {
		found, err := filepath.Glob(filepath.Join(escapeGlob(dir), filepath.Join(p...)))
		if err != nil || len(found) == 0 && !p.optional() {
			return false
		}
		parts = append(parts, found...)
	}
	// A folder that can be moved away takes its protected parts with it.
	s.add(dir, pinned)
	for _, part := range parts {
		for up := filepath.Dir(part); up != dir; up = filepath.Dir(up) {
			s.add(up, pinned)
		}
		s.add(part, readOnly)
	}
	return true
}

// escapeGlob returns path with what filepath.Glob would read as a pattern
// escaped.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func (s *search) add(path string, kind carvingKind) {
	c, err := lookAt(path, kind)
	if err != nil {
		if !isMissing(err) {
			s.notes = append(s.notes, fmt.Sprintf("%s is not protected: %v", path, err))
		}
		return
	}
	s.found = append(s.found, c)
}

// pointers protects what the protected entry at path stands for elsewhere: a
// symlink's target, and the folder that the .git file of a worktree or
// submodule names.
func (s *search) pointers(path string, e entry) {
	var target string
	switch {
	case e.kind == unix.S_IFLNK:
		target = path
	case e.kind == unix.S_IFREG && strings.EqualFold(e.name, ".git"):
		if target = gitdir(path); target == "" {
			return
		}
	default:
		return
	}
	real, err := filepath.EvalSymlinks(target)
	if err != nil {
		return
	}
	if slices.ContainsFunc(s.roots, func(root string) bool { return isBelow(real, root) && real != root }) {
		s.add(real, readOnly)
	}
}

// gitdir returns the folder that the .git file at path names, or "".
func gitdir(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(f, 4096).ReadSlice('\n')
	target, ok := strings.CutPrefix(strings.TrimRight(string(line), "\r\n"), "gitdir: ")
	if !ok {
		return ""
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	return target
}
