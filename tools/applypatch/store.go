package applypatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// A store records the steps of a session: the pending one, so that it can be
// rolled back after a crash; the completed ones, so that they can be undone; and
// the original state of each file.
//
//	00000007          a completed step: length of the JSON, JSON, file contents
//	00000007.pending  a pending step in the same format
//	base              the states of files before the steps that were pruned
//	base-SUM          a content that base refers to
type store struct {
	folder
	maxBytes int64 // maximum size
	maxSteps int   // maximum number of steps
}

const (
	pendingSuffix = ".pending"
	baseName      = "base"
)

const (
	maxSteps       = 200
	maxDiskBytes   = 256 << 20 // maximum size of a store on disk
	maxMemoryBytes = 64 << 20  // maximum size of a store in memory
	maxBlob        = 64 << 20  // maximum size of an old content to keep
	maxNewBlob     = 1 << 20   // the same for a new content, which is only used to show later changes
)

// newStore returns the store in dir, or one in memory if dir is empty.
func newStore(dir string, d *disk) *store {
	if dir == "" {
		return &store{memoryFolder{}, maxMemoryBytes, maxSteps}
	}
	return &store{&diskFolder{dir, d}, maxDiskBytes, maxSteps}
}

// A step is a set of changes that are made together.
type step struct {
	ID      int             `json:"id"`
	Undoes  int             `json:"undoes,omitempty"`  // the step that this one undoes
	Summary string          `json:"summary,omitempty"` // such as "A a.txt, M b.txt"
	Changes []change        `json:"changes"`
	Dirs    []string        `json:"dirs,omitempty"` // the folders it created, outermost first
	Work    *transaction    `json:"work,omitempty"`
	Blobs   map[string]span `json:"blobs,omitempty"` // by hash; offsets are from the start of the contents

	file     string // it was read from this file
	contents int64  // offset of the contents in file
}

// A span is a part of a file.
type span struct{ Off, Len int64 }

// A change is one path of a step.
type change struct {
	Path    string   `json:"path"`
	Written string   `json:"written"`
	Before  snapshot `json:"before"`
	After   snapshot `json:"after"`
}

// A snapshot is the recorded state of a file.
type snapshot struct {
	Exists bool   `json:"exists,omitempty"`
	Lost   bool   `json:"lost,omitempty"` // its content was too large to keep
	From   string `json:"from,omitempty"` // the path it was moved from
	fingerprint
}

func stepName(id int) string    { return fmt.Sprintf("%08d", id) }
func pendingName(id int) string { return stepName(id) + pendingSuffix }

// The format of the length that precedes a step's JSON.
const (
	lengthForm = "%015d\n"
	lengthSize = 16
)

// begin records st as pending, with the contents that it refers to.
func (s *store) begin(st *step, blobs map[string][]byte) error {
	var contents []byte
	st.Blobs = map[string]span{}
	for name, blob := range blobs {
		st.Blobs[name] = span{int64(len(contents)), int64(len(blob))}
		contents = append(contents, blob...)
	}
	record, err := json.Marshal(st)
	if err != nil {
		return err
	}
	length := fmt.Appendf(nil, lengthForm, len(record))
	return s.write(pendingName(st.ID), slices.Concat(length, record, contents))
}

// commit records st as completed.
func (s *store) commit(st *step) error { return s.rename(pendingName(st.ID), stepName(st.ID)) }

// abandon removes a step that was rolled back.
func (s *store) abandon(st *step) error { return s.remove(pendingName(st.ID)) }

// content returns the content with the given hash in step st.
func (s *store) content(st *step, sum string) ([]byte, error) {
	at, ok := st.Blobs[sum]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return s.read(st.file, st.contents+at.Off, at.Len)
}

// ids returns the ids of the completed and the pending steps, oldest first.
func (s *store) ids() (done, pending []int, err error) {
	sizes, err := s.sizes()
	for name := range sizes {
		id, isPending := strings.CutSuffix(name, pendingSuffix)
		n, err := strconv.Atoi(id)
		switch {
		case err != nil:
		case isPending:
			pending = append(pending, n)
		default:
			done = append(done, n)
		}
	}
	slices.Sort(done)
	slices.Sort(pending)
	return done, pending, err
}

