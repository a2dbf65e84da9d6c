package sandbox

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A pattern is a protected name, split at its slashes. The first part matches in
// every folder, the others below that.
type pattern []string

func splitPatterns(subpaths []string) []pattern {
	var list []pattern
	for _, s := range subpaths {
		list = append(list, strings.Split(s, "/"))
	}
	return list
}

// optional reports whether the path that p names may be missing.
func (p pattern) optional() bool { return strings.ContainsAny(strings.Join(p, ""), wildcards) }

// wildcards are the special characters of a pattern.
const wildcards = `*?[\`

// matches reports whether a part of a pattern matches name. It ignores case,
// because some file systems do.
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

// A search finds protected names below the writable roots.
type search struct {
	patterns []pattern
	first    [256]bool // possible first bytes of a protected name
	roots    []string
	done     map[string]bool // folders that have been searched
	buf      []byte

	shared     string    // the root, if it is shared
	snapshot   *snapshot // nil where changes are ignored
	unreadable bool      // a folder of this user could not be read
	entryCount int
	unsearched []unsearchedFolder
	found      []mountOverride
	notes      []string
}

// newSearch returns a search below roots.
func newSearch(roots []string, patterns []pattern) *search {
	s := &search{patterns: patterns, roots: roots, done: map[string]bool{}, buf: make([]byte, 64<<10)}
	for _, p := range patterns {
		s.accept(true, p[0])
	}
	return s
}

// searchRoots returns the overrides for protected names below roots, notes on what
// is not protected, and what changed meanwhile. Shared roots are searched to a
// depth of sharedDepth, or prescanned is their result; changes in them are ignored.
func searchRoots(
	roots, shared []string, patterns []pattern, prescanned *scanResult,
) ([]mountOverride, []string, scanChange) {
	seen := &snapshot{}
	s := newSearch(roots, patterns)
	s.eachRoot(func(root string) {
		switch {
		case slices.Contains(shared, root):
			if prescanned == nil {
				s.scanShared(root, sharedDepth)
			}
		case isPublic(root):
			s.scanShared(root, math.MaxInt)
		default:
			s.shared, s.snapshot = "", seen
			s.scan(root, math.MaxInt)
		}
	})
	if prescanned != nil {
		s.found = append(s.found, prescanned.Found...)
		s.notes = append(s.notes, prescanned.Notes...)
	}
	return s.found, s.notes, seen.changes(s)
}

// eachRoot calls visit for every root, innermost first, so that the search of an
// outer root skips it.
func (s *search) eachRoot(visit func(root string)) {
	inward := slices.Clone(s.roots)
	slices.SortStableFunc(inward, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	for _, root := range inward {
		s.entryCount = 0
		visit(root)
		s.done[root] = true
	}
}

// scanShared searches a root in which others create and remove files at any time.
func (s *search) scanShared(root string, depth int) {
	s.shared, s.snapshot = root, nil
	s.scan(root, depth)
}

// isPublic reports whether root is like /tmp: anyone may create files in it.
func isPublic(root string) bool {
	var st unix.Stat_t
	const public = unix.S_ISVTX | unix.S_IWOTH
	return unix.Stat(root, &st) == nil && st.Mode&public == public
}

// inShared reports whether path is in the shared root that is being searched and in
// no other root.
func (s *search) inShared(path string) bool {
	return s.shared != "" && isBelow(path, s.shared) && !slices.ContainsFunc(s.roots, func(root string) bool {
		return len(root) > len(s.shared) && isBelow(path, root)
	})
}

// accept makes entries return the files whose names the parts of a pattern may
// match. With fold, case is ignored.
func (s *search) accept(fold bool, parts ...string) {
	for _, part := range parts {
		for c := range 256 {
			same := part[0] == byte(c) || fold && (strings.EqualFold(part[:1], string(rune(c))) || c >= 0x80)
			s.first[c] = s.first[c] || same || strings.ContainsAny(part[:1], wildcards)
		}
	}
}

// scan searches root and the folders up to depth below it, breadth first, so that
// a limit cuts off the deepest ones. What it cannot search, it makes read-only.
func (s *search) scan(root string, depth int) {
	if len(s.patterns) == 0 {
		return
	}
	defer s.closeUnsearched(root)
	for queue := []folder{{path: root, depth: depth}}; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		if s.entryCount > maxSearched || len(s.found) > maxProtected {
			for _, rest := range queue {
				s.unsearched = append(s.unsearched, unsearchedFolder{rest.path, errTooLarge})
			}
			return
		}
		entries, _, err := s.read(dir.path, dir.depth > 0, s.snapshot)
		if err != nil {
			s.leaveOut(dir.path, err)
		}
		for _, e := range entries {
			path := dir.path + "/" + e.name
			protected := s.first[e.name[0]] && s.protect(path, e)
			if !protected && e.kind == unix.S_IFDIR && dir.depth > 0 && !s.done[path] {
				queue = append(queue, folder{path: path, depth: dir.depth - 1})
			}
		}
	}
}

// An entry is a name in a folder, and its file type bits.
type entry struct {
	name string
	kind uint32
}

// entries returns the entries of dir that may be protected and, with deeper, its
// folders. All other entries, which are most of a tree, cost no more than reading
// their names. A folder that cannot be read has no entries.
func (s *search) entries(dir string, deeper bool) []entry {
	found, _, _ := s.read(dir, deeper, s.snapshot)
	return found
}

// read is entries with the hash of what it returns, which it also records in seen,
// and the error if dir exists and could not be read.
func (s *search) read(dir string, deeper bool, seen *snapshot) (found []entry, names uint64, err error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		if isMissing(err) || err == unix.ELOOP {
			seen.addMissing(dir)
			err = nil
		}
		s.unreadable = s.unreadable || err == unix.EACCES && isOurs(dir)
		return nil, 0, err
	}
	defer unix.Close(fd)
	is := seen.add(fd, dir, deeper)
	for {
		n, err := unix.Getdents(fd, s.buf)
		if err != nil || n <= 0 {
			is.nameHash = names
			return found, names, err
		}
		for rest := s.buf[:n]; len(rest) > 0; {
			// struct linux_dirent64: inode, offset, 16 bits of length, type, name.
			size := binary.NativeEndian.Uint16(rest[16:])
			kind := uint32(rest[18]) << 12 // as in a mode
			name := rest[19:size]
			name = name[:bytes.IndexByte(name, 0)]
			rest = rest[size:]
			s.entryCount++
			folder := kind == unix.S_IFDIR || kind == 0 // 0: the file system does not say
			if !(folder && deeper) && !s.first[name[0]] || string(name) == "." || string(name) == ".." {
				continue
			}
			names += entryHash(name, binary.NativeEndian.Uint64(s.buf[n-len(rest)-int(size):]))
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

// protect adds the overrides for the entry at path if it has a protected name, and
// reports whether it has one.
func (s *search) protect(path string, e entry) bool {
	if s.done[path] {
		return false // it is a writable root itself
	}
	var below []pattern
	for _, p := range s.patterns {
		if !matches(p[0], e.name) {
			continue
		}
		if len(p) == 1 {
			s.add(path, readOnly)
			s.protectTarget(path, e)
			return true
		}
		below = append(below, p[1:])
	}
	if len(below) == 0 {
		return false
	}
	if e.kind != unix.S_IFDIR || !s.protectBelow(path, below) {
		s.add(path, readOnly)
		s.protectTarget(path, e)
	}
	return true
}

// protectBelow protects parts of the folder dir. It returns false if one of them
// is missing and could be created, so that the whole folder must be protected.
func (s *search) protectBelow(dir string, below []pattern) bool {
	var parts []string
	for _, p := range below {
		found, err := filepath.Glob(filepath.Join(escapeGlob(dir), filepath.Join(p...)))
		if err != nil || len(found) == 0 && !p.optional() {
			return false
		}
		if _, _, err := s.read(dir, false, nil); p.optional() && err != nil {
			return false // Glob finds nothing then
		}
		parts = append(parts, found...)
	}
	// If the folder could be moved away, its protected parts would go with it.
	s.add(dir, pinned)
	for _, part := range parts {
		for up := filepath.Dir(part); up != dir; up = filepath.Dir(up) {
			s.add(up, pinned)
		}
		s.add(part, readOnly)
	}
	return true
}

// escapeGlob returns path with the special characters of filepath.Glob escaped.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func (s *search) add(path string, kind overrideKind) {
	c, err := lstatOverride(path, kind)
	if err != nil {
		if !isMissing(err) {
			s.leaveOut(path, err)
		}
		return
	}
	c.Shared = s.inShared(c.Path)
	s.found = append(s.found, c)
}

// protectTarget protects what the protected entry at path refers to: the target of
// a symlink, and the folder named in the .git file of a worktree or submodule.
func (s *search) protectTarget(path string, e entry) {
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

// gitdir returns the folder named in the .git file at path, or "".
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
