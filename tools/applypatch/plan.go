package applypatch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"toolgate/tools"
)

// A plan is the effect of a patch, computed in memory: the state of each file
// before and after it.
type plan struct {
	resolver  *resolver
	files     map[string]*file // by resolved path
	order     []string         // of files, as first touched
	emptyDirs []string         // folders to remove if they are empty, outermost first
	summary   summary
	notes     []string // for the model, about a patch that was applied
	lost      int      // files of the patch that do not exist
}

// A file is one path that a plan touches.
type file struct {
	path    string // absolute, without symbolic links
	written string // as in the patch
	before  state
	after   state
	edits   []*FileOp // that change the content
	other   bool      // there are others, such as a move
}

// A state is what is at a path. The zero state is no file.
type state struct {
	exists bool
	mode   fs.FileMode
	data   []byte
	read   bool        // data is the content of the file
	link   string      // target of a symbolic link
	info   fs.FileInfo // of the file on disk; nil for a file that the plan creates
	from   string      // the file on disk that becomes this one, "" for a new file
	exact  bool        // the mode is not subject to the umask
}

// A summary lists the paths by what was done to them: 'A' for added, 'M' for modified,
// 'D' for deleted, as Codex does.
type summary map[rune][]string

func (s summary) add(letter rune, path string) { s[letter] = append(s[letter], path) }

func (s summary) String() string {
	return "Success. Updated the following files:\n" + strings.Join(s.items(), "\n")
}

// line returns the summary on one line, for a list of steps.
func (s summary) line() string { return strings.Join(s.items(), ", ") }

func (s summary) items() []string {
	var items []string
	for _, letter := range "AMD" {
		for _, path := range s[letter] {
			items = append(items, string(letter)+" "+path)
		}
	}
	return items
}

// A PatchError lists the reasons why a patch cannot be applied.
type PatchError struct {
	Faults     []string
	Mismatched bool // a hunk does not fit its file
	Applied    bool // every hunk that does not fit is already applied
}

func (e *PatchError) Error() string {
	const most = 24 << 10 // bytes
	var b strings.Builder
	for i, f := range e.Faults {
		if b.Len()+len(f) > most && i > 0 {
			fmt.Fprintf(&b, "and %d more\n", len(e.Faults)-i)
			break
		}
		b.WriteString(f + "\n")
	}
	if e.Applied {
		return b.String() + "nothing was changed; the patch is already applied"
	}
	if e.Mismatched {
		return b.String() + "nothing was changed; read the file again and resend the whole patch"
	}
	return b.String() + "nothing was changed; correct this and resend the whole patch"
}

// makePlan checks all of p against the files. It writes nothing.
func makePlan(p *Patch, at *resolver) (*plan, error) {
	pl := &plan{resolver: at, files: map[string]*file{}, summary: summary{}}
	wrong := PatchError{Applied: true}
	for i := range p.Ops {
		err := pl.apply(&p.Ops[i])
		if d, ok := errors.AsType[*tools.Denial](err); ok {
			return nil, d
		}
		if pe, ok := errors.AsType[*PatchError](err); ok {
			wrong.Mismatched = true
			wrong.Applied = wrong.Applied && pe.Applied
			wrong.Faults = append(wrong.Faults, pe.Faults...)
		} else if err != nil {
			lost, _ := errors.AsType[*tools.Missing](err)
			wrong.Applied = wrong.Applied && lost != nil && lost.What == nothingToDelete
			wrong.Faults = append(wrong.Faults, err.Error())
		}
	}
	if len(wrong.Faults) == 0 {
		wrong.Applied, wrong.Faults = false, slices.Concat(pl.conflicts(), pl.repeatable())
	}
	wrong.Applied = wrong.Applied && wrong.Mismatched && !pl.changesAny()
	if len(wrong.Faults) > 0 {
		return nil, &wrong
	}
	return pl, nil
}