func (s *store) load(name string) (*step, error) {
	st := &step{file: name}
	head, err := s.read(name, 0, lengthSize)
	if err != nil {
		return nil, err
	}
	length, err := strconv.ParseInt(strings.TrimSpace(string(head)), 10, 64)
	if err == nil {
		head, err = s.read(name, lengthSize, length)
	}
	if err == nil {
		err = json.Unmarshal(head, st)
	}
	if err != nil {
		return nil, fmt.Errorf("the record of changes: %s: %w", name, err)
	}
	st.contents = lengthSize + length
	return st, nil
}

// list returns the completed steps, oldest first.
func (s *store) list() ([]*step, error) {
	ids, _, err := s.ids()
	if err != nil {
		return nil, err
	}
	var steps []*step
	for _, id := range ids {
		st, err := s.load(stepName(id))
		if err != nil {
			return nil, err
		}
		steps = append(steps, st)
	}
	return steps, nil
}

func (s *store) nextID() (int, error) {
	done, pending, err := s.ids()
	return slices.Max(slices.Concat(done, pending, []int{0})) + 1, err
}

// A base is the state of a file before the first step that changed it.
type base struct {
	change
	content func() ([]byte, error)
}

// bases returns the base of each path that any step changed.
func (s *store) bases() (map[string]base, error) {
	forgotten, err := s.forgotten()
	if err != nil {
		return nil, err
	}
	bases := map[string]base{}
	for path, c := range forgotten {
		bases[path] = base{c, func() ([]byte, error) { return s.read(baseName+"-"+c.Before.Sum, 0, -1) }}
	}
	steps, err := s.list()
	for _, st := range steps {
		for _, c := range st.Changes {
			if _, ok := bases[c.Path]; !ok {
				bases[c.Path] = base{c, func() ([]byte, error) { return s.content(st, c.Before.Sum) }}
			}
		}
	}
	return bases, err
}

// forgotten returns the first change to each file by steps that were pruned.
func (s *store) forgotten() (map[string]change, error) {
	changes := map[string]change{}
	data, err := s.read(baseName, 0, -1)
	if errors.Is(err, fs.ErrNotExist) {
		return changes, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &changes); err != nil {
		return nil, fmt.Errorf("the record of changes: %s: %w", baseName, err)
	}
	return changes, nil
}

// prune removes the oldest steps that exceed the limits, and temporary files of
// processes that crashed.
func (s *store) prune() error {
	sizes, err := s.sizes()
	if err != nil {
		return err
	}
	for name := range sizes {
		if strings.HasSuffix(name, tmpSuffix) {
			if err := s.remove(name); err != nil {
				return err
			}
		}
	}
	done, _, err := s.ids()
	for ; err == nil && len(done) > 1; done = done[1:] {
		if sizes, err = s.sizes(); err != nil {
			return err
		}
		var total int64
		for _, size := range sizes {
			total += size
		}
		if len(done) <= s.maxSteps && total <= s.maxBytes {
			return nil
		}
		err = s.forget(done[0], sizes)
	}
	return err
}

// forget removes a step. It keeps the original state of the files that this step
// was the first to change. sizes are those of the files in the store.
func (s *store) forget(id int, sizes map[string]int64) error {
	st, err := s.load(stepName(id))
	if err != nil {
		return err
	}
	bases, err := s.forgotten()
	if err != nil {
		return err
	}
	for _, c := range st.Changes {
		if _, ok := bases[c.Path]; ok {
			continue
		}
		if err := s.keepBase(st, &c, sizes); err != nil {
			return err
		}
		bases[c.Path] = c
	}
	data, err := json.Marshal(bases)
	if err != nil {
		return err
	}
	if err := s.write(baseName, data); err != nil {
		return err
	}
	return s.remove(stepName(id))
}

// keepBase keeps the content before c, provided that bases take up at most half
// of the store.
func (s *store) keepBase(st *step, c *change, sizes map[string]int64) error {
	name := baseName + "-" + c.Before.Sum
	if _, ok := sizes[name]; ok || c.Before.Sum == "" {
		return nil
	}
	var used int64
	for n, size := range sizes {
		if strings.HasPrefix(n, baseName) {
			used += size
		}
	}
	data, err := s.content(st, c.Before.Sum)
	if err != nil || used+int64(len(data)) > s.maxBytes/2 {
		c.Before.Lost, c.Before.Sum = true, ""
		return nil
	}
	sizes[name] = int64(len(data))
	return s.write(name, data)
}
