package tools

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Missing is the error for a path in a call that does not exist. Make one with
// [NewMissing].
type Missing struct {
	Path string   // as in the call
	What string   // what is wrong with it: "does not exist"
	Hint string   // what to do if Near is empty
	Near []string // paths that may have been meant, the likeliest first
}

// NewMissing returns the error for path, with the paths that [NearestPaths] finds.
func NewMissing(path string, folder bool, what, hint string) *Missing {
	return &Missing{Path: path, What: what, Hint: hint, Near: NearestPaths(path, folder)}
}

func (m *Missing) Error() string {
	hint := m.Hint
	if len(m.Near) > 0 {
		names := make([]string, len(m.Near))
		for i, n := range m.Near {
			names[i] = OneLine(n)
		}
		hint = "did you mean " + strings.Join(names, " or ") + "?"
	}
	return fmt.Sprintf("%s: %s; %s", m.Path, m.What, hint)
}

const (
	maxNear        = 3
	maxNearEntries = 20_000 // folder entries to look at
)

// NearestPaths returns up to three paths that may have been meant by path, which does not
// exist: of folders or of files, the likeliest first. It looks for path without its
// first folder (such as a/ in a diff) or its first slash, for names that differ from it
// by a letter, and for its last name elsewhere in the working folder.
//
// It looks at 20,000 entries of folders at most, and not at hidden ones unless path has
// them. What this process cannot open it does not return, so what the sandbox denies is
// not named.
func NearestPaths(path string, folder bool) []string {
	path = filepath.Clean(path)
	n := nearest{path: path, folder: folder, left: maxNearEntries}
	_, below, _ := strings.Cut(filepath.ToSlash(path), "/")
	n.add(filepath.FromSlash(below))
	if !filepath.IsAbs(path) {
		n.add(string(filepath.Separator) + path)
	}
	for _, search := range []func(string){n.misspelt, n.elsewhere} {
		if len(n.found) == 0 {
			search(path)
		}
	}
	return n.found
}

// A nearest collects paths.
type nearest struct {
	path   string
	folder bool
	left   int // entries that may still be looked at
	found  []string
}

// add adds path if it can be opened and is of the right kind.
func (n *nearest) add(path string) {
	known := slices.Contains([]string{"", ".", n.path}, path) || slices.Contains(n.found, path)
	if known || len(n.found) == maxNear || !n.opens(path) {
		return
	}
	n.found = append(n.found, path)
}

// opens reports whether path can be opened. An empty folder counts as one that cannot,
// because the sandbox hides a folder by an empty one, and a file by a device.
func (n *nearest) opens(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() != n.folder || !n.folder && !info.Mode().IsRegular() {
		return false
	}
	f, err := OpenNonblocking(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if !n.folder {
		return true
	}
	some, _ := f.ReadDir(1)
	return len(some) > 0
}

// misspelt adds the paths that differ from path by a letter in the first name that does
// not exist.
func (n *nearest) misspelt(path string) {
	above, rest := path, ""
	for {
		parent := filepath.Dir(above)
		if parent == above {
			return
		}
		if info, err := os.Stat(parent); err == nil && info.IsDir() {
			name := filepath.Base(above)
			for _, e := range n.read(parent, name) {
				if differByLetter(e.Name(), name) {
					n.add(filepath.Join(parent, e.Name(), rest))
				}
			}
			return
		}
		above, rest = parent, filepath.Join(filepath.Base(above), rest)
	}
}

// elsewhere adds the paths in the working folder that end in the last name of path,
// those first that share most of its end.
func (n *nearest) elsewhere(path string) {
	name := filepath.Base(path)
	var same []string
	for waiting := []string{"."}; len(waiting) > 0 && n.left > 0; waiting = waiting[1:] {
		for _, e := range n.read(waiting[0], name) {
			below := filepath.Join(waiting[0], e.Name())
			if strings.EqualFold(e.Name(), name) {
				same = append(same, below)
			}
			if e.IsDir() && e.Name() != "node_modules" {
				waiting = append(waiting, below)
			}
		}
	}
	slices.SortStableFunc(same, func(a, b string) int { return cmp.Compare(commonEnd(b, path), commonEnd(a, path)) })
	for _, s := range same {
		n.add(s)
	}
}

// read returns the entries of dir that may be named: not hidden ones unless name is.
func (n *nearest) read(dir, name string) []os.DirEntry {
	f, err := os.Open(dir)
	if err != nil || n.left <= 0 {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(n.left)
	n.left -= len(entries)
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		return strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(name, ".") || e.Name() == ".git"
	})
}

// commonEnd returns the length of the common end of two paths.
func commonEnd(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// differByLetter reports whether a becomes b, case aside, by adding, removing or
// changing a letter, or exchanging two.
func differByLetter(a, b string) bool {
	x, y := []rune(strings.ToLower(a)), []rune(strings.ToLower(b))
	if len(x) > len(y) {
		x, y = y, x
	}
	for len(x) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	swapped := len(x) == 2 && len(y) == 2 && x[0] == y[1] && x[1] == y[0]
	return len(x) == 0 && len(y) <= 1 || len(x) == 1 && len(y) == 1 || swapped
}
