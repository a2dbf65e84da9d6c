package sandbox

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// rescanRequest is what goes down the lifeline to ask for a look.
const rescanRequest = 'l'

// Rescan makes the sandbox hold again what its profile says of names and
// patterns, as the files are now: a repository that was cloned since, a file
// that is hidden and was not there. What a command that runs has open already
// stays open to it.
//
// The error wraps [ErrStale] where there are no mounts of our own that could be
// added to: then only a new process is held to what was found. It is
// [ErrEnded] when nothing runs any more. Rescan may be called concurrently, after Start of a Cmd whose AllowRescan is set.
func (c *Cmd) Rescan() error {
	if c.link == nil || !c.AllowRescan {
		return errors.New("sandbox: not started to be looked at again")
	}
	if !c.plan.confined() {
		return nil
	}
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return ErrEnded
	}
	if _, err := l.lifeline.Write([]byte{rescanRequest}); err != nil {
		return ErrEnded
	}
	r, err := l.nextReport()
	switch {
	case err != nil:
		return ErrEnded
	case !r.Rescanned:
		l.ended = &r
		return ErrEnded
	case r.Error != "":
		return fmt.Errorf("looking for what is protected: %s", r.Error)
	case r.Stale != "":
		return fmt.Errorf("%w: %s", ErrStale, r.Stale)
	}
	return nil
}

// A rescanner is the part of the first process that looks again.
type rescanner struct {
	plan Plan // with its paths as they are on disk

	mu          sync.Mutex
	watchTried  bool
	watch       *folderWatch    // nil: every look goes through all folders
	knownDenied map[string]bool // denied paths that Landlock holds
}

// newRescanner returns a looker for cfg, once the view has been set up.
func newRescanner(cfg initConfig) *rescanner {
	debug.SetGCPercent(100) // unlike a first process that only waits, it makes garbage
	l := &rescanner{plan: cfg.resolved, knownDenied: map[string]bool{}}
	for _, path := range cfg.resolved.Profile.Paths.Denied {
		l.knownDenied[path] = true
	}
	return l
}

// watchDelay is how long after the start a looker gets ready by itself. The
// program needs the processor more, and may have ended by then.
const watchDelay = 200 * time.Millisecond

// startWatch watches the folders, once, so that from then on looking costs little.
// The caller holds the lock.
func (l *rescanner) startWatch() {
	if l.watchTried {
		return
	}
	l.watchTried = true
	if l.plan.Level != Landlock {
		l.watch = watchFolders(l.plan)
	}
}

// serve answers requests.
func (l *rescanner) serve(requests <-chan struct{}, tell func(report)) {
	time.AfterFunc(watchDelay, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.startWatch()
	})
	for range requests {
		stale, err := l.rescan()
		r := report{Rescanned: true, Stale: stale}
		if err != nil {
			r.Error = err.Error()
		}
		tell(r)
	}
}

// rescan looks once. It returns what a new process would be held to and this one
// is not.
func (l *rescanner) rescan() (stale string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.plan.Level == Landlock {
		return l.rescanGlobs()
	}
	l.startWatch()
	if l.watch != nil && !l.watch.changed() && !l.namedPathMissing() {
		return "", nil
	}
	v, err := layoutOnce(l.plan)
	if err != nil {
		return "", err
	}
	fresh := v.missing()
	if len(fresh.overrides) == 0 {
		return "", nil
	}
	if l.plan.Level != Full {
		return fresh.overrides[0].path, nil
	}
	if err := cloneAll(fresh.overrides); err != nil {
		return "", err
	}
	for i, c := range fresh.overrides {
		if err := c.attach(); err != nil && c.file.Kind != unix.S_IFLNK {
			for _, rest := range fresh.overrides[i+1:] {
				if rest.tree >= 0 {
					unix.Close(rest.tree)
				}
			}
			return "", step(c.path, err)
		}
	}
	return "", fresh.sealMasks(false)
}

// rescanGlobs looks for files that match a pattern and did not before.
func (l *rescanner) rescanGlobs() (stale string, err error) {
	p := l.plan.Profile.Paths
	found, err := findGlobs(p.DeniedGlobs, p.GlobDepth)
	if err != nil {
		return "", err
	}
	for _, path := range found {
		if !l.knownDenied[path] {
			return path, nil
		}
	}
	return "", nil
}

// namedPathMissing reports whether one of the paths that the profile names is there and
// not held.
func (l *rescanner) namedPathMissing() bool {
	p := l.plan.Profile
	for _, named := range []struct {
		paths []string
		kind  overrideKind
	}{{p.Paths.ReadOnly, readOnly}, {p.Hidden, hidden}, {p.Paths.Denied, hidden}} {
		for _, path := range named.paths {
			var st unix.Statx_t
			err := unix.Statx(unix.AT_FDCWD, path, unix.AT_NO_AUTOMOUNT, 0, &st)
			if err != nil || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
				continue // not there, or under a mount: nobody inside can make another
			}
			c, err := statOverride(path, named.kind)
			if err == nil && !c.inPlace() {
				return true
			}
		}
	}
	for _, path := range l.plan.Profile.ReadOnlyPaths {
		c, err := lstatOverride(path, readOnly)
		if err == nil && !c.inPlace() && (l.plan.Level == Full || !c.isSymlink()) { // see coverSymlinks
			return true
		}
	}
	return false
}

// namedPathMissing returns what of v is not in place, with what lies in it.
func (v view) missing() view {
	var n view
	var masks []string
	for _, c := range v.overrides {
		inFresh := slices.ContainsFunc(masks, func(m string) bool { return isBelow(c.path, m) })
		switch {
		case inFresh:
		case c.kind == writable || c.inPlace():
			continue
		}
		if c.partial {
			masks = append(masks, c.path)
		}
		n.overrides = append(n.overrides, c)
	}
	for _, link := range v.symlinks {
		if slices.ContainsFunc(masks, func(m string) bool { return isBelow(link.path, m) }) {
			n.symlinks = append(n.symlinks, link)
		}
	}
	return n
}
