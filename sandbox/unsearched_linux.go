package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A folder that cannot be searched may hold protected names. It is made read-only,
// and a note names it.

// An unsearchedFolder is one that could not be searched, or the closest folder above it
// that can be mounted on.
type unsearchedFolder struct {
	path string
	why  error
}

var errTooLarge = errors.New("there is too much in the writable root")

// maxUnsearched is the limit of folders that are made read-only one by one. If there
// are more, the folders above them are.
const maxUnsearched = 100

// leaveOut records that the folder at path, or the protected name there, could not be
// examined.
func (s *search) leaveOut(path string, why error) {
	if c, ok := unsearchedMount(path, why, s.inShared(path)); ok {
		s.unsearched = append(s.unsearched, unsearchedFolder{c.Path, why})
	}
}

// unsearchedMount returns the mount that makes the folder at path read-only, or the
// closest folder above it whose path is short enough. It returns false if nothing has
// to be: no process of this user can enter the folder, or it is somebody else's in a
// shared root.
func unsearchedMount(path string, why error, shared bool) (c mountOverride, ok bool) {
	for dir := path; ; dir = filepath.Dir(dir) {
		c, err := lstatOverride(dir, readOnly)
		switch {
		case isMissing(err):
			return c, false
		case err != nil && dir != "/":
			continue
		case err != nil:
			return c, false
		case errors.Is(why, unix.EACCES) && !isOurs(dir) && (shared || unix.Access(dir, unix.X_OK) != nil):
			return c, false
		}
		return c, true
	}
}

// closeUnsearched adds the overrides for what could not be searched below root, and
// the notes.
func (s *search) closeUnsearched(root string) {
	list := s.unsearched
	s.unsearched = nil
	if len(list) == 0 {
		return
	}
	whys := map[string]error{}
	var paths []string
	for _, f := range list {
		paths, whys[f.path] = append(paths, f.path), f.why
	}
	for _, path := range foldPaths(paths, maxUnsearched) {
		c, err := lstatOverride(path, readOnly)
		if err != nil {
			continue // it has gone, or cannot be entered
		}
		c.Shared = s.inShared(path)
		s.found = append(s.found, c)
		why, ok := whys[path]
		if !ok {
			why = errTooLarge
		}
		s.notes = append(s.notes, fmt.Sprintf(
			"%s is read-only: it cannot be searched for protected names: %v", quoted(path), why))
	}
}

// quoted returns path for a person, without the middle of a very long one.
func quoted(path string) string {
	const half = 250
	if len(path) > 2*half {
		path = path[:half] + "…" + path[len(path)-half:]
	}
	return strconv.Quote(path)
}

// foldPaths returns paths, sorted, without those below others. While there are more
// than limit, it replaces the deepest ones by the folders above them.
func foldPaths(paths []string, limit int) []string {
	depth := func(path string) int { return strings.Count(path, "/") }
	paths = sorted(paths)
	for len(paths) > limit {
		deepest := 0
		for _, path := range paths {
			deepest = max(deepest, depth(path))
		}
		for i, path := range paths {
			if depth(path) == deepest {
				paths[i] = filepath.Dir(path)
			}
		}
		paths = sorted(paths)
	}
	slices.SortStableFunc(paths, func(a, b string) int { return depth(a) - depth(b) })
	return outermost(paths, nil)
}
