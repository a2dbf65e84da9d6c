package grep

import (
	"container/heap"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// A match is a matching file.
type match struct {
	path     string
	shown    string // path for the model
	modified time.Time
}

// before compares matches in the order of the result: newest first, then by path.
func before(a, b match) int {
	if c := b.modified.Compare(a.modified); c != 0 {
		return c
	}
	return strings.Compare(a.shown, b.shown)
}

// results keeps the newest of the added files, at most limit. It may be used
// concurrently.
type results struct {
	limit int

	mu         sync.Mutex
	kept       oldestFirst
	total      int
	unreadable int
	tooLong    int  // files that were searched only in part
	stopped    bool // the search was stopped early
}

// add counts the file at path, and keeps it if it is among the newest. shown is its
// path for the model.
func (r *results) add(path, shown string) {
	var modified time.Time
	if info, err := os.Stat(path); err == nil {
		modified = info.ModTime()
	}
	m := match{path, shown, modified}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total++
	switch {
	case len(r.kept) < r.limit:
		heap.Push(&r.kept, m)
	case before(m, r.kept[0]) < 0:
		r.kept[0] = m
		heap.Fix(&r.kept, 0)
	}
}

// failed counts a file or folder that could not be read.
func (r *results) failed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unreadable++
}

// incomplete counts a file that was searched only in part.
func (r *results) incomplete() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tooLong++
}

func (r *results) newest() []match {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(slices.Values(r.kept), before)
}

// oldestFirst is a heap with the oldest match at the top.
type oldestFirst []match

func (h oldestFirst) Len() int           { return len(h) }
func (h oldestFirst) Less(i, j int) bool { return before(h[i], h[j]) > 0 }
func (h oldestFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *oldestFirst) Push(x any)        { *h = append(*h, x.(match)) }
func (h *oldestFirst) Pop() any {
	last := len(*h) - 1
	m := (*h)[last]
	*h = (*h)[:last]
	return m
}
