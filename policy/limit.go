package policy

import (
	"slices"
	"strings"
)

// A Limit is the sandbox that a client is held to itself, and wants held for
// its calls: what is not in it is not allowed, whatever our own policy says.
type Limit struct {
	All      bool     // the client has no sandbox: nothing is limited
	Writable []string // absolute folders that may be written
	ReadOnly []string // absolute paths below them that may not
	Hidden   []string // absolute paths that may not be read
	Network  bool     // the network may be used

	// Unknown names what the client's sandbox asks for and cannot be held
	// here. A call with such a limit is refused.
	Unknown string
}

// Within returns p narrowed to l: the stricter of both, in everything. A nil
// Limit narrows nothing.
func (p *Policy) Within(l *Limit) *Policy {
	if p == nil || l == nil || l.All {
		return p
	}
	n := *p
	if !l.Network {
		n.Network, n.Hosts = NetworkNone, Hosts{}
	}
	switch p.Mode {
	case DangerFullAccess:
		n.Mode, n.WritableRoots = WorkspaceWrite, l.Writable
		if l.Network {
			n.Network, n.Hosts = NetworkAll, Hosts{}
		}
	case WorkspaceWrite:
		n.WritableRoots = both(p.WritableRoots, l.Writable)
	}
	n.ReadOnlySubpaths = slices.Clone(p.ReadOnlySubpaths)
	for _, ro := range l.ReadOnly {
		for _, root := range n.WritableRoots {
			switch { // where one is more exact than the other, it wins
			case root == ro:
				n.WritableRoots = slices.DeleteFunc(slices.Clone(n.WritableRoots), func(r string) bool { return r == root })
			case Below(ro, root):
				n.ReadOnlySubpaths = append(n.ReadOnlySubpaths, strings.TrimPrefix(strings.TrimPrefix(ro, root), "/"))
			}
		}
	}
	slices.Sort(n.ReadOnlySubpaths)
	n.ReadOnlySubpaths = slices.Compact(n.ReadOnlySubpaths)
	n.Hidden = slices.Concat(p.Hidden, l.Hidden)
	if n.Mode == WorkspaceWrite && len(n.WritableRoots) == 0 {
		n.Mode = ReadOnly
	}
	return &n
}

// both returns what lies below a folder of a and a folder of b.
func both(a, b []string) []string {
	var out []string
	for _, x := range a {
		for _, y := range b {
			switch {
			case Below(x, y):
				out = append(out, x)
			case Below(y, x):
				out = append(out, y)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