func (pl *plan) changesAny() bool {
	return slices.ContainsFunc(pl.order, func(path string) bool { return pl.files[path].changed() })
}

func (pl *plan) apply(op *FileOp) error {
	switch op.Kind {
	case Add:
		return pl.add(op)
	case Delete:
		return pl.delete(op)
	}
	return pl.update(op)
}

func (pl *plan) add(op *FileOp) error {
	f, err := pl.open(op.Path, true)
	if err != nil {
		return err
	}
	data := newFile(op.Hunks)
	if f.after.exists {
		if err := f.load(); err != nil {
			return err
		}
		if !bytes.Equal(f.after.data, data) {
			return fmt.Errorf("%s: the file exists with other content; write '*** Update File: %s', "+
				"or '*** Delete File: %s' above this", op.Path, op.Path, op.Path)
		}
	} else {
		f.after, f.other = state{exists: true, data: data, read: true, mode: op.Exec.apply(0o666)}, true
	}
	pl.summary.add('A', op.Path)
	return nil
}

const nothingToDelete = "there is no such file to delete"

func (pl *plan) delete(op *FileOp) error {
	f, err := pl.open(op.Path, false)
	if err != nil {
		return err
	}
	if !f.after.exists {
		return pl.missing(op.Path, nothingToDelete, "correct the path or leave it out")
	}
	if len(op.Hunks) > 0 {
		if err := f.checkContent(op); err != nil {
			return err
		}
	}
	f.after, f.other = state{}, true
	pl.summary.add('D', op.Path)
	return nil
}

// checkContent returns an error if the content of a file to delete differs from
// the unified diff.
func (f *file) checkContent(op *FileOp) error {
	if f.after.link != "" {
		return nil // the diff has the target of the link, not the content
	}
	if err := f.load(); err != nil {
		return err
	}
	left, _, err := applyHunks(op, f.after.data)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("%s: the file has more lines than the patch deletes; "+
			"use '*** Delete File: %s', or list all lines", op.Path, op.Path)
	}
	return nil
}

func (pl *plan) update(op *FileOp) error {
	f, err := pl.open(op.Path, true)
	if err != nil {
		return err
	}
	if !f.after.exists {
		if err := pl.checkMoved(op); err != nil {
			return err
		}
		return pl.missing(op.Path, "there is no such file to update",
			"correct the path, or write '*** Add File: "+op.Path+"' with '+' lines")
	}
	if op.MoveTo != "" && !op.Copy {
		if link, err := pl.open(op.Path, false); err == nil && link.after.link != "" {
			return fmt.Errorf("%s: it is a symbolic link; move what it leads to instead", op.Path)
		}
	}
	if err := f.load(); err != nil {
		return err
	}
	now := f.after
	if len(op.Hunks) > 0 {
		var notes []string
		if now.data, notes, err = applyHunks(op, now.data); err != nil {
			return err
		}
		pl.notes = append(pl.notes, notes...)
	}
	now.mode = op.Exec.apply(now.mode)
	if op.MoveTo != "" {
		return pl.move(op, f, now)
	}
	f.after, f.edits = now, append(f.edits, op)
	pl.summary.add('M', op.Path)
	return nil
}

// checkMoved returns a [*PatchError] if op, the source of which does not exist, is a move
// that is already applied.
func (pl *plan) checkMoved(op *FileOp) error {
	if op.MoveTo == "" {
		return nil
	}
	to, err := pl.open(op.MoveTo, true)
	if err != nil || !to.before.exists || to.load() != nil {
		return nil
	}
	if len(op.Hunks) > 0 {
		_, _, err = applyHunks(op, to.after.data)
		if pe, ok := errors.AsType[*PatchError](err); !ok || !pe.Applied {
			return nil
		}
	}
	fault := fmt.Sprintf("%s: it is not there, but %s is as after the move", op.Path, op.MoveTo)
	return &PatchError{Faults: []string{fault}, Mismatched: true, Applied: true}
}

