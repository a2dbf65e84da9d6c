package policy

import "slices"

// A Limit is the sandbox that a client is held to itself, and wants held for
// its calls: what is not in it is not allowed, whatever our own policy says.
// The zero Limit allows nothing.
type Limit struct {
	All     bool       // the client has no sandbox: nothing is limited
	Rules   []PathRule // what may be read and written
	Network bool       // the network may be used

	// ReadOnly are paths below what may be written that are to stay
	// read-only, as far as the system can.
	ReadOnly []string

	// GlobDepth is [Paths.GlobDepth] for the patterns among Rules.
	GlobDepth int

	// Unknown names what the client's sandbox asks for and cannot be held
	// here. A call with such a limit is refused.
	Unknown string
}

// Within returns p narrowed to l: the stricter of both, in everything. A nil
// Limit narrows nothing. Rules that cannot be read allow nothing.
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
	// Each side's access changes at its own points only, so the stricter of
	// both is told by what it is at the points of either.
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
	// What is only hidden stays so: it may be left out where it must.
	paths.Denied = slices.DeleteFunc(paths.Denied, func(d string) bool {
		return slices.Contains(p.Hidden, d) && theirs.Access(d) != NoAccess
	})
	if len(paths.Denied) == 0 {
		paths.Denied = nil
	}
	// What the client may write is no reason to open a name that we protect.
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
				n.ReadOnlySubpaths = merged(n.ReadOnlySubpaths, []string{escapeGlob(splitName(ro, root))})
			}
		}
	}
	return &n
}

// profile returns what l allows, as a profile.
func (l *Limit) profile() Profile {
	roots, paths, err := CompilePaths(l.Rules)
	if err != nil {
		return Profile{Paths: Paths{Restricted: true}}
	}
	paths.GlobDepth = l.GlobDepth
	return Profile{Mode: WorkspaceWrite, WritableRoots: roots, Paths: paths}
}

// deeper returns how deep the patterns of both are looked for: no less than
// either asks for.
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

// merged returns what is in a or b, sorted.
func merged(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// splitName returns the name of path, which lies below dir, from there.
func splitName(path, dir string) string {
	if dir == "/" {
		return path[1:]
	}
	return path[len(dir)+1:]
}
