package applypatch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A plan is what a patch comes to, worked out in memory: for each file it
// touches how it is and how it shall be.
type plan struct {
	files   map[string]*file // by real path
	order   []string         // of files, as first touched
	summary summary
	faults  []string // everything wrong with the patch, for the model
}

// A file is one path that a patch touches.
type file struct {
	path    string // real, absolute
	written string // as the patch has it
	was     state
	now     state
}

// A state is what is at a path.
type state struct {
	exists bool
	link   string // where a symbolic link leads; "" for a file
	data   []byte
	mode   fs.FileMode
	info   fs.FileInfo // of the file on disk; nil for what the patch makes
	from   string      // the real path whose file this is, "" for a new one
}

// A summary lists what was done in Codex's words.
type summary struct{ added, modified, deleted []string }

func (s summary) String() string {
	var b strings.Builder
	b.WriteString("Success. Updated the following files:")
	for _, l := range []struct {
		letter string
		paths  []string
	}{{"A", s.added}, {"M", s.modified}, {"D", s.deleted}} {
		for _, p := range l.paths {
			b.WriteString("\n" + l.letter + " " + p)
		}
	}
	return b.String()
}

// A PatchError is everything that keeps a patch from being applied.
type PatchError struct{ Faults []string }

func (e *PatchError) Error() string {
	return strings.Join(e.Faults, "\n") + "\nnothing was changed; read the files and resend the whole patch"
}

// makePlan checks all of p against the files and writes nothing.
func makePlan(p *Patch) (*plan, error) {
	pl := &plan{files: map[string]*file{}}
	for i := range p.Ops {
		op := &p.Ops[i]
		if err := pl.apply(op); err != nil {
			pl.faults = append(pl.faults, err.Error())
		}
	}
	if len(pl.faults) > 0 {
		return nil, &PatchError{pl.faults}
	}
	return pl, nil
}

// apply adds one operation to the plan.
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
	f, err := pl.open(op.Path)
	if err != nil {
		return err
	}
	data := newFile(op.Hunks)
	if f.now.exists && !bytes.Equal(f.now.data, data) {
		return fmt.Errorf("%s: the file is there already, with other content; update it, or delete it first in the same patch", op.Path)
	}
	if !f.now.exists {
		f.now = state{exists: true, data: data, mode: 0o666}
		if op.Exec == ExecOn {
			f.now.mode = 0o777
		}
	}
	pl.summary.added = append(pl.summary.added, op.Path)
	return nil
}

func (pl *plan) delete(op *FileOp) error {
	f, err := pl.open(op.Path)
	if err != nil {
		return err
	}
	if !f.now.exists {
		return fmt.Errorf("%s: there is no such file to delete", op.Path)
	}
	f.now = state{}
	pl.summary.deleted = append(pl.summary.deleted, op.Path)
	return nil
}

func (pl *plan) update(op *FileOp) error {
	f, err := pl.open(op.Path)
	if err != nil {
		return err
	}
	if !f.now.exists {
		return fmt.Errorf("%s: there is no such file to update; add it, or correct the path", op.Path)
	}
	now := f.now
	if len(op.Hunks) > 0 {
		if now.data, err = applyHunks(op, now.data); err != nil {
			return err
		}
	}
	now.mode = op.Exec.apply(now.mode)
	if op.MoveTo == "" {
		f.now = now
		pl.summary.modified = append(pl.summary.modified, op.Path)
		return nil
	}
	to, err := pl.open(op.MoveTo)
	if err != nil {
		return err
	}
	if to != f && to.now.exists {
		return fmt.Errorf("%s: cannot move %s there: a file is there already; delete it first in the same patch, or choose another path", op.MoveTo, op.Path)
	}
	if to != f && !op.Copy {
		f.now = state{}
	}
	to.now = now
	pl.summary.modified = append(pl.summary.modified, op.MoveTo)
	return nil
}

// applyHunks returns data with the hunks of op, or an error that tells of each
// hunk that does not fit.
func applyHunks(op *FileOp, data []byte) ([]byte, error) {
	t, err := parseText(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.Path, err)
	}
	edited, _, bad := t.edit(op.Hunks)
	var faults []string
	for _, m := range bad {
		faults = append(faults, t.explain(op.Path, &op.Hunks[m.hunk], m))
	}
	if len(faults) > 0 {
		return nil, errors.New(strings.Join(faults, "\n"))
	}
	out, err := edited.bytes()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.Path, err)
	}
	return out, nil
}

// apply returns mode as the patch wants it: who may read may execute, or none.
func (e Exec) apply(mode fs.FileMode) fs.FileMode {
	switch e {
	case ExecOn:
		return mode | mode&0o444>>2
	case ExecOff:
		return mode &^ 0o111
	}
	return mode
}

// open returns the file at path, read when it is first asked for.
func (pl *plan) open(path string) (*file, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if f, ok := pl.files[abs]; ok {
		return f, nil
	}
	f := &file{path: abs, written: path}
	if err := f.read(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	pl.files[abs] = f
	pl.order = append(pl.order, abs)
	return f, nil
}

// read fills in what is at the path now.
func (f *file) read() error {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return plainError(err)
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file; apply_patch changes files only")
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return plainError(err)
	}
	f.was = state{exists: true, data: data, mode: info.Mode().Perm(), info: info, from: f.path}
	f.now = f.was
	return nil
}

// plainError returns err without the call and the path.
func plainError(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
