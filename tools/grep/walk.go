package grep

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"toolgate/internal/ignore"
)

// searchTree finds the files.
func searchTree(ctx context.Context, q query, folder bool) (*results, error) {
	found := &results{limit: q.limit}
	root := q.root()
	if !folder {
		searchFile(ctx, newSearcher(ctx, q.pattern), found, root, root, true)
		return found, ended(ctx, found)
	}
	w := &walk{query: q, found: found}
	w.more = sync.NewCond(&w.mu)
	w.push(task{path: root, shown: q.path, below: fromWorkingFolder(root), rules: func(names func(string) bool) *ignore.Dir {
		return ignore.Root(root, ignore.Ripgrep)
	}})
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() { w.work(ctx) })
	}
	wg.Wait()
	return found, ended(ctx, found)
}

// fromWorkingFolder returns path relative to the working folder, with slashes;
// "" for that folder itself. One outside is absolute, without its first slash.
// Include counts from there, as ripgrep has it.
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

// ended says how a search ended: nil when it is done or its time was up.
func ended(ctx context.Context, found *results) error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		found.stopped = true
		return nil
	}
	if err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// A walk goes through a tree with several workers. The folders found last are
// entered first, so that few wait.
type walk struct {
	query
	found *results

	mu      sync.Mutex
	more    *sync.Cond // a task was added, or the last one ended
	waiting []task
	busy    int // tasks taken and not ended
}

// A task is a folder to go through.
type task struct {
	path  string
	shown string // how paths in it begin; "" for the working folder
	below string // path from the working folder, with slashes

	// rules makes the rules for what is in the folder. It is told which names
	// there are.
	rules func(has func(name string) bool) *ignore.Dir
}

func (w *walk) push(t task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, t)
	w.more.Signal()
}

// take returns a task; ok is false when there will be none.
func (w *walk) take() (t task, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.waiting) == 0 {
		if w.busy == 0 {
			return task{}, false
		}
		w.more.Wait()
	}
	last := len(w.waiting) - 1
	t = w.waiting[last]
	w.waiting[last] = task{}
	w.waiting = w.waiting[:last]
	w.busy++
	return t, true
}

func (w *walk) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	if w.busy == 0 && len(w.waiting) == 0 {
		w.more.Broadcast()
	}
}

func (w *walk) work(ctx context.Context) {
	s := newSearcher(ctx, w.pattern)
	for {
		t, ok := w.take()
		if !ok {
			return
		}
		w.folder(ctx, t, s)
		w.end()
	}
}

func (w *walk) folder(ctx context.Context, t task, s *searcher) {
	const batch = 1024
	f, err := os.Open(t.path)
	if err != nil {
		w.found.failed()
		return
	}
	defer f.Close()
	var rules *ignore.Dir
	for ctx.Err() == nil {
		entries, err := f.ReadDir(batch)
		if rules == nil {
			rules = t.rules(nameTest(entries, len(entries) < batch))
		}
		for _, e := range entries {
			if ctx.Err() != nil {
				return
			}
			w.entry(ctx, t, rules, e, s)
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			w.found.failed()
			return
		}
	}
}

// nameTest returns a function that reports whether a name may be among the
// entries; with all of them at hand it knows.
func nameTest(entries []os.DirEntry, all bool) func(name string) bool {
	return func(name string) bool {
		return !all || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == name })
	}
}

func (w *walk) entry(ctx context.Context, t task, rules *ignore.Dir, e os.DirEntry, s *searcher) {
	name := e.Name()
	if w.leftOut(t, rules, name, e.IsDir()) {
		return
	}
	path := filepath.Join(t.path, name)
	shown := filepath.Join(t.shown, name)
	switch {
	case e.IsDir():
		w.push(task{path: path, shown: shown, below: slashJoin(t.below, name), rules: func(has func(string) bool) *ignore.Dir {
			return rules.Enter(name, has)
		}})
	case e.Type().IsRegular():
		searchFile(ctx, s, w.found, path, shown, false)
	}
}

func slashJoin(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// leftOut reports whether an entry is not searched: include decides about
// files first, then the lists of ignored files, then the dot of a hidden name.
func (w *walk) leftOut(t task, rules *ignore.Dir, name string, dir bool) bool {
	if w.globs != nil {
		switch v := w.globs.Match(slashJoin(t.below, name), dir); {
		case v == ignore.Ignored: // the pattern names it, which here means yes
			return false
		case v == ignore.Included, !dir && !w.globs.OnlyNegated():
			return true
		}
	}
	switch rules.Match(name, dir) {
	case ignore.Ignored:
		return true
	case ignore.Included:
		return false
	}
	return strings.HasPrefix(name, ".")
}

// searchFile adds the file at path to found when it matches. A binary file
// does not match unless the caller named it.
func searchFile(ctx context.Context, s *searcher, found *results, path, shown string, named bool) {
	f, err := openNonblocking(path)
	if err != nil {
		found.failed()
		return
	}
	defer f.Close()
	ok, err := s.matches(ctx, f, named)
	switch {
	case errors.Is(err, errTooLong):
		found.cutOff()
	case err != nil && ctx.Err() == nil:
		found.failed()
	}
	if ok {
		found.add(path, shown)
	}
}
