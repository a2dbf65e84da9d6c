package policy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// An Access is what a rule allows on a path. The zero value is nothing.
type Access int

const (
	NoAccess Access = iota // neither read nor write
	CanRead
	CanWrite // and read
)

func (a Access) String() string {
	switch a {
	case CanRead:
		return "read"
	case CanWrite:
		return "write"
	}
	return "deny"
}

// ParseAccess returns the access named s; Codex's "none" is "deny".
func ParseAccess(s string) (Access, error) {
	switch s {
	case "read":
		return CanRead, nil
	case "write":
		return CanWrite, nil
	case "deny", "none":
		return NoAccess, nil
	}
	return NoAccess, &ValueError{What: "access", Value: s, Known: "read, write, deny"}
}

// A PathRule gives an access to an absolute, clean path and to everything
// below it. Where several speak of a path, the most exact one holds, and of
// two about the same path the stricter. What no rule speaks of is denied.
type PathRule struct {
	Path   string
	Glob   bool // Path is a pattern as [MatchGlob] takes it, and Access is NoAccess
	Access Access
}

// Paths is what single paths allow, where that differs from what the mode
// says. Unlike a hidden path, nothing of it is left out where a system cannot
// enforce it: nothing is started there. The zero value changes nothing.
type Paths struct {
	// Restricted says that only Readable and the writable roots can be read.
	Restricted bool `json:"restricted,omitempty"`

	// Readable are paths that can be read though what they lie in cannot.
	Readable []string `json:"readable,omitempty"`

	// ReadOnly are paths that stay read-only though they lie in a writable
	// root.
	ReadOnly []string `json:"read_only,omitempty"`

	// Denied are paths that can be neither read nor written.
	Denied []string `json:"denied,omitempty"`

	// DeniedGlobs are patterns of such paths.
	DeniedGlobs []string `json:"denied_globs,omitempty"`

	// GlobDepth is how many folders deep a pattern is looked for, 0 without a
	// limit.
	GlobDepth int `json:"glob_depth,omitempty"`
}

// HidesSome reports whether there is anything that p keeps from being read.
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

// Access returns what f allows on the absolute, clean path name, by words:
// where it leads on disk is the kernel's business. Names of ReadOnlySubpaths
// are not looked at.
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
	// From the widest to the narrowest, so that the stricter wins a tie.
	look := func(list []string, a Access) {
		for _, p := range list {
			if len(p) >= longest && Below(name, p) {
				access, longest = a, len(p)
			}
		}
	}
	if f.Mode == WorkspaceWrite {
		look(f.WritableRoots, CanWrite)
	}
	look(f.Paths.Readable, CanRead)
	look(f.Paths.ReadOnly, CanRead)
	look(f.ReadOnlyPaths, CanRead)
	look(f.Paths.Denied, NoAccess)
	look(f.Hidden, NoAccess)
	return access
}

// points returns every path at which Access changes, patterns aside.
func (f Profile) points() []string {
	return slices.Concat([]string{"/"}, f.WritableRoots, f.Paths.Readable, f.Paths.ReadOnly, f.Paths.Denied, f.Hidden)
}

// A GlobError is a fault in a pattern.
type GlobError struct{ Glob, Msg string }

func (e *GlobError) Error() string { return fmt.Sprintf("pattern %q: %s", e.Glob, e.Msg) }

// CheckGlob returns a *[GlobError] unless glob is an absolute, clean pattern
// of the form [MatchGlob] takes.
func CheckGlob(glob string) error {
	if !path.IsAbs(glob) {
		return &GlobError{glob, "must begin with /"}
	}
	if glob == "/" || path.Clean(glob) != glob {
		return &GlobError{glob, "must be a clean path below /"}
	}
	for part := range strings.SplitSeq(glob[1:], "/") {
		if strings.Contains(part, "**") && part != "**" {
			return &GlobError{glob, "** must stand for itself between two slashes"}
		}
		if _, err := path.Match(part, ""); err != nil {
			return &GlobError{glob, "a bracket or backslash is not closed"}
		}
	}
	return nil
}

// globMeta are the characters that mean something in a pattern.
const globMeta = `*?[\`

// IsGlob reports whether s has characters that mean something in a pattern.
func IsGlob(s string) bool { return strings.ContainsAny(s, globMeta) }

// escapeGlob returns the pattern that matches s alone.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// GlobBase returns the deepest folder that holds everything the pattern can
// match, and the parts of the pattern below it.
func GlobBase(glob string) (base string, parts []string) {
	parts = strings.Split(strings.TrimPrefix(glob, "/"), "/")
	n := 0
	for n < len(parts)-1 && !IsGlob(parts[n]) {
		n++
	}
	return "/" + strings.Join(parts[:n], "/"), parts[n:]
}

// MatchGlob reports whether the pattern matches the whole of the clean,
// absolute path name: * and ? are within one name, [a-z] is a class, ** alone
// between slashes is any number of folders. Case counts.
func MatchGlob(glob, name string) bool {
	base, parts := GlobBase(glob)
	if !Below(name, base) {
		return false
	}
	return MatchParts(parts, splitBelow(name, base))
}

// GlobCovers reports whether the pattern matches name or a folder it lies in.
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

// splitBelow returns the names that lead from the folder dir to name.
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

// MatchParts is [MatchGlob] for a pattern and a path that were split at their
// slashes.
func MatchParts(glob, names []string) bool {
	// As with one * in a line: only the last ** seen has to be tried again.
	g, n, retry, from := 0, 0, -1, 0
	for n < len(names) {
		switch {
		case g < len(glob) && glob[g] == "**":
			if g == len(glob)-1 {
				return true // it stands for what lies below, of which there is some
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
