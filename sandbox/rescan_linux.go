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

// rescanRequest is the message on the lifeline that requests a rescan: a JSON
// string, and white space to end it.
const rescanRequest = "\"rescan\"\n"

// Rescan applies the profile's names and patterns to the files as they are now,
// such as a repository that was cloned since, or a hidden file that did not exist
// before. What a running command has open stays open to it.
//
// The error wraps [ErrStale] if this sandbox cannot add mounts: then only a new
// process protects what was found. It is [ErrEnded] if the sandbox has ended.
// AllowRescan must have been set before Start. Rescan may be called concurrently.
func (c *Cmd) Rescan() error {
	if c.link == nil || !c.AllowRescan {
		return errors.New("sandbox: not started with AllowRescan")
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
	if _, err := l.lifeline.WriteString(rescanRequest); err != nil {
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
		return fmt.Errorf("searching for protected names: %s", r.Error)
	case r.Stale != "":
		return fmt.Errorf("%w: %q", ErrStale, r.Stale)
	default:
		c.notes.Store(&r.Notes)
	}
	return nil
}

// A rescanner serves rescan requests in the first process.
type rescanner struct {
	plan  Plan                // with symlinks in its paths resolved
	notes []string            // see [Cmd.Notes]
	pins  int                 // for pinFolders
	watch func() *folderWatch // watches the folders from the first call on; nil: a rescan walks all of them
}

// newRescanner returns a rescanner for cfg. The view must have been set up.
func newRescanner(cfg initConfig) *rescanner {
	plan := cfg.resolved
	debug.SetGCPercent(100) // initEnv turned it off for a process that only waits
	if plan.Profile.TempDir != "" && plan.namespaces() {
		// It is mounted, and its names are not protected.
		plan.Profile.TempDir, plan.Profile.WritableRoots = "", without(plan.Profile.WritableRoots, slashTmp)
	}
	return &rescanner{plan, cfg.Notes, cfg.pins, sync.OnceValue(func() *folderWatch { return watchFolders(plan) })}
}

// watchDelay is how long after the start a rescanner sets up its watch unasked.
// Until then the program needs the processor more, and it may have ended by then.
const watchDelay = 200 * time.Millisecond

// serve answers requests until the channel is closed.
func (r *rescanner) serve(requests <-chan struct{}, send func(report)) {
	if r.plan.Level != Landlock {
		time.AfterFunc(watchDelay, func() { r.watch() })
	}
	for range requests {
		notes, stale, err := r.rescan()
		answer := report{Rescanned: true, Stale: stale, Notes: notes}
		if err != nil {
			answer.Error = err.Error()
		}
		send(answer)
	}
}

// rescan adds the missing mounts. If it cannot, stale is a path that only a new
// process would protect. Notes say what cannot be protected.
func (r *rescanner) rescan() (notes []string, stale string, err error) {
	if r.plan.Level == Landlock {
		stale, err := r.rescanReadable()
		return nil, stale, err
	}
	if watch := r.watch(); watch != nil && !watch.changed() && !r.namedPathMissing() {
		return r.notes, "", nil
	}
	v, err := layout(r.plan, nil, scanOnce)
	if err != nil {
		return nil, "", err
	}
	r.notes = v.notes
	missing := v.missing()
	if len(missing.overrides) == 0 {
		return v.notes, "", nil
	}
	if r.plan.Level != Full {
		return nil, missing.overrides[0].Path, nil
	}
	if err := cloneAll(missing.overrides); err != nil {
		return nil, "", err
	}
	for i, c := range missing.overrides {
		if err := c.place(); err != nil && !c.isSymlink() && !c.Shared {
			closeTrees(missing.overrides[i+1:])
			return nil, "", step(c.Path, err)
		}
	}
	if err := pinFolders(r.pins, v.pins(r.plan.Profile.WritableRoots)); err != nil {
		return nil, "", err
	}
	return v.notes, "", missing.sealMasks(false)
}

// rescanReadable returns a path that is to be hidden and may be readable: it matches a
// denied pattern and did not exist when the process was started, or a symlink to it
// was created since. Other hidden paths that were created since cannot be read.
func (r *rescanner) rescanReadable() (stale string, err error) {
	p := r.plan.Profile
	found, err := findGlobs(p.Paths.DeniedGlobs, p.Paths.GlobDepth)
	if err != nil {
		return "", err
	}
	for _, path := range found {
		if _, known := slices.BinarySearch(p.Paths.Denied, path); !known {
			return path, nil
		}
	}
	masked := slices.Concat(p.Hidden, p.Paths.Denied)
	for _, path := range masked {
		c, err := statOverride(path, hidden)
		if err == nil && !isBelowAny(c.Path, masked) {
			return c.Path, nil
		}
	}
	return "", nil
}

// namedPathMissing reports whether a path named in the profile exists and lacks
// its mount.
func (r *rescanner) namedPathMissing() bool {
	p := r.plan.Profile
	for _, named := range []struct {
		paths []string
		kind  overrideKind
	}{{p.Paths.ReadOnly, readOnly}, {p.Hidden, hidden}, {p.Paths.Denied, hidden}} {
		for _, path := range named.paths {
			var st unix.Statx_t
			err := unix.Statx(unix.AT_FDCWD, path, unix.AT_NO_AUTOMOUNT, 0, &st)
			if err != nil || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
				continue // it does not exist, or it is a mount, which cannot be replaced inside
			}
			c, err := statOverride(path, named.kind)
			if err == nil && !c.inPlace() {
				return true
			}
		}
	}
	for _, path := range r.plan.Profile.ReadOnlyPaths {
		c, err := lstatOverride(path, readOnly)
		if err == nil && !c.inPlace() && (r.plan.Level == Full || !c.isSymlink()) { // see pinSymlinks
			return true
		}
	}
	return false
}

// missing returns the part of v that is not in place, including everything below
// a missing mask.
func (v view) missing() view {
	var n view
	var masks []string
	for _, c := range v.overrides {
		if !isBelowAny(c.Path, masks) && (c.Kind == writable || c.inPlace()) {
			continue
		}
		if c.partial {
			masks = append(masks, c.Path)
		}
		n.overrides = append(n.overrides, c)
	}
	for _, link := range v.symlinks {
		if isBelowAny(link.path, masks) {
			n.symlinks = append(n.symlinks, link)
		}
	}
	return n
}
