package grep

import (
	"container/heap"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// A match is a file that matches.
type match struct {
	path     string
	shown    string // as the model is told
	modified time.Time
}

// before orders matches as they are shown: the newest first, ties by path.
func before(a, b match) int {
	if c := b.modified.Compare(a.modified); c != 0 {
		return c
	}
	return strings.Compare(a.shown, b.shown)
}

// results keeps the newest files of all that are added, in memory that does
// not grow with their number. It may be used concurrently.
type results struct {
	limit int

	mu         sync.Mutex
	kept       oldestFirst
	total      int
	unreadable int
	tooLong    int  // files that were not searched to their end
	stopped    bool // the search ended before everything was searched
}

// add counts the file at path, named shown, and keeps it if it is among the
// newest.
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

// cutOff counts a file that was not searched to its end.
func (r *results) cutOff() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tooLong++
}

func (r *results) newest() []match {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(slices.Values(r.kept), before)
}

// oldestFirst is a heap whose top is shown last.
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
