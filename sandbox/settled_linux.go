package sandbox

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// A search takes a while, and whoever may write a root, in a sandbox that
// already runs, can move folders about in it meanwhile, so that one of them is
// in no place where it is looked for. So each folder is looked at again when
// the search has ended: when none has changed since its names were read, then
// at the end of the reading all of it was as it was read.

// A looked is a folder as it was when its names were read.
type looked struct {
	path    string
	file    fileID
	changed unix.Timespec // what nobody can set: its change time
	names   uint64        // sum of the names that count
	deeper  bool
}

// looks are the folders that a search has read.
type looks struct {
	begun time.Time
	list  []looked
}

// A stir is what was changed during a search. The worst counts.
type stir int

const (
	settled stir = iota // nothing
	churned             // one folder, where files come and go
	moved               // what counts, or several folders: one may have gone from there to here and back
)

// tick is longer than the time in which two changes may get the same time
// from a kernel.
const tick = 20 * time.Millisecond

// stirred says what has changed since the folders were read.
func (l *looks) stirred(s *search) stir {
	changed := 0
	for _, d := range l.list {
		var st unix.Stat_t
		if err := unix.Lstat(d.path, &st); err != nil || d.file != (fileID{uint64(st.Dev), st.Ino, st.Mode & unix.S_IFMT}) {
			return moved
		}
		sec, nsec := d.changed.Unix()
		if st.Ctim == d.changed && l.begun.Sub(time.Unix(sec, nsec)) > tick {
			continue
		}
		if _, names := s.read(d.path, d.deeper, nil); names != d.names {
			return moved
		}
		changed++
	}
	return min(stir(changed), moved)
}

// How often a search begins anew when folders are moved, or files changed,
// while it goes on.
const (
	maxMoved   = 9
	maxChurned = 2
)

// settle repeats search until nothing is changed while it goes on. When that
// does not come about, it returns an error where folders were moved, and a
// note where it may have been files only.
func settle(search func() (stir, error)) (note string, err error) {
	for try := 0; ; try++ {
		worst, err := search()
		switch {
		case err != nil || worst == settled:
			return "", err
		case worst == moved && try >= maxMoved:
			return "", errMoving
		case worst == churned && try >= maxChurned:
			return "files were changed while the writable roots were searched: a protected name that was moved at the same time may not be protected", nil
		}
		time.Sleep(tick << min(try, 2))
	}
}

var errMoving = errors.New("folders are moved about in the writable roots while they are searched for protected names; end what does that, and try again")

// nameSum is the sum of an entry, so that those of a folder make the same
// whatever their order is.
func nameSum(name []byte, inode uint64) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	sum := uint64(offset)
	for _, c := range name {
		sum = (sum ^ uint64(c)) * prime
	}
	return (sum ^ inode) * prime
}

// lost notes that the folder at path was named and then not there.
func (l *looks) lost(path string) {
	if l != nil {
		l.list = append(l.list, looked{path: path}) // which is no file
	}
}

// note keeps what the folder fd, at path, is before its names are read, and
// returns where the sum of those belongs.
func (l *looks) note(fd int, path string, deeper bool) *looked {
	var st unix.Stat_t
	if l == nil || unix.Fstat(fd, &st) != nil {
		return &looked{}
	}
	l.list = append(l.list, looked{path: path, file: fileID{uint64(st.Dev), st.Ino, st.Mode & unix.S_IFMT}, changed: st.Ctim, deeper: deeper})
	return &l.list[len(l.list)-1]
}
