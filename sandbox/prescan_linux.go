package sandbox

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// A shared root such as /tmp holds hundreds of folders, and searching them takes
// as long as the rest of the setup. So the starting process does that while the
// first process of the sandbox starts. This is as safe as searching inside: others
// change a shared root at any time, and a file that was replaced since is opened
// again, see [mountOverride.place].

// A scanResult is the result of a search.
type scanResult struct {
	Found []mountOverride `json:"found,omitempty"`
	Notes []string        `json:"notes,omitempty"`
}

// needsPrescan reports whether there are shared roots to search.
func (p Plan) needsPrescan() bool {
	return len(p.Profile.SharedRoots) > 0 && len(p.Profile.ReadOnlySubpaths) > 0
}

// prescanShared searches the shared roots as [searchRoots] does. It returns nil if it
// could not read a folder that the first process, with its capabilities, may be able
// to read.
func prescanShared(plan Plan) *scanResult {
	roots, err := realRoots(plan.Profile.WritableRoots)
	if err != nil {
		return nil // the first process reports the error
	}
	shared := realNames(plan.Profile.SharedRoots)
	s := newSearch(roots, splitPatterns(plan.Profile.ReadOnlySubpaths))
	s.eachRoot(func(root string) {
		if slices.Contains(shared, root) {
			s.scanShared(root, sharedDepth)
		}
	})
	if s.unreadable {
		return nil
	}
	return &scanResult{Found: s.found, Notes: s.notes}
}

// isOurs reports whether the folder at path belongs to this user, who can then
// make it readable at any time. It is true if the folder cannot be examined.
func isOurs(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) != nil || int(st.Uid) == os.Geteuid()
}
