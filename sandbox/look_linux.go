package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// lookRequest is what goes down the lifeline to ask for a look.
const lookRequest = 'l'

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
	l.asking.Lock()
	defer l.asking.Unlock()
	if l.ended != nil {
		return ErrEnded
	}
	if _, err := l.lifeline.Write([]byte{lookRequest}); err != nil {
		return ErrEnded
	}
	r, err := l.next()
	switch {
	case err != nil:
		return ErrEnded
	case !r.Looked:
		l.ended = &r
		return ErrEnded
	case r.Error != "":
		return fmt.Errorf("looking for what is protected: %s", r.Error)
	case r.Stale != "":
		return fmt.Errorf("%w: %s", ErrStale, r.Stale)
	}
	return nil
}

// last returns the report of the end.
func (l *link) last() (report, error) {
	l.asking.Lock()
	defer l.asking.Unlock()
	if l.ended != nil {
		return *l.ended, nil
	}
	return l.next()
}

// A looker is the part of the first process that looks again.
type looker struct {
	plan Plan // with its paths as they are on disk

	mu      sync.Mutex
	isReady bool
	watch   *folderWatch    // nil: every look goes through all folders
	known   map[string]bool // denied paths that Landlock holds
}

// newLooker returns a looker for o, once the view has been set up.
func newLooker(o order) *looker {
	debug.SetGCPercent(100) // unlike a first process that only waits, it makes garbage
	l := &looker{plan: o.seen, known: map[string]bool{}}
	for _, path := range o.seen.Profile.Paths.Denied {
		l.known[path] = true
	}
	return l
}

// readyAfter is how long after the start a looker gets ready by itself. The
// program needs the processor more, and may have ended by then.
const readyAfter = 200 * time.Millisecond

// ready watches the folders, once, so that from then on looking costs little.
// The caller holds the lock.
func (l *looker) ready() {
	if l.isReady {
		return
	}
	l.isReady = true
	if l.plan.Level != Landlock {
		l.watch = watchFolders(l.plan)
	}
}

// serve answers requests.
func (l *looker) serve(requests <-chan struct{}, tell func(report)) {
	time.AfterFunc(readyAfter, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ready()
	})
	for range requests {
		stale, err := l.look()
		r := report{Looked: true, Stale: stale}
		if err != nil {
			r.Error = err.Error()
		}
		tell(r)
	}
}

// look looks once. It returns what a new process would be held to and this one
// is not.
func (l *looker) look() (stale string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.plan.Level == Landlock {
		return l.lookAtGlobs()
	}
	l.ready()
	if l.watch != nil && !l.watch.changed() && !l.missing() {
		return "", nil
	}
	v, err := layoutNow(l.plan)
	if err != nil {
		return "", err
	}
	fresh := v.fresh()
	if len(fresh.carvings) == 0 {
		return "", nil
	}
	if l.plan.Level != Full {
		return fresh.carvings[0].path, nil
	}
	if err := openAll(fresh.carvings); err != nil {
		return "", err
	}
	for i, c := range fresh.carvings {
		if err := c.attach(); err != nil && c.file.Kind != unix.S_IFLNK {
			for _, rest := range fresh.carvings[i+1:] {
				if rest.tree >= 0 {
					unix.Close(rest.tree)
				}
			}
			return "", step(c.path, err)
		}
	}
	return "", fresh.closeMasks(false)
}

// lookAtGlobs looks for files that match a pattern and did not before.
func (l *looker) lookAtGlobs() (stale string, err error) {
	p := l.plan.Profile.Paths
	found, err := findGlobs(p.DeniedGlobs, p.GlobDepth)
	if err != nil {
		return "", err
	}
	for _, path := range found {
		if !l.known[path] {
			return path, nil
		}
	}
	return "", nil
}

// missing reports whether one of the paths that the profile names is there and
// not held.
func (l *looker) missing() bool {
	p := l.plan.Profile
	for _, named := range []struct {
		paths []string
		kind  carvingKind
	}{{p.Paths.ReadOnly, readOnly}, {p.Hidden, hidden}, {p.Paths.Denied, hidden}} {
		for _, path := range named.paths {
			var st unix.Statx_t
			err := unix.Statx(unix.AT_FDCWD, path, unix.AT_NO_AUTOMOUNT, 0, &st)
			if err != nil || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
				continue // not there, or under a mount: nobody inside can make another
			}
			c, err := look(path, named.kind)
			if err == nil && !c.held() {
				return true
			}
		}
	}
	for _, path := range l.plan.Profile.ReadOnlyPaths {
		c, err := lookAt(path, readOnly)
		if err == nil && !c.held() && (l.plan.Level == Full || !c.symlink()) { // see coverSymlinks
			return true
		}
	}
	return false
}

// fresh returns what of v is not in place, with what lies in it.
func (v view) fresh() view {
	var n view
	var masks []string
	for _, c := range v.carvings {
		inFresh := slices.ContainsFunc(masks, func(m string) bool { return isBelow(c.path, m) })
		switch {
		case inFresh:
		case c.kind == writable || c.held():
			continue
		}
		if c.opened {
			masks = append(masks, c.path)
		}
		n.carvings = append(n.carvings, c)
	}
	for _, link := range v.links {
		if slices.ContainsFunc(masks, func(m string) bool { return isBelow(link.path, m) }) {
			n.links = append(n.links, link)
		}
	}
	return n
}

// held reports whether c is in place.
func (c carving) held() bool {
	fd, err := unix.Open(c.path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return isMissing(err)
	}
	defer unix.Close(fd)
	mounted, protected := mountOf(fd)
	switch c.kind {
	case readOnly:
		return protected
	case hidden:
		return mounted && masked(fd)
	}
	return mounted || protected
}

// mountOf reports whether the file is the root of a mount, and whether it lies
// in one that is read-only, so that it can be neither changed nor moved.
func mountOf(fd int) (root, protected bool) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_NO_AUTOMOUNT, 0, &st); err == nil {
		root = st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err == nil {
		protected = fs.Flags&unix.ST_RDONLY != 0
	}
	return root, protected
}

// masked reports whether the root of a mount is a mask: an empty folder of its
// own, or the null device.
func masked(fd int) bool {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Fstat(fd, &st) != nil || unix.Fstatfs(fd, &fs) != nil {
		return false
	}
	if st.Mode&unix.S_IFMT == unix.S_IFCHR {
		return st.Rdev == unix.Mkdev(1, 3)
	}
	return fs.Type == unix.TMPFS_MAGIC && fs.Flags&unix.ST_RDONLY != 0
}

// teller returns what writes reports to w, one at a time.
func teller(w *os.File) func(report) {
	var mu sync.Mutex
	return func(r report) {
		line, err := json.Marshal(r)
		if err != nil {
			panic(fmt.Sprintf("sandbox: a report cannot be written as JSON: %v", err))
		}
		mu.Lock()
		defer mu.Unlock()
		w.Write(append(line, '\n'))
	}
}
