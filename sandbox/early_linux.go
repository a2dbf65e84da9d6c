package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// A folder such as /tmp holds hundreds of others, and to look into each takes
// as long as everything else of a sandbox. So the starting process does that
// while the first process of the sandbox starts. Nothing is lost by it: others
// change a shared root at any time, and what was found is opened as what it
// was then, or the search begins anew in there.

// finds are what a search found.
type finds struct {
	Found []made   `json:"found,omitempty"`
	Notes []string `json:"notes,omitempty"`
	// None says that there was no search, or one that could not read a folder
	// which the first process, with its capabilities, may be able to read.
	None bool `json:"none,omitempty"`
}

func (f *finds) carvings() []carving {
	var list []carving
	for _, one := range f.Found {
		list = append(list, carving{path: one.Path, kind: one.Kind, file: one.File, tree: -1})
	}
	return list
}

// searchesShared reports whether there is something to search early.
func (p Plan) searchesShared() bool {
	return len(p.Profile.SharedRoots) > 0 && len(p.Profile.ReadOnlySubpaths) > 0
}

// searchShared is what [searchRoots] does in the shared roots.
func searchShared(plan Plan) finds {
	roots, err := realRoots(plan.Profile.WritableRoots)
	if err != nil {
		return finds{None: true} // it is said in there
	}
	shared := realNames(plan.Profile.SharedRoots)
	s := newSearch(roots, splitPatterns(plan.Profile.ReadOnlySubpaths))
	s.each(func(root string) {
		if slices.Contains(shared, root) {
			s.shared(root)
		}
	})
	if s.closed {
		return finds{None: true}
	}
	return finds{Found: madeOf(s.found), Notes: s.notes}
}

// isOurs reports whether the folder at path belongs to this user, who can make
// it readable at any time.
func isOurs(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) != nil || int(st.Uid) == os.Geteuid()
}

// writeMessage sends v as JSON, with its length before it.
func writeMessage(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// readMessage reads what writeMessage sent into v, and nothing after it.
func readMessage(r io.Reader, v any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	text := make([]byte, binary.LittleEndian.Uint32(size[:]))
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}
