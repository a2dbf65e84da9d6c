package shell

import (
	"os"
	"sync/atomic"
)

// A spool is a file with the output of a command, up to a limit.
type spool struct {
	f     *os.File
	limit int64
	quota *quota
	kept  int64 // size of f
	full  bool  // nothing more is written
	named bool  // f must be removed
}

// A quota is the number of bytes that all spools together may still use.
type quota struct{ left atomic.Int64 }

// take takes up to n bytes and returns the number taken.
func (a *quota) take(n int64) int64 {
	if short := a.left.Add(-n); short < 0 {
		back := min(-short, n)
		a.left.Add(back)
		n -= back
	}
	return n
}

const (
	// maxSpool is the maximum size of the output kept for one command, in bytes.
	// maxMemorySpool is the same in memory, where no file can be created.
	maxSpool       = 2 << 30
	maxMemorySpool = 4 << 20

	// maxSpools is the maximum size of the output kept for all commands together.
	maxSpools = 8 << 30

	// spaceCheckInterval is the number of bytes written between checks of the disk
	// space.
	spaceCheckInterval = 64 << 20

	// minFreeSpace is the number of bytes on the disk to keep free.
	minFreeSpace = 1 << 30
)

// newSpool creates a file in folder that only this user can read, or in the system's
// temporary folder if that is "". It takes up to limit bytes, within the quota. Where
// possible, the name of the file is removed at once, so that commands cannot find it and
// it disappears with this process.
func newSpool(folder string, limit int64, all *quota) (*spool, error) {
	f, err := os.CreateTemp(folder, "toolgate-output-")
	if err != nil {
		return nil, err
	}
	named := os.Remove(f.Name()) != nil
	return &spool{f: f, limit: limit, quota: all, named: named}, nil
}

// write appends as much of p as fits. The rest and everything after it are dropped,
// so that the file has no gaps.
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

// read returns the bytes from..to, as far as they are kept.
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