// repeatable returns an error for each file that the patch would change once more if it
// were applied again: then a patch that is already applied could not be recognized.
func (pl *plan) repeatable() []string {
	var faults []string
	for _, path := range pl.order {
		f := pl.files[path]
		if f.other || len(f.edits) == 0 {
			continue
		}
		data, ok := editAgain(f.edits, f.after.data)
		if ok && !bytes.Equal(data, f.after.data) {
			faults = append(faults, fmt.Sprintf("%s: once applied, the patch would fit again, at line %d: "+
				"its place is ambiguous; add lines of context", f.written, firstDifference(data, f.after.data)))
		}
	}
	return faults
}

// editAgain returns data with the hunks of ops applied, if all of them fit.
func editAgain(ops []*FileOp, data []byte) (out []byte, ok bool) {
	for _, op := range ops {
		t, err := parseText(data)
		if err != nil || !t.fitsAll(op.Hunks) {
			return nil, false
		}
		if data, _, err = applyHunks(op, data); err != nil {
			return nil, false
		}
	}
	return data, true
}

// firstDifference returns the number of the first line that differs.
func firstDifference(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return bytes.Count(a[:n], []byte("\n")) + 1
}

// missing returns the error for a file that does not exist. The first of them names what
// may have been meant, for which folders are searched.
func (pl *plan) missing(path, what, hint string) error {
	const most = 5
	if pl.lost++; pl.lost > most {
		return &tools.Missing{Path: path, What: what, Hint: hint}
	}
	return tools.NewMissing(path, false, what, hint)
}

// move puts now, the new state of f, at the path to which op moves f.
func (pl *plan) move(op *FileOp, f *file, now state) error {
	to, err := pl.open(op.MoveTo, true)
	if err != nil {
		return err
	}
	if to != f && to.after.exists {
		return fmt.Errorf("%s: cannot move %s there: a file exists there; "+
			"delete it first in the same patch, or choose another path", op.MoveTo, op.Path)
	}
	if to != f && !op.Copy {
		f.after, f.other = state{}, true
	}
	to.after, to.other = now, true
	pl.summary.add('M', op.MoveTo)
	return nil
}

// conflicts returns the contradictions in the plan: a file where a folder is
// needed, or a file that is changed under two names.
func (pl *plan) conflicts() []string {
	var faults []string
	var linked []*file // changed files with several names
	for _, path := range pl.order {
		f := pl.files[path]
		if !f.changed() || !f.after.exists {
			continue
		}
		if above := pl.fileAbove(path); above != "" {
			faults = append(faults, fmt.Sprintf("%s: %s is a file, not a folder", f.written, above))
		}
		if f.before.info == nil || links(f.before.info) < 2 {
			continue
		}
		for _, g := range linked {
			if os.SameFile(f.before.info, g.before.info) {
				faults = append(faults, fmt.Sprintf("%s: it is the same file as %s (a hard link); "+
					"put all changes under one name", f.written, g.written))
			}
		}
		linked = append(linked, f)
	}
	return faults
}

// fileAbove returns the first of the folders above path that is, or will be,
// a file.
func (pl *plan) fileAbove(path string) string {
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if f, ok := pl.files[dir]; ok {
			if f.after.exists {
				return f.written
			}
			continue
		}
		if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
			return filepath.Base(dir)
		}
	}
	return ""
}

