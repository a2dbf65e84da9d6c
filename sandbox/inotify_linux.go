package sandbox

import (
	"bytes"
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"toolgate/policy"
)

// Limits of watched folders. With more folders, every rescan walks all of them.
const (
	maxWatched = 50_000    // with inotify
	maxMarked  = 1_000_000 // with fanotify; each takes about a KiB of kernel memory
)

// watchLimit returns how many folders may be watched here, if part of what the file
// allows a user may be used: editors need inotify watches too.
func watchLimit(file string, part, most int) int {
	text, _ := os.ReadFile(file)
	all, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return most
	}
	return min(most, all/part)
}

// A folderWatch tells whether a protected name or a path that matches a denied
// pattern has been created below the writable roots. The kernel queues the events
// until changed reads them.
type folderWatch struct {
	fd     int
	fan    int // fanotify descriptor, -1 for none
	plan   Plan
	search *search // reads folders; has the patterns

	limit, markLimit int // maximum of folders watched with inotify, and with fanotify
	watched, marked  int // how many are

	folders map[watchID]folder
	dirty   bool // an override is missing
	failed  bool // not every folder could be watched
}

// A watchID identifies a watched folder in events: by the number of its inotify watch or,
// if handle is not "", as [markFolder] does.
type watchID struct {
	wd     int32
	handle string
}

// A folder is one that is searched or watched.
type folder struct {
	path  string
	depth int       // depth of the folders below it that are too
	below []pattern // protected paths in it, for a watch
}

// watchFolders returns a watch for plan, or nil if not all folders can be watched.
// What was created since the view was set up is found by the first rescan.
func watchFolders(plan Plan) *folderWatch {
	w := newFolderWatch(plan)
	w.watchAll()
	if w.failed {
		unix.Close(w.fd)
		unix.Close(w.fan)
		return nil
	}
	return w
}

// newFolderWatch returns a watch for plan that watches nothing yet.
func newFolderWatch(plan Plan) *folderWatch {
	search := newSearch(nil, splitPatterns(plan.Profile.ReadOnlySubpaths))
	for _, glob := range plan.Profile.Paths.DeniedGlobs {
		_, parts := policy.GlobBase(glob)
		search.accept(false, parts...)
	}
	w := &folderWatch{
		fan: openFanotify(), plan: plan, search: search,
		limit:     watchLimit("/proc/sys/fs/inotify/max_user_watches", 4, maxWatched),
		markLimit: watchLimit("/proc/sys/fs/fanotify/max_user_marks", 2, maxMarked),
	}
	var err error
	if w.fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		w.fd, w.limit = -1, 0
	}
	return w
}

// watchAll watches every folder that is searched for names and patterns.
func (w *folderWatch) watchAll() {
	w.folders, w.watched, w.marked = map[watchID]folder{}, 0, 0
	p := w.plan.Profile
	if len(w.search.patterns) > 0 {
		for _, root := range p.WritableRoots {
			depth := math.MaxInt
			if slices.Contains(p.SharedRoots, root) {
				depth = sharedDepth
			}
			w.watchTree(root, depth)
		}
	}
	for _, glob := range p.Paths.DeniedGlobs {
		base, _ := policy.GlobBase(glob)
		depth := math.MaxInt
		if p.Paths.GlobDepth > 0 {
			depth = p.Paths.GlobDepth - 1
		}
		w.watchTree(base, depth)
	}
}

// watchTree watches root and the folders up to depth below it.
func (w *folderWatch) watchTree(root string, depth int) {
	for queue := []folder{{path: root, depth: depth}}; len(queue) > 0 && !w.failed; queue = queue[1:] {
		dir := queue[0]
		if !w.watch(dir) {
			continue
		}
		for _, e := range w.search.entries(dir.path, dir.depth > 0) {
			path := dir.path + "/" + e.name
			if !w.checkEntry(path, e.name) && e.kind == unix.S_IFDIR && dir.depth > 0 {
				queue = append(queue, folder{path: path, depth: dir.depth - 1})
			}
		}
	}
}

