package grep

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"toolgate/tools/ignore"
)

// searchOurselves finds the files without ripgrep.
func searchOurselves(ctx context.Context, q query, folder bool, limit int) (*results, error) {
	found := &results{limit: limit}
	root := q.path
	if root == "" {
		root = "."
	}
	if !folder {
		s := newSearcher(q.pattern)
		s.file(ctx, found, root, root, true)
		return found, ended(ctx, found)
	}
	w := &walk{query: q, found: found}
	w.more = sync.NewCond(&w.mu)
	w.push(task{path: root, shown: q.path, rules: ignore.Root(root, ignore.Ripgrep)})
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() { w.work(ctx) })
	}
	wg.Wait()
	return found, ended(ctx, found)
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
	below string // path below the root, with slashes
	rules *ignore.Dir
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
	s := newSearcher(w.pattern)
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
	f, err := os.Open(t.path)
	if err != nil {
		w.found.failed()
		return
	}
	defer f.Close()
	for ctx.Err() == nil {
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			if ctx.Err() != nil {
				return
			}
			w.entry(ctx, t, e, s)
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

func (w *walk) entry(ctx context.Context, t task, e os.DirEntry, s *searcher) {
	name := e.Name()
	below := name
	if t.below != "" {
		below = t.below + "/" + name
	}
	if w.leftOut(t, name, below, e.IsDir()) {
		return
	}
	path := filepath.Join(t.path, name)
	shown := path
	if t.shown == "" {
		shown = name
	} else {
		shown = filepath.Join(t.shown, name)
	}
	switch {
	case e.IsDir():
		w.push(task{path: path, shown: shown, below: below, rules: t.rules.Enter(name)})
	case e.Type().IsRegular():
		s.file(ctx, w.found, path, shown, false)
	}
}

// leftOut reports whether an entry is not searched: include decides about
// files first, then the lists of ignored files, then the dot of a hidden name.
func (w *walk) leftOut(t task, name, below string, dir bool) bool {
	if w.globs != nil {
		switch v := w.globs.Match(below, dir); {
		case v == ignore.Ignored: // the pattern names it, which here means yes
			return false
		case v == ignore.Included, !dir:
			return true
		}
	}
	switch t.rules.Match(name, dir) {
	case ignore.Ignored:
		return true
	case ignore.Included:
		return false
	}
	return strings.HasPrefix(name, ".")
}
