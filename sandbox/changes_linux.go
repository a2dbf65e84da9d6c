package sandbox

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// A search takes a while. Meanwhile, a process in another sandbox that can write
// the root may move a folder from a place not searched yet to one already
// searched, so that the search misses it. So every folder is checked again at the
// end: if none has changed since it was read, the search saw all of them as they
// were at one moment.

// A folderState is the state of a folder when its names were read.
type folderState struct {
	path     string
	file     fileID
	ctime    unix.Timespec // cannot be set by a process
	read     time.Time     // before its names were read
	nameHash uint64        // hash of the entries that the search looks at
	deeper   bool
}

// A snapshot holds the state of the folders that a search has read.
type snapshot struct {
	folders []folderState
}

// A scanChange says what changed during a search. Greater values are worse.
type scanChange int

const (
	stable   scanChange = iota // nothing
	modified                   // one folder, but no relevant entry of it
	moved                      // relevant entries, or several folders: one may have been moved there and back
)

// tick is longer than the granularity of the kernel's timestamps: changes within
// one tick may have the same change time.
const tick = 20 * time.Millisecond

// changes returns what has changed since the folders were read.
func (l *snapshot) changes(s *search) scanChange {
	changed := 0
	for _, d := range l.folders {
		var st unix.Stat_t
		if err := unix.Lstat(d.path, &st); err != nil || d.file != idOf(st) {
			return moved
		}
		sec, nsec := d.ctime.Unix()
		if st.Ctim == d.ctime && d.read.Sub(time.Unix(sec, nsec)) > tick {
			continue
		}
		if _, names, _ := s.read(d.path, d.deeper, nil); names != d.nameHash {
			return moved
		}
		changed++
	}
	return min(scanChange(changed), moved)
}

// How often a search is repeated when folders were moved, or only files changed. The first takes some
// three seconds: other programs that write hundreds of files a second look like it for a while.
const (
	maxMovedRetries    = 40
	maxModifiedRetries = 2
)

// scanUntilStable repeats search until nothing changes during it. If that does not
// happen, it returns an error if folders were moved, and a note if only files may
// have changed.
func scanUntilStable(search scanFunc) (note string, err error) {
	for try := 0; ; try++ {
		worst, err := search()
		switch {
		case err != nil || worst == stable:
			return "", err
		case worst == moved && try >= maxMovedRetries:
			return "", errMoving
		case worst == modified && try >= maxModifiedRetries:
			return "files changed while the writable roots were searched: " +
				"a protected name that was moved at the same time may not be protected", nil
		}
		time.Sleep(tick << min(try, 2))
	}
}

// scanOnce runs search once, for a running sandbox, which is rescanned later anyway.
func scanOnce(search scanFunc) (note string, err error) {
	_, err = search()
	return "", err
}

var errMoving = errors.New("folders in the writable roots are being moved while they are searched for " +
	"protected names; stop the process that does that, and try again")

// entryHash returns the hash of an entry. The hashes of a folder are added up, so
// that their order does not matter.
func entryHash(name []byte, inode uint64) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	sum := uint64(offset)
	for _, c := range name {
		sum = (sum ^ uint64(c)) * prime
	}
	return (sum ^ inode) * prime
}

// addMissing records that the folder at path was listed but could not be opened.
// A nil snapshot records nothing.
func (l *snapshot) addMissing(path string) {
	if l != nil {
		l.folders = append(l.folders, folderState{path: path}) // matches no file
	}
}

// add records the state of the folder fd, at path, before its names are read. The
// caller sets nameHash in the returned state. A nil snapshot records nothing.
func (l *snapshot) add(fd int, path string, deeper bool) *folderState {
	var st unix.Stat_t
	if l == nil || unix.Fstat(fd, &st) != nil {
		return &folderState{}
	}
	l.folders = append(l.folders, folderState{
		path: path, file: idOf(st), ctime: st.Ctim, read: time.Now(), deeper: deeper,
	})
	return &l.folders[len(l.folders)-1]
}