// watch watches f. It returns false if f is not a folder that has to be searched,
// or is watched to that depth already.
func (w *folderWatch) watch(f folder) bool {
	id, err := w.add(f.path)
	switch {
	case errors.Is(err, errUnwatched):
		w.failed = true
		return false
	case err != nil: // it is gone, or cannot be searched
		c, ok := unsearchedMount(f.path, err, f.depth <= sharedDepth)
		w.dirty = w.dirty || ok && !c.inPlace()
		return false
	}
	old, ok := w.folders[id]
	if ok && old.path == f.path && old.depth >= f.depth {
		return false
	}
	switch {
	case ok:
	case id.handle != "":
		w.marked++
	default:
		w.watched++
	}
	f.below = append(f.below, old.below...)
	w.folders[id] = f
	return true
}

var errUnwatched = errors.New("no more folders can be watched")

// add watches the folder at path with inotify or, beyond its limit, with fanotify.
func (w *folderWatch) add(path string) (watchID, error) {
	const mask = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW | unix.IN_EXCL_UNLINK
	if w.watched < w.limit {
		wd, err := unix.InotifyAddWatch(w.fd, path, mask)
		if err != unix.ENOSPC {
			return watchID{wd: int32(wd)}, err
		}
		w.limit = w.watched
	}
	if w.fan < 0 || w.marked >= w.markLimit {
		return watchID{}, errUnwatched
	}
	handle, err := markFolder(w.fan, path)
	switch err {
	case unix.ENOSPC, unix.EOPNOTSUPP, unix.ENODEV, unix.EXDEV, unix.EOVERFLOW, unix.EINVAL, unix.ENOMEM:
		err = errUnwatched // too many, or a file system without file handles
	}
	return watchID{handle: handle}, err
}

// checkEntry reports whether the name at path is protected or denied. If so, and
// its override is missing, it marks the watch dirty.
func (w *folderWatch) checkEntry(path, name string) bool {
	var below []pattern
	globs := w.plan.Profile.Paths.DeniedGlobs
	denied := slices.ContainsFunc(globs, func(g string) bool { return policy.MatchGlob(g, path) })
	found := denied
	for _, p := range w.search.patterns {
		if matches(p[0], name) {
			found = true
			if len(p) > 1 {
				below = append(below, p[1:])
			}
		}
	}
	if !found {
		return false
	}
	pin, mask := mountOverride{Path: path, Kind: pinned}, mountOverride{Path: path, Kind: hidden}
	if !pin.inPlace() || denied && !mask.inPlace() {
		w.dirty = true
	}
	if len(below) > 0 {
		w.watch(folder{path: path, below: below})
	}
	return true
}

// changed reads the queued events and reports whether an override has gone missing
// since the last call.
func (w *folderWatch) changed() bool {
	if w.failed {
		return true
	}
	readEvents(w.fd, func(buf []byte) {
		for rest := buf; len(rest) >= unix.SizeofInotifyEvent; {
			e := (*unix.InotifyEvent)(unsafe.Pointer(&rest[0]))
			end := unix.SizeofInotifyEvent + int(e.Len)
			name, _, _ := bytes.Cut(rest[unix.SizeofInotifyEvent:end], []byte{0})
			w.handleEvent(watchID{wd: e.Wd}, e.Mask, string(name))
			rest = rest[end:]
		}
	})
	readEvents(w.fan, func(buf []byte) {
		eachFanotifyEvent(buf, func(id string, mask uint32, name string) {
			w.handleEvent(watchID{handle: id}, mask, name)
		})
	})
	dirty := w.dirty || w.failed
	w.dirty = false
	return dirty
}

// readEvents passes what can be read from fd to handle. It reads nothing from -1.
func readEvents(fd int, handle func([]byte)) {
	var buf [64 << 10]byte
	for {
		n, err := unix.Read(fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		handle(buf[:n])
	}
}

// handleEvent handles one event.
func (w *folderWatch) handleEvent(id watchID, mask uint32, name string) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		w.dirty = true
		w.watchAll() // existing watches stay
		return
	}
	dir, ok := w.folders[id]
	if mask&unix.IN_IGNORED != 0 {
		switch {
		case !ok:
		case id.handle != "":
			w.marked--
		default:
			w.watched--
		}
		delete(w.folders, id)
		return
	}
	if !ok || name == "" {
		return
	}
	path := strings.TrimSuffix(dir.path, "/") + "/" + name
	for _, p := range dir.below {
		if len(p) > 1 || matches(p[0], name) {
			w.dirty = w.dirty || !mountOverride{Path: path, Kind: pinned}.inPlace()
		}
	}
	if w.checkEntry(path, name) || mask&unix.IN_ISDIR == 0 || dir.depth == 0 {
		return
	}
	w.watchTree(path, dir.depth-1)
}