// applyHunks returns data with the hunks of op applied, or a [*PatchError] that
// explains each hunk that does not match.
func applyHunks(op *FileOp, data []byte) (out []byte, notes []string, err error) {
	t, err := parseText(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", op.Path, err)
	}
	if op.Whole {
		whole, err := t.replaced(op)
		if err != nil {
			return nil, nil, err
		}
		op = whole
	}
	edited, places, hunks, notes, bad := t.fit(op)
	if len(bad) > 0 {
		var faults []string
		for _, m := range bad[:min(len(bad), maxExplained)] {
			faults = append(faults, t.explain(op.Path, &hunks[m.hunk], m))
		}
		if more := bad[len(faults):]; len(more) > 0 {
			faults = append(faults, fmt.Sprintf("%s: %d more hunks do not match, from hunk %d on",
				op.Path, len(more), more[0].hunk+1))
		}
		applied := !slices.ContainsFunc(bad, func(m mismatch) bool { return !m.applied })
		return nil, nil, &PatchError{Faults: faults, Mismatched: true, Applied: applied}
	}
	if note, err := t.appended(op); err != nil {
		return nil, nil, err
	} else if note != "" {
		notes = append(notes, note)
	}
	for _, p := range places {
		note, err := t.indentationNote(op.Path, p)
		if err != nil {
			return nil, nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
		if len(p.others) > 0 {
			const format = "note: %s: the lines of a hunk are %s; the change was made at line %d"
			where := occurrences(append([]int{p.start}, p.others...))
			notes = append(notes, fmt.Sprintf(format, op.Path, where, p.start+1))
		}
	}
	if out, err = edited.bytes(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", op.Path, err)
	}
	return out, notes, nil
}

// apply returns mode with the executable bits set for those who may read, or
// cleared for all.
func (e Exec) apply(mode fs.FileMode) fs.FileMode {
	switch e {
	case ExecOn:
		return mode | mode&0o444>>2
	case ExecOff:
		return mode &^ 0o111
	}
	return mode
}

// open returns the file at path. It calls stat on first use. If follow is set, it
// follows a symbolic link, unless the patch has deleted the link before.
func (pl *plan) open(path string, follow bool) (*file, error) {
	real, err := pl.resolver.resolve(path, false)
	if f := pl.files[real]; err == nil && follow && (f == nil || f.after.link != "" || f.before.link == "") {
		real, err = pl.resolver.resolve(path, true)
	}
	if err != nil {
		return nil, err
	}
	if f, ok := pl.files[real]; ok {
		return f, nil
	}
	f := &file{path: real, written: path}
	if err := f.stat(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	pl.files[real] = f
	pl.order = append(pl.order, real)
	return f, nil
}

// stat sets the state of the file without reading its content.
func (f *file) stat() error {
	info, err := os.Lstat(f.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return f.readError(err)
	}
	f.before = state{exists: true, mode: info.Mode().Perm(), info: info, from: f.path}
	switch {
	case info.IsDir():
		return errors.New("it is a folder; only files can be changed")
	case info.Mode()&fs.ModeSymlink != 0:
		if f.before.link, err = os.Readlink(f.path); err != nil {
			return tools.Reason(err)
		}
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file; only files can be changed")
	}
	f.after = f.before
	return nil
}

// readError returns err as a denial if the sandbox refused the access.
func (f *file) readError(err error) error {
	if denied := tools.AsDenial(err, "read", f.written); denied != nil {
		return denied
	}
	return fmt.Errorf("cannot be read: %w", tools.Reason(err))
}

// load reads the content of the file, once.
func (f *file) load() error {
	if f.after.read {
		return nil
	}
	const most = 512 << 20 // bytes
	if size := f.before.info.Size(); size > most {
		return fmt.Errorf("%s: it is %d MB large; files up to %d MB can be edited, use the shell",
			f.written, size>>20, most>>20)
	}
	data, err := os.ReadFile(f.after.from)
	if err != nil {
		return fmt.Errorf("%s: %w", f.written, f.readError(err))
	}
	f.after.data, f.after.read = data, true
	if f.before.from == f.after.from {
		f.before.data, f.before.read = data, true
	}
	return nil
}

func (f *file) changed() bool {
	b, a := &f.before, &f.after
	if b.exists != a.exists || b.mode != a.mode || b.link != a.link || b.from != a.from {
		return true
	}
	return b.read && !bytes.Equal(b.data, a.data)
}
