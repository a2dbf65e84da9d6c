package grep

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"toolgate/internal/ignore"
)

func search(ctx context.Context, q query, folder bool) (*results, error) {
	found := &results{limit: q.page.end()}
	root := q.root()
	if !folder {
		searchFile(ctx, newSearcher(ctx, q.pattern), found, root, root, true)
		return found, ended(ctx, found)
	}
	w := &walk{found: found, excluded: q.isExcluded, newVisit: func() visit {
		s := newSearcher(ctx, q.pattern)
		return func(path, shown string, e os.DirEntry) {
			if e.Type().IsRegular() {
				searchFile(ctx, s, found, path, shown, false)
			}
		}
	}}
	w.run(ctx, root, q.path, fromWorkingFolder(root))
	return found, ended(ctx, found)
}

// run traverses the folder root; shown and below are those of its task.
func (w *walk) run(ctx context.Context, root, shown, below string) {
	w.more = sync.NewCond(&w.mu)
	rules := func(func(string) bool) *ignore.Dir { return ignore.Root(root, ignore.Ripgrep) }
	w.push(task{path: root, shown: shown, below: below, rules: rules})
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() { w.work(ctx) }) // ends when no task is left
	}
	wg.Wait()
}

// fromWorkingFolder returns path relative to the working folder, slash-separated, and
// "" for that folder itself. A path outside is absolute, without the leading slash.
// Include patterns are relative to the working folder, as in ripgrep.
func fromWorkingFolder(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if wd, err := filepath.Abs("."); err == nil {
		if rel, err := filepath.Rel(wd, abs); err == nil && filepath.IsLocal(rel) {
			abs = rel
		}
	}
	if abs == "." {
		return ""
	}
	return strings.TrimPrefix(filepath.ToSlash(abs), "/")
}

// ended returns nil if the search is complete or timed out, and otherwise the cause of
// its cancellation.
func ended(ctx context.Context, found *results) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		found.stopped = true
		return nil
	}
	return context.Cause(ctx)
}

// A walk traverses a tree with several workers, depth first to keep the number of
// waiting folders small.
type walk struct {
	found    *results
	excluded func(t task, rules *ignore.Dir, name string, dir bool) bool
	newVisit func() visit // called once for each worker

	mu      sync.Mutex
	more    *sync.Cond // signals that a task was added or that the last one ended
	waiting []task
	left    int // tasks that are waiting or in progress
}

// A visit handles an entry that is not a folder.
type visit func(path, shown string, e os.DirEntry)

// A task is a folder to traverse.
type task struct {
	path  string
	shown string // its path for the model; "" for the working folder
	below string // its path relative to the working folder, slash-separated

	// rules returns the ignore rules for the folder. has reports whether a name
	// may exist in it.
	rules func(has func(name string) bool) *ignore.Dir
}

func (w *walk) push(t task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, t)
	w.left++
	w.more.Signal()
}

// work carries out tasks until none is left.
func (w *walk) work(ctx context.Context) {
	visit := w.newVisit()
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.left > 0 {
		last := len(w.waiting) - 1
		if last < 0 {
			w.more.Wait()
			continue
		}
		t := w.waiting[last]
		w.waiting = slices.Delete(w.waiting, last, last+1)
		w.mu.Unlock()
		w.folder(ctx, t, visit)
		w.mu.Lock()
		if w.left--; w.left == 0 {
			w.more.Broadcast()
		}
	}
}

func (w *walk) folder(ctx context.Context, t task, visit visit) {
	const batch = 1024
	f, err := os.Open(t.path)
	if err != nil {
		w.found.unreadable.Add(1)
		return
	}
	defer f.Close()
	var rules *ignore.Dir
	for ctx.Err() == nil {
		entries, err := f.ReadDir(batch)
		if rules == nil {
			all := len(entries) < batch
			rules = t.rules(func(name string) bool {
				return !all || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == name })
			})
		}
		for _, e := range entries {
			if ctx.Err() != nil {
				return
			}
			w.entry(t, rules, e, visit)
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			w.found.unreadable.Add(1)
			return
		}
	}
}

func (w *walk) entry(t task, rules *ignore.Dir, e os.DirEntry, visit visit) {
	name := e.Name()
	if w.excluded(t, rules, name, e.IsDir()) {
		return
	}
	full := filepath.Join(t.path, name)
	shown := filepath.Join(t.shown, name)
	if e.IsDir() {
		enter := func(has func(string) bool) *ignore.Dir { return rules.Enter(name, has) }
		w.push(task{path: full, shown: shown, below: path.Join(t.below, name), rules: enter})
		return
	}
	visit(full, shown, e)
}

// isExcluded reports whether an entry is not searched: a file of another type. The include pattern takes
// precedence, then the ignore rules, then the leading dot of hidden names.
func (q query) isExcluded(t task, rules *ignore.Dir, name string, dir bool) bool {
	if !dir && q.types != nil && q.types.Match(name, false) != ignore.Ignored {
		return true
	}
	if q.globs != nil {
		switch v := q.globs.Match(path.Join(t.below, name), dir); {
		case v == ignore.Ignored: // include matches
			return false
		case v == ignore.Included, !dir && !q.globs.OnlyNegated():
			return true
		}
	}
	return isLeftOut(rules, name, dir)
}

// isLeftOut reports whether an entry is ignored or hidden.
func isLeftOut(rules *ignore.Dir, name string, dir bool) bool {
	switch rules.Match(name, dir) {
	case ignore.Ignored:
		return true
	case ignore.Included:
		return false
	}
	return strings.HasPrefix(name, ".")
}

// searchFile adds the file at path to found if it matches. A binary file does not
// match unless the caller named it.
func searchFile(ctx context.Context, s *searcher, found *results, path, shown string, named bool) {
	ok, err := s.matches(ctx, path, named)
	switch {
	case errors.Is(err, errTooLong):
		found.tooLong.Add(1)
	case err != nil && ctx.Err() == nil:
		found.unreadable.Add(1)
	}
	if ok {
		found.add(path, shown)
	}
}
