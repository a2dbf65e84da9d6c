package policy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// An Access says how a path may be accessed. The zero value is not at all.
type Access int

const (
	NoAccess Access = iota // neither read nor write
	CanRead
	CanWrite // and read
)

func (a Access) String() string { return nameOf(a, "deny", "read", "write") }

// ParseAccess returns the access named s; Codex's "none" is "deny".
func ParseAccess(s string) (Access, error) {
	if s == "none" {
		return NoAccess, nil
	}
	return parse("access", s, CanRead, CanWrite, NoAccess)
}

// A PathRule sets the access to an absolute, clean path and everything below it.
// The longest path wins, and of two rules for the same path the stricter. A
// path without a rule is denied.
type PathRule struct {
	Path   string
	Glob   bool // Path is a pattern as [MatchGlob] takes it, and Access is NoAccess
	Access Access
}

// Paths lists paths whose access differs from what the mode gives. The zero value
// changes nothing. Unlike hidden paths, they are never best effort: a system that
// cannot enforce them starts nothing.
type Paths struct {
	// Restricted is set if only Readable and the writable roots can be read.
	Restricted bool `json:"restricted,omitempty"`

	// Readable are paths that can be read in folders that cannot.
	Readable []string `json:"readable,omitempty"`

	// ReadOnly are paths that stay read-only in a writable root.
	ReadOnly []string `json:"read_only,omitempty"`

	// Denied are paths that can be neither read nor written.
	Denied []string `json:"denied,omitempty"`

	// DeniedGlobs are patterns of such paths.
	DeniedGlobs []string `json:"denied_globs,omitempty"`

	// GlobDepth limits how many folders deep patterns are searched for; 0 is no
	// limit.
	GlobDepth int `json:"glob_depth,omitempty"`
}

// HidesSome reports whether p keeps anything from being read.
func (p Paths) HidesSome() bool {
	return p.Restricted || len(p.Denied) > 0 || len(p.DeniedGlobs) > 0
}

// CompilePaths returns the writable roots and the paths that the rules amount
// to. The order of the rules does not matter. Rules that change nothing are
// left out.
func CompilePaths(rules []PathRule) (roots []string, paths Paths, err error) {
	exact := map[string]Access{}
	for _, r := range rules {
		if err := r.check(); err != nil {
			return nil, Paths{}, err
		}
		if r.Glob {
			paths.DeniedGlobs = append(paths.DeniedGlobs, r.Path)
		} else if old, ok := exact[r.Path]; !ok || r.Access < old {
			exact[r.Path] = r.Access
		}
	}
	paths.Restricted = exact["/"] == NoAccess
	for _, p := range slices.Sorted(maps.Keys(exact)) { // a folder before its contents
		around := accessAround(exact, p)
		switch access := exact[p]; {
		case access == CanWrite:
			roots = append(roots, p)
		case p == "/" || access == around:
		case access == NoAccess:
			paths.Denied = append(paths.Denied, p)
		case around == CanWrite:
			paths.ReadOnly = append(paths.ReadOnly, p)
		default:
			paths.Readable = append(paths.Readable, p)
		}
	}
	slices.Sort(paths.DeniedGlobs)
	paths.DeniedGlobs = slices.Compact(paths.DeniedGlobs)
	return roots, paths, nil
}

// check returns an error unless the rule is one that [CompilePaths] takes.
func (r PathRule) check() error {
	if !r.Glob {
		if !path.IsAbs(r.Path) || path.Clean(r.Path) != r.Path {
			return fmt.Errorf("path %q: must be absolute and clean", r.Path)
		}
		return nil
	}
	if err := CheckGlob(r.Path); err != nil {
		return err
	}
	if r.Access != NoAccess {
		return fmt.Errorf("pattern %q: a pattern can only be denied; name a folder instead", r.Path)
	}
	return nil
}

// accessAround returns the access of the nearest folder above p that has one.
func accessAround(exact map[string]Access, p string) Access {
	for p != "/" {
		p = path.Dir(p)
		if a, ok := exact[p]; ok {
			return a
		}
	}
	return NoAccess
}

