package sandbox

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// A folder such as /tmp holds hundreds of others, and to look into each takes
// as long as everything else of a sandbox. So the starting process does that
// while the first process of the sandbox starts. Nothing is lost by it: others
// change a shared root at any time, and what was found is opened as what it
// was then, or the search begins anew in there.

// scanResult are what a search found.
type scanResult struct {
	Found []overrideRecord `json:"found,omitempty"`
	Notes []string         `json:"notes,omitempty"`
	// None says that there was no search, or one that could not read a folder
	// which the first process, with its capabilities, may be able to read.
	None bool `json:"none,omitempty"`
}

func (f *scanResult) overrides() []mountOverride {
	var list []mountOverride
	for _, one := range f.Found {
		list = append(list, mountOverride{path: one.Path, kind: one.Kind, file: one.File, tree: -1})
	}
	return list
}

// needsPrescan reports whether there is something to search early.
func (p Plan) needsPrescan() bool {
	return len(p.Profile.SharedRoots) > 0 && len(p.Profile.ReadOnlySubpaths) > 0
}

// prescanShared is what [searchRoots] does in the shared roots.
func prescanShared(plan Plan) scanResult {
	roots, err := realRoots(plan.Profile.WritableRoots)
	if err != nil {
		return scanResult{None: true} // it is said in there
	}
	shared := realNames(plan.Profile.SharedRoots)
	s := newSearch(roots, splitPatterns(plan.Profile.ReadOnlySubpaths))
	s.eachRoot(func(root string) {
		if slices.Contains(shared, root) {
			s.scanShared(root)
		}
	})
	if s.unreadable {
		return scanResult{None: true}
	}
	return scanResult{Found: recordsOf(s.found), Notes: s.notes}
}

// isOurs reports whether the folder at path belongs to this user, who can make
// it readable at any time.
func isOurs(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) != nil || int(st.Uid) == os.Geteuid()
}
