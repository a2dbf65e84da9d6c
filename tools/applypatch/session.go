package applypatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A session applies plans one at a time and records them.
type session struct {
	roots    []string
	disk     *disk
	store    *store
	lockFile string // "" for none

	// turn has one element while a call uses the store or changes files: it excludes
	// other calls of this process, the lock file those of others.
	turn chan struct{}
}

func newSession(o Options, d *disk) *session {
	if o.LockFile == "" && o.StateDir != "" {
		o.LockFile = filepath.Join(o.StateDir, lockName)
	}
	return &session{
		roots: o.Roots, disk: d, store: newStore(o.StateDir, d), lockFile: o.LockFile, turn: make(chan struct{}, 1),
	}
}

// acquire waits until no other call uses the store or changes files, in this process or
// in one with the same lock file, and recovers from crashes of other processes. The notes
// report what could not be rolled back. The caller calls leave when done.
func (s *session) acquire(ctx context.Context) (leave func(), notes []string, err error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	unlock, err := s.disk.lock(ctx, s.lockFile)
	if err != nil {
		<-s.turn
		return nil, nil, err
	}
	leave = func() {
		unlock()
		<-s.turn
	}
	if err = s.store.open(); err == nil {
		notes, err = s.recover()
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	return leave, notes, nil
}

// recover completes or rolls back every interrupted step.
func (s *session) recover() (notes []string, err error) {
	_, pending, err := s.store.ids()
	for _, id := range pending {
		st, err := s.store.load(pendingName(id))
		if err != nil {
			return notes, err
		}
		content := func(sum string) ([]byte, error) { return s.store.content(st, sum) }
		if st.Work.done() {
			st.Work.removeStaged(s.disk)
			err = s.store.commit(st)
		} else if back := st.Work.rollBack(s.disk, content); back != nil {
			const format = "note: an earlier patch (%s) was cut short and could not be taken back: %v"
			notes = append(notes, fmt.Sprintf(format, st.Summary, back))
		} else {
			err = s.store.abandon(st)
		}
		if err != nil {
			return notes, err
		}
	}
	return notes, err
}

// commit carries out the plan as step st, completely or not at all.
func (s *session) commit(ctx context.Context, pl *plan, st *step) (notes []string, err error) {
	if err = context.Cause(ctx); err == nil {
		notes, err = s.attempt(pl, st)
	}
	if _, ok := errors.AsType[*rollBackError](err); err != nil && !ok {
		err = fmt.Errorf("%w; nothing was changed", err)
	}
	return notes, err
}

// attempt carries out the plan. If an operation is not possible, it starts over
// with the fallback for it.
func (s *session) attempt(pl *plan, st *step) (notes []string, err error) {
	if st.ID, err = s.store.nextID(); err != nil {
		return nil, err
	}
	blobs := pl.record(st)
	avoid := map[operation]bool{}
	for {
		st.Work = pl.transaction(avoid)
		if len(st.Work.Actions) == 0 {
			return nil, nil
		}
		if err := st.Work.probe(); err != nil {
			return nil, err
		}
		st.Work.addBlobs(blobs)
		st.Dirs = nil
		for _, a := range st.Work.Actions {
			if a.Kind == makeDir {
				st.Dirs = append(st.Dirs, a.Path)
			}
		}
		if err := s.store.begin(st, blobs); err != nil {
			return nil, err
		}
		leftovers, err := st.Work.run(s.disk)
		if err == nil {
			return s.finish(st, leftovers)
		}
		if _, ok := errors.AsType[*rollBackError](err); ok {
			return nil, err // the step stays pending: the next process may be able to roll back
		}
		if err := s.store.abandon(st); err != nil {
			return nil, err
		}
		d, ok := errors.AsType[*fallbackError](err)
		if !ok || avoid[d.operation] {
			return nil, err
		}
		avoid[d.operation] = true
	}
}

func (s *session) finish(st *step, leftovers []string) (notes []string, err error) {
	if len(leftovers) > 0 {
		notes = append(notes, "note: these old files could not be removed: "+strings.Join(leftovers, ", "))
	}
	err = s.store.commit(st)
	if err == nil {
		err = s.store.prune()
	}
	if err != nil {
		notes = append(notes, "note: the change is made but cannot be undone by undo_patch: "+err.Error())
	}
	return notes, nil
}

// record sets the changes of st and returns the contents that they refer to, by
// hash.
func (pl *plan) record(st *step) map[string][]byte {
	blobs := map[string][]byte{}
	for _, path := range pl.order {
		f := pl.files[path]
		if !f.changed() {
			continue
		}
		c := change{Path: f.path, Written: f.written}
		f.readOld()
		c.Before, c.After = f.before.snapshot(), f.after.snapshot()
		if f.after.from != f.path {
			c.After.From = f.after.from
		}
		if c.After.Exists && f.after.from == "" && !f.after.exact {
			c.After.Mode = 0 // depends on the umask
		}
		if c.Before.Sum != "" {
			blobs[c.Before.Sum] = f.before.data
		}
		if c.After.Sum != "" && len(f.after.data) <= maxNewBlob {
			blobs[c.After.Sum] = f.after.data
		}
		st.Changes = append(st.Changes, c)
	}
	return blobs
}

// readOld reads the old content of a file to be deleted, so that it can be
// restored.
func (f *file) readOld() {
	if f.before.read || f.before.info == nil || !f.before.info.Mode().IsRegular() || f.before.info.Size() > maxBlob {
		return
	}
	if data, err := os.ReadFile(f.path); err == nil {
		f.before.data, f.before.read = data, true
	}
}

func (s *state) snapshot() snapshot {
	k := snapshot{Exists: s.exists, fingerprint: s.fingerprint()}
	if s.exists && s.link == "" && (!s.read || len(s.data) > maxBlob) {
		k.Lost, k.Sum = true, ""
	}
	return k
}

// addBlobs adds the contents that a roll back may need, whatever their size: while
// a file is rewritten in place there is no other copy of it, nor is there one of
// a replaced file on a file system that cannot exchange two names.
func (t *transaction) addBlobs(blobs map[string][]byte) {
	for _, a := range t.Actions {
		if (a.Kind == overwrite || a.Kind == replace) && a.old != nil {
			blobs[a.Before.Sum] = a.old
		}
		if a.Kind == overwrite {
			blobs[a.After.Sum] = a.data
		}
	}
}
