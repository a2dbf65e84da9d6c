package shell

import (
	"os"
	"sync/atomic"
)

// A spool is a file with a command's whole output, up to a limit.
type spool struct {
	f     *os.File
	limit int64
	quota *quota
	kept  int64 // the first kept bytes of the output are in f
	full  bool  // nothing more is taken
	named bool  // it has to be removed
}

// An quota is what all spools together may still take.
type quota struct{ left atomic.Int64 }

// take takes up to n bytes and returns how many there were.
func (a *quota) take(n int64) int64 {
	if short := a.left.Add(-n); short < 0 {
		back := min(-short, n)
		a.left.Add(back)
		n -= back
	}
	return n
}

const (
	// spaceCheckInterval is how often the room on the disk is looked at, in bytes
	// written.
	spaceCheckInterval = 64 << 20

	// minFreeSpace is how many bytes of the disk are left to others.
	minFreeSpace = 1 << 30
)

// newSpool makes a file in folder that nobody else can read and that takes
// limit bytes, as long as there is something left of all. Where the system
// allows it the file has no name from the beginning and is gone with this
// process, however that ends.
func newSpool(folder string, limit int64, all *quota) (*spool, error) {
	f, err := os.CreateTemp(folder, "toolgate-output-")
	if err != nil {
		return nil, err
	}
	named := os.Remove(f.Name()) != nil
	return &spool{f: f, limit: limit, quota: all, named: named}, nil
}

// memoryLimit is how much of one output is kept in memory where no file can be
// made.
const memoryLimit = 4 << 20

// newMemorySpool is [newSpool] for where nothing can be written, such as in a
// sandbox that only reads.
func newMemorySpool(limit int64, all *quota) (*spool, error) {
	f, err := memoryFile()
	if err != nil {
		return nil, err
	}
	return &spool{f: f, limit: min(limit, memoryLimit), quota: all}, nil
}

// write appends p, as far as there is room. What does not fit is dropped, and
// everything after it, so that what is kept has no holes.
func (s *spool) write(p []byte) {
	if s.full {
		return
	}
	if s.kept%spaceCheckInterval+int64(len(p)) >= spaceCheckInterval && s.kept > 0 && !hasDiskSpace(s.f) {
		s.full = true
		return
	}
	wanted := int64(len(p))
	room := s.quota.take(min(wanted, s.limit-s.kept))
	n, err := s.f.Write(p[:room])
	s.kept += int64(n)
	s.quota.left.Add(room - int64(n))
	s.full = err != nil || int64(n) < wanted
}

// read returns the bytes from..to, or what is kept of them.
func (s *spool) read(from, to int64) []byte {
	to = min(to, s.kept)
	if from >= to {
		return nil
	}
	b := make([]byte, to-from)
	n, _ := s.f.ReadAt(b, from)
	return b[:n]
}

func (s *spool) remove() {
	s.quota.left.Add(s.kept)
	s.f.Close()
	if s.named {
		os.Remove(s.f.Name())
	}
}
