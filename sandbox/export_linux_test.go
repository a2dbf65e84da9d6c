package sandbox

import "golang.org/x/sys/unix"

// ProbeBwrap returns whether bubblewrap works here, which Probe finds out only
// where namespaces of one's own do not.
func ProbeBwrap() (path string, s Support) {
	path = findBwrap()
	return path, supported(probeBwrap(path))
}

// ProbeNamespaces is what Probe does, uncached.
var ProbeNamespaces = probeNamespaces

// RefuseCalls makes the kernel answer calls on this thread, and in what it
// starts or becomes, with errno, as the filter of a container does. Mask, if
// not 0, is for bits of the first argument that a call must have one of.
func RefuseCalls(errno uint32, mask uint32, calls ...uint32) error {
	r := rule{calls: calls, do: refuse(unix.Errno(errno))}
	if mask != 0 {
		r.when = []cond{bits(0, mask)}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, err := installFilter(assemble(auditArch, []rule{r}), 0)
	return err
}

// EndDescendants ends every process below this one; Descendants is how it
// finds them when no test comes between.
var (
	EndDescendants = endDescendants
	Descendants    = descendants
)

// Holding returns p with another limit of processes.
func (p Plan) Holding(processes int) Plan {
	p.Processes = processes
	return p.seal()
}

// LimitNamespaces is what the first process does in its own /proc.
var LimitNamespaces = limitNamespaces

// WatchFolders watches the folders of p, at most limit of them with inotify. Changed
// reports whether a protected name has come into being, and marked how many folders
// are watched with fanotify; failed is set if not all could be watched.
func WatchFolders(p Plan, limit int) (changed func() bool, marked func() int, failed bool) {
	w := newFolderWatch(p)
	w.limit = limit
	w.watchAll()
	return w.changed, func() int { return w.marked }, w.failed
}

// ProtectedSources returns the protected names with their sources.
func ProtectedSources() map[string]string {
	sources := map[string]string{}
	for _, p := range protectedNames {
		sources[p.name] = p.source
	}
	return sources
}
