package sandbox

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolgate/policy"
)

// maxGlobbed is the limit of names that are matched against a profile's patterns.
const maxGlobbed = 1_000_000

// findGlobs returns the paths that globs match, in order. Depth limits how many
// folders deep it searches; 0 means no limit. Symlinks are skipped: their targets
// have names of their own.
func findGlobs(globs []string, depth int) (found []string, err error) {
	bases := map[string][][]string{}
	for _, g := range globs {
		base, parts := policy.GlobBase(g)
		bases[base] = append(bases[base], parts)
	}
	for base, patterns := range bases {
		w := newGlobWalk(patterns)
		if err := w.walk(base, depth); err != nil {
			return nil, err
		}
		found = append(found, w.found...)
	}
	slices.Sort(found)
	return found, nil
}

// A globWalk finds what patterns match below their common base.
type globWalk struct {
	patterns [][]string // parts below the base
	search   *search    // reads folders
	found    []string
}

func newGlobWalk(patterns [][]string) *globWalk {
	w := &globWalk{patterns: patterns, search: newSearch(nil, nil)}
	for _, parts := range patterns {
		w.search.accept(false, parts...) // a name may be compared with any part
	}
	return w
}

// A globDir is a folder to search, and the names that lead to it from the base.
type globDir struct {
	path  string
	names []string
}

func (w *globWalk) walk(base string, depth int) error {
	for queue := []globDir{{path: base}}; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		last := len(dir.names)+1 == depth
		for _, e := range w.search.entries(dir.path, true) {
			names := append(slices.Clip(dir.names), e.name)
			path := strings.TrimSuffix(dir.path, "/") + "/" + e.name
			switch {
			case e.kind == unix.S_IFLNK:
			case w.matches(names):
				w.found = append(w.found, path)
			case e.kind == unix.S_IFDIR && !last && w.canMatchBelow(names) && !slices.Contains(kernelFolders, path):
				queue = append(queue, globDir{path, names})
			}
		}
		if w.search.entryCount > maxGlobbed || len(w.found) > maxProtected {
			return fmt.Errorf("%s holds too much to look for %s in it: "+
				"name a narrower folder, or set glob_scan_max_depth", base, strings.Join(w.patterns[0], "/"))
		}
	}
	return nil
}

func (w *globWalk) matches(names []string) bool {
	return slices.ContainsFunc(w.patterns, func(p []string) bool { return policy.MatchParts(p, names) })
}

// canMatchBelow reports whether something below the folder could match.
func (w *globWalk) canMatchBelow(names []string) bool {
	return slices.ContainsFunc(w.patterns, func(p []string) bool {
		if i := slices.Index(p, "**"); i >= 0 && i <= len(names) {
			return policy.MatchParts(p[:i], names[:i])
		}
		return len(p) > len(names) && policy.MatchParts(p[:len(names)], names)
	})
}