// Access returns the access to the absolute, clean path name. It compares names
// only: where the path leads on disk is up to the kernel. It does not consider
// ReadOnlySubpaths.
func (f Profile) Access(name string) Access {
	if f.Mode == DangerFullAccess {
		return CanWrite
	}
	for _, glob := range f.Paths.DeniedGlobs {
		if GlobCovers(glob, name) {
			return NoAccess
		}
	}
	access, longest := CanRead, 0
	if f.Paths.Restricted {
		access = NoAccess
	}
	// From the weakest to the strictest, so that the stricter one wins a tie.
	apply := func(list []string, a Access) {
		for _, p := range list {
			if len(p) >= longest && Below(name, p) {
				access, longest = a, len(p)
			}
		}
	}
	if f.Mode == WorkspaceWrite {
		apply(f.WritableRoots, CanWrite)
	}
	apply(f.Paths.Readable, CanRead)
	apply(f.Paths.ReadOnly, CanRead)
	apply(f.ReadOnlyPaths, CanRead)
	apply(f.Paths.Denied, NoAccess)
	apply(f.Hidden, NoAccess)
	return access
}

// points returns every path at which Access changes, except for patterns.
func (f Profile) points() []string {
	return slices.Concat([]string{"/"}, f.WritableRoots, f.Paths.Readable, f.Paths.ReadOnly, f.Paths.Denied, f.Hidden)
}

// CheckGlob returns an error unless glob is an absolute, clean pattern in the syntax of
// [MatchGlob].
func CheckGlob(glob string) error {
	if !path.IsAbs(glob) {
		return fmt.Errorf("pattern %q: must begin with /", glob)
	}
	if glob == "/" || path.Clean(glob) != glob {
		return fmt.Errorf("pattern %q: must be a clean path below /", glob)
	}
	for part := range strings.SplitSeq(glob[1:], "/") {
		if strings.Contains(part, "**") && part != "**" {
			return fmt.Errorf("pattern %q: ** must stand for itself between two slashes", glob)
		}
		if _, err := path.Match(part, ""); err != nil {
			return fmt.Errorf("pattern %q: a bracket or backslash is not closed", glob)
		}
	}
	return nil
}

// IsGlob reports whether s contains special characters of patterns.
func IsGlob(s string) bool { return strings.ContainsAny(s, `*?[\`) }

// escapeGlob returns the pattern that matches only s.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// GlobBase returns the deepest folder that contains all matches of the pattern, and
// the parts of the pattern below it.
func GlobBase(glob string) (base string, parts []string) {
	parts = strings.Split(strings.TrimPrefix(glob, "/"), "/")
	n := 0
	for n < len(parts)-1 && !IsGlob(parts[n]) {
		n++
	}
	return "/" + strings.Join(parts[:n], "/"), parts[n:]
}

// MatchGlob reports whether the pattern matches the whole clean, absolute path
// name. * and ? match within one element, [a-z] is a class, and ** between slashes
// matches any number of folders. Case matters.
func MatchGlob(glob, name string) bool {
	base, parts := GlobBase(glob)
	if !Below(name, base) {
		return false
	}
	return MatchParts(parts, splitBelow(name, base))
}

// GlobCovers reports whether the pattern matches name or a folder above it.
func GlobCovers(glob, name string) bool {
	base, parts := GlobBase(glob)
	if !Below(name, base) {
		return false
	}
	names := splitBelow(name, base)
	for n := 1; n <= len(names); n++ {
		if MatchParts(parts, names[:n]) {
			return true
		}
	}
	return false
}

// splitBelow returns the elements of name below the folder dir.
func splitBelow(name, dir string) []string {
	if onWindows(dir) {
		return splitPath(name)[len(splitPath(dir)):]
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(name, dir), "/")
	if rest == "" {
		return nil
	}
	return strings.Split(rest, "/")
}

// MatchParts is [MatchGlob] for a pattern and a path split at slashes.
func MatchParts(glob, names []string) bool {
	// As with * in a string, only the last ** has to be retried.
	g, n, retry, from := 0, 0, -1, 0
	for n < len(names) {
		switch {
		case g < len(glob) && glob[g] == "**":
			if g == len(glob)-1 {
				return true // it matches everything below
			}
			retry, from = g, n
			g++
		case g < len(glob) && matchName(glob[g], names[n]):
			g++
			n++
		case retry >= 0:
			from++
			g, n = retry+1, from
		default:
			return false
		}
	}
	return g == len(glob)
}

func matchName(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}
