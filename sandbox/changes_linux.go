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

// A folderState is a folder as it was when its names were read.
type folderState struct {
	path     string
	file     fileID
	ctime    unix.Timespec // what nobody can set: its change time
	nameHash uint64        // sum of the names that count
	deeper   bool
}

// snapshot are the folders that a search has read.
type snapshot struct {
	started time.Time
	folders []folderState
}

// A scanChange is what was changed during a search. The worst counts.
type scanChange int

const (
	stable   scanChange = iota // nothing
	modified                   // one folder, where files come and go
	moved                      // what counts, or several folders: one may have gone from there to here and back
)

// tick is longer than the time in which two changes may get the same time
// from a kernel.
const tick = 20 * time.Millisecond

// changes says what has changed since the folders were read.
func (l *snapshot) changes(s *search) scanChange {
	changed := 0
	for _, d := range l.folders {
		var st unix.Stat_t
		if err := unix.Lstat(d.path, &st); err != nil || d.file != (fileID{uint64(st.Dev), st.Ino, st.Mode & unix.S_IFMT}) {
			return moved
		}
		sec, nsec := d.ctime.Unix()
		if st.Ctim == d.ctime && l.started.Sub(time.Unix(sec, nsec)) > tick {
			continue
		}
		if _, names := s.read(d.path, d.deeper, nil); names != d.nameHash {
			return moved
		}
		changed++
	}
	return min(scanChange(changed), moved)
}

// How often a search begins anew when folders are moved, or files changed,
// while it goes on.
const (
	maxMovedRetries    = 9
	maxModifiedRetries = 2
)

// scanUntilStable repeats search until nothing is changed while it goes on. When that
// does not come about, it returns an error where folders were moved, and a
// add where it may have been files only.
func scanUntilStable(search func() (scanChange, error)) (note string, err error) {
	for try := 0; ; try++ {
		worst, err := search()
		switch {
		case err != nil || worst == stable:
			return "", err
		case worst == moved && try >= maxMovedRetries:
			return "", errMoving
		case worst == modified && try >= maxModifiedRetries:
			return "files were changed while the writable roots were searched: a protected name that was moved at the same time may not be protected", nil
		}
		time.Sleep(tick << min(try, 2))
	}
}

var errMoving = errors.New("folders are moved about in the writable roots while they are searched for protected names; end what does that, and try again")

// entryHash is the sum of an entry, so that those of a folder make the same
// whatever their order is.
func entryHash(name []byte, inode uint64) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	sum := uint64(offset)
	for _, c := range name {
		sum = (sum ^ uint64(c)) * prime
	}
	return (sum ^ inode) * prime
}

// addMissing notes that the folder at path was named and then not there.
func (l *snapshot) addMissing(path string) {
	if l != nil {
		l.folders = append(l.folders, folderState{path: path}) // which is no file
	}
}

// add keeps what the folder fd, at path, is before its names are read, and
// returns where the sum of those belongs.
func (l *snapshot) add(fd int, path string, deeper bool) *folderState {
	var st unix.Stat_t
	if l == nil || unix.Fstat(fd, &st) != nil {
		return &folderState{}
	}
	l.folders = append(l.folders, folderState{path: path, file: fileID{uint64(st.Dev), st.Ino, st.Mode & unix.S_IFMT}, ctime: st.Ctim, deeper: deeper})
	return &l.folders[len(l.folders)-1]
}
