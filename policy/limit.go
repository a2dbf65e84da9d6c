package policy

import (
	"slices"
	"strings"
)

// A Limit is the sandbox of the client itself, which also applies to its calls:
// what it does not allow is denied, whatever the policy says. The zero Limit
// allows nothing.
type Limit struct {
	All     bool       // the client has no sandbox
	Rules   []PathRule // paths that may be read and written
	Network bool       // the network may be used

	// ReadOnly are paths in writable folders that stay read-only, best effort.
	ReadOnly []string

	// GlobDepth is the [Paths.GlobDepth] of the patterns in Rules.
	GlobDepth int

	// Unknown names a requirement of the client's sandbox that cannot be
	// enforced. A call with such a limit is refused.
	Unknown string
}

// Within returns p restricted to l: the stricter of both in every respect. A nil
// Limit restricts nothing. Invalid rules allow nothing.
func (p *Policy) Within(l *Limit) *Policy {
	if p == nil || l == nil || l.All {
		return p
	}
	n := *p
	ours, theirs := p.Profile(), l.profile()
	n.ProfileName = ours.String() + " within the client's"
	if !l.Network {
		n.Network, n.Hosts = NetworkNone, Hosts{}
	} else if p.Mode == DangerFullAccess {
		n.Network, n.Hosts = NetworkAll, Hosts{}
	}
	// Each side's access changes only at its own points, so it is enough to
	// compare both at the points of either.
	var list []PathRule
	for _, at := range slices.Concat(ours.points(), theirs.points()) {
		list = append(list, PathRule{Path: at, Access: min(ours.Access(at), theirs.Access(at))})
	}
	roots, paths, err := CompilePaths(list)
	if err != nil {
		roots, paths = nil, Paths{Restricted: true}
	}
	paths.DeniedGlobs = merged(ours.Paths.DeniedGlobs, theirs.Paths.DeniedGlobs)
	paths.GlobDepth = deeper(ours.Paths, theirs.Paths)
	// Hidden paths stay hidden, which is best effort, instead of denied.
	paths.Denied = slices.DeleteFunc(paths.Denied, func(d string) bool {
		return slices.Contains(p.Hidden, d) && theirs.Access(d) != NoAccess
	})
	if len(paths.Denied) == 0 {
		paths.Denied = nil
	}
	// The client's roots must not open names that are protected here.
	roots = slices.DeleteFunc(roots, func(r string) bool {
		own, _ := p.rootOf(r)
		_, named := p.protected(own, r)
		return p.Mode == WorkspaceWrite && own != r && named
	})
	n.WritableRoots, n.Paths, n.Mode = roots, paths, WorkspaceWrite
	if len(roots) == 0 {
		n.Mode = ReadOnly
	}
	for _, ro := range l.ReadOnly {
		for _, root := range n.WritableRoots {
			if ro != root && Below(ro, root) {
				name := ro[len(strings.TrimSuffix(root, "/"))+1:]
				n.ReadOnlySubpaths = merged(n.ReadOnlySubpaths, []string{escapeGlob(name)})
			}
		}
	}
	return &n
}

// profile returns l as a profile.
func (l *Limit) profile() Profile {
	roots, paths, err := CompilePaths(l.Rules)
	if err != nil {
		return Profile{Paths: Paths{Restricted: true}}
	}
	paths.GlobDepth = l.GlobDepth
	return Profile{Mode: WorkspaceWrite, WritableRoots: roots, Paths: paths}
}

// deeper returns the depth for the patterns of both: the larger one, where 0 is no
// limit.
func deeper(a, b Paths) int {
	switch {
	case len(a.DeniedGlobs) == 0:
		return b.GlobDepth
	case len(b.DeniedGlobs) == 0:
		return a.GlobDepth
	case a.GlobDepth == 0 || b.GlobDepth == 0:
		return 0
	}
	return max(a.GlobDepth, b.GlobDepth)
}

// merged returns the union of a and b, sorted.
func merged(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
