package grep

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	return cmp.Or(b.modified.Compare(a.modified), strings.Compare(a.shown, b.shown))
}

// results keeps the newest of the added files, at most limit. It may be used
// concurrently.
type results struct {
	limit int

	unreadable atomic.Int64 // files and folders
	tooLong    atomic.Int64 // files that were searched only in part

	mu      sync.Mutex
	kept    []match // the newest, and up to limit others
	total   int
	stopped bool // the search was stopped early
}

// add counts the file at path, and keeps it if it is among the newest. shown is its
// path for the model.
func (r *results) add(path, shown string) {
	var modified time.Time
	if info, err := os.Stat(path); err == nil {
		modified = info.ModTime()
	}
	r.keep(match{path, shown, modified})
}

// keep counts m, and keeps it if it is among the newest.
func (r *results) keep(m match) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total++
	if r.kept = append(r.kept, m); len(r.kept) == 2*r.limit {
		r.trim()
	}
}

// trim sorts the kept files and drops all but the newest.
func (r *results) trim() {
	slices.SortFunc(r.kept, before)
	r.kept = r.kept[:min(len(r.kept), r.limit)]
}

func (r *results) newest() []match {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trim()
	return r.kept
}
