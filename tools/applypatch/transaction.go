package applypatch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"toolgate/tools"
)

// A transaction is a list of actions of which all are done or none. It says
// enough to be taken back, or brought to its end, by another process that
// knows nothing but it and the disk.
//
// New contents are first staged: written beside their file, under a name of
// their own. Then each action is one rename, or where a file keeps its inode
// one rewrite. What was there before stands under the staging name until all
// are done.
type transaction struct {
	Actions []action `json:"actions"`
}

// An action is one change of one path. Paths are absolute.
type action struct {
	Kind  actionKind `json:"kind"`
	Path  string     `json:"path"`
	Stage string     `json:"stage,omitempty"` // where the new file is staged, or the old one kept
	To    string     `json:"to,omitempty"`    // of a rename

	Before fingerprint `json:"before,omitzero"`
	After  fingerprint `json:"after,omitzero"`

	// What follows is known only to the process that made the action.

	written      string      // the path as the patch has it
	info         fs.FileInfo // matches the file before
	old          []byte      // its content, nil when it was not read
	data         []byte      // its new content
	perm         fs.FileMode // the mode of a new file; After.Mode is zero where the umask has a say
	template     string      // the file whose owner and attributes the new one takes; "" for none
	templateInfo fs.FileInfo
	moved        bool // a rename brings the file to Path first
}

// An actionKind is what an action does.
type actionKind string

const (
	makeDir   actionKind = "mkdir"     // make the folder Path
	create    actionKind = "create"    // rename Stage to Path, where nothing is
	replace   actionKind = "replace"   // let Stage and Path trade places
	overwrite actionKind = "overwrite" // rewrite Path in place
	remove    actionKind = "remove"    // rename Path to Stage
	rename    actionKind = "rename"    // rename Path to To
	chmod     actionKind = "chmod"     // change the mode of Path
	removeDir actionKind = "rmdir"     // remove the folder Path if it is empty
)

// rank is the order in which actions are done: names are freed before they are
// taken.
func (k actionKind) rank() int {
	return slices.Index([]actionKind{remove, makeDir, rename, create, replace, overwrite, chmod, removeDir}, k)
}

// A fingerprint tells a file from others. A zero Mode is one that is not known.
type fingerprint struct {
	Sum  string      `json:"sum,omitempty"` // SHA-256 in hex; "" when not known
	Mode fs.FileMode `json:"mode,omitempty"`
	Link string      `json:"link,omitempty"` // where a symbolic link leads
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// A fallbackError says that a change is not possible in the way that was tried,
// though perhaps in another: a file that cannot be replaced can be rewritten,
// one that cannot be renamed can be copied.
type fallbackError struct {
	operation
	err error
}

// A operation is a way not to take.
type operation struct {
	kind actionKind
	path string
}

func (e *fallbackError) Error() string { return e.err.Error() }
func (e *fallbackError) Unwrap() error { return e.err }

// A staleError is a file that changed since it was read.
type staleError struct{ written string }

func (e *staleError) Error() string {
	return e.written + ": something else changed the file while the patch was being applied; read it and resend the patch"
}

// A rollBackError is what could not be taken back.
type rollBackError struct{ why, back error }

func (e *rollBackError) Error() string {
	return fmt.Sprintf("%v; and not all of the patch could be taken back: %v", e.why, e.back)
}

func (e *rollBackError) Unwrap() []error { return []error{e.why, e.back} }

// run does all actions, or takes back those done and returns why. When that
// fails too, the error is a [*rollBackError]. Leftovers are old files that
// could not be removed, though all was done.
func (t *transaction) run(d *disk) (leftovers []string, err error) {
	slices.SortStableFunc(t.Actions, func(a, b action) int { return a.Kind.rank() - b.Kind.rank() })
	err = t.stage(d)
	if err == nil {
		err = t.check()
	}
	for i := 0; i < len(t.Actions) && err == nil; i++ {
		a := &t.Actions[i]
		err = modelError(a.do(d), a.written)
	}
	if err == nil {
		err = syncError(d.sync(existingPaths(t.folders())))
	}
	if err == nil {
		return t.removeStaged(d), nil
	}
	if back := t.rollBack(d, t.content); back != nil {
		err = &rollBackError{err, back}
	}
	return nil, err
}

// modelError returns err in words for the model: with the path as the patch has it,
// and as a denial when it was the sandbox.
func modelError(err error, written string) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*staleError](err); ok {
		return err
	}
	if d, ok := errors.AsType[*fallbackError](err); ok {
		return &fallbackError{d.operation, modelError(d.err, written)}
	}
	denied := tools.AsDenial(err, "write", written)
	if _, ok := errors.AsType[*tools.Denial](denied); ok {
		return denied
	}
	return fmt.Errorf("%s: cannot be written: %w", written, plainError(err))
}

// content returns what has the given sum, old or new.
func (t *transaction) content(sum string) ([]byte, error) {
	for i := range t.Actions {
		if a := &t.Actions[i]; a.Before.Sum == sum && a.old != nil {
			return a.old, nil
		}
		if a := &t.Actions[i]; a.After.Sum == sum && a.data != nil {
			return a.data, nil
		}
	}
	return nil, fs.ErrNotExist
}

// probe fails when a file to change may not be written: one that is read-only
// stays as it is though its folder would let it be replaced.
func (t *transaction) probe() error {
	for i := range t.Actions {
		a := &t.Actions[i]
		if a.moved || a.Kind != replace && a.Kind != overwrite || a.info == nil || !a.info.Mode().IsRegular() {
			continue
		}
		f, err := os.OpenFile(a.Path, os.O_WRONLY, 0)
		if err == nil {
			f.Close()
		} else if !errors.Is(err, syscall.ETXTBSY) {
			return modelError(err, a.written)
		}
	}
	return nil
}

// stage writes every new file under its staging name, down to the disk.
func (t *transaction) stage(d *disk) error {
	var staged []string
	for i := range t.Actions {
		a := &t.Actions[i]
		if a.Kind != create && a.Kind != replace {
			continue
		}
		if err := a.stage(d); err != nil {
			return modelError(err, a.written)
		}
		if a.After.Link == "" {
			staged = append(staged, a.Stage)
		}
	}
	return syncError(d.sync(staged))
}

// syncError returns an error of [disk.sync] in words for the model.
func syncError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the files cannot be brought to the disk: %w", plainError(err))
}

// stage writes the new file of one action.
func (a *action) stage(d *disk) error {
	if a.After.Link != "" {
		return d.symlink(a.After.Link, a.Stage)
	}
	perm := a.perm
	if a.template != "" {
		perm = 0o600 // until it has its owner
	}
	err := d.create(a.Stage, a.data, perm)
	refused := errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
	if err == nil {
		// Whatever keeps the new file from being like the old one, such as an
		// owner that is not known in this user namespace.
		err = a.copyMetadata(d)
		refused = err != nil
	}
	if a.Kind == replace && refused {
		return &fallbackError{operation{replace, a.Path}, err}
	}
	return err
}

// copyMetadata gives the staged file the owner, attributes and mode it shall have.
func (a *action) copyMetadata(d *disk) error {
	if a.template != "" {
		if err := d.copyMetadata(a.Stage, a.template, a.templateInfo, a.Kind == replace); err != nil {
			return err
		}
	}
	if a.After.Mode == 0 {
		return nil
	}
	return d.chmod(a.Stage, a.After.Mode)
}

// check fails when a file is not as it was when it was read.
func (t *transaction) check() error {
	for i := range t.Actions {
		if a := &t.Actions[i]; !a.isFresh() {
			return &staleError{a.written}
		}
	}
	return nil
}

// isFresh reports whether the action finds what it was made for.
func (a *action) isFresh() bool {
	info, err := os.Lstat(a.Path)
	switch {
	case a.Kind == makeDir || a.Kind == removeDir || a.moved:
		return true
	case a.Kind == create:
		return err != nil
	}
	if err != nil || !same(info, a.info) {
		return false
	}
	if a.old == nil || !info.Mode().IsRegular() {
		return true
	}
	now, err := os.ReadFile(a.Path)
	return err == nil && bytes.Equal(now, a.old)
}

// same reports whether nothing about a file changed between two looks.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.Mode() == b.Mode() && a.ModTime().Equal(b.ModTime())
}

// do does one action.
func (a *action) do(d *disk) error {
	switch a.Kind {
	case makeDir:
		if err := d.mkdir(a.Path, 0o777); !isDir(a.Path) {
			return err
		}
		return nil
	case create:
		return d.renameNew(a.Stage, a.Path)
	case replace:
		return a.replace(d)
	case overwrite:
		err := d.overwrite(a.Path, a.data)
		if err == nil && a.After.Mode != a.Before.Mode {
			err = d.chmod(a.Path, a.After.Mode)
		}
		return err
	case remove:
		if err := d.renameNew(a.Path, a.Stage); err != nil {
			return err
		}
		return a.checkDisplaced()
	case rename:
		err := d.renameNew(a.Path, a.To)
		if errors.Is(err, syscall.EXDEV) || errors.Is(err, syscall.EBUSY) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			// Another mount; or refused, and a copy shows for which side.
			return &fallbackError{operation{rename, a.To}, err}
		}
		return err
	case chmod:
		return d.chmod(a.Path, a.After.Mode)
	case removeDir:
		if !isEmptyDir(a.Path) {
			return nil
		}
		return d.remove(a.Path)
	}
	panic("applypatch: action " + string(a.Kind))
}

// replace puts the staged file in the place of the one at Path, which then
// stands under the staging name.
func (a *action) replace(d *disk) error {
	err := d.exchange(a.Stage, a.Path)
	if errors.Is(err, errors.ErrUnsupported) {
		// The old file is lost by this, its content is not.
		return d.rename(a.Stage, a.Path)
	}
	if errors.Is(err, syscall.EBUSY) { // it is a mount point
		return &fallbackError{operation{replace, a.Path}, err}
	}
	if err != nil {
		return err
	}
	return a.checkDisplaced()
}

// checkDisplaced checks that the file taken out of its place is the one that was read,
// and not one that another program put there at the last moment.
func (a *action) checkDisplaced() error {
	info, err := os.Lstat(a.Stage)
	if err != nil {
		return err
	}
	if !same(info, a.info) {
		return &staleError{a.written}
	}
	return nil
}

// removeStaged removes the old files and returns those that it cannot remove.
func (t *transaction) removeStaged(d *disk) (leftovers []string) {
	for i := range t.Actions {
		a := &t.Actions[i]
		if a.Stage == "" || !exists(a.Stage) {
			continue
		}
		if err := d.remove(a.Stage); err != nil {
			leftovers = append(leftovers, a.Stage)
		}
	}
	return leftovers
}

// folders returns the folders whose entries the actions change.
func (t *transaction) folders() []string {
	var paths []string
	for i := range t.Actions {
		a := &t.Actions[i]
		for _, p := range []string{a.Path, a.To, a.Stage} {
			if p != "" {
				paths = append(paths, p)
			}
		}
	}
	return parentsOf(paths)
}

// existingPaths returns those of paths that are there.
func existingPaths(paths []string) []string {
	return slices.DeleteFunc(paths, func(p string) bool {
		_, err := os.Lstat(p)
		return err != nil
	})
}

// done reports whether every action was done.
func (t *transaction) done() bool {
	for i := range t.Actions {
		if !t.Actions[i].done() {
			return false
		}
	}
	return true
}

// done reports, by the disk alone, whether the action was done.
func (a *action) done() bool {
	switch a.Kind {
	case makeDir:
		return exists(a.Path)
	case create:
		return !exists(a.Stage) && a.After.matches(a.Path)
	case replace, overwrite, chmod:
		return a.After.matches(a.Path)
	case remove:
		return !exists(a.Path)
	case rename:
		return !exists(a.Path) && exists(a.To)
	case removeDir:
		return !isEmptyDir(a.Path)
	}
	return false
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// fingerprintOf returns the mark of the file at path, zero when there is none.
func fingerprintOf(path string) fingerprint {
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		target, _ := os.Readlink(path)
		return fingerprint{Link: target}
	}
	if err != nil || !info.Mode().IsRegular() {
		return fingerprint{}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fingerprint{}
	}
	return fingerprint{Sum: sum(data), Mode: info.Mode().Perm()}
}

// matches reports whether the file at path has the mark.
func (m fingerprint) matches(path string) bool {
	have := fingerprintOf(path)
	if m.Mode == 0 {
		have.Mode = 0
	}
	return have == m && have != fingerprint{}
}

// rollBack takes back what was done, as far as the disk shows it was. It
// leaves alone what something else changed since. Content returns what had the
// given sum.
func (t *transaction) rollBack(d *disk, content func(sum string) ([]byte, error)) error {
	var errs []error
	for i := len(t.Actions) - 1; i >= 0; i-- {
		a := &t.Actions[i]
		if err := a.undo(d, content); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", a.Path, err))
		}
	}
	if err := d.sync(existingPaths(t.folders())); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// undo takes one action back.
func (a *action) undo(d *disk, content func(string) ([]byte, error)) error {
	switch a.Kind {
	case makeDir:
		if !exists(a.Path) || !isEmptyDir(a.Path) {
			return nil
		}
		return d.remove(a.Path)
	case create:
		if exists(a.Stage) {
			return d.remove(a.Stage)
		}
		if a.After.matches(a.Path) {
			return d.remove(a.Path)
		}
	case replace:
		return a.undoReplace(d, content)
	case overwrite:
		return a.undoOverwrite(d, content)
	case remove:
		return a.undoRemove(d, content)
	case rename:
		if !exists(a.Path) && exists(a.To) {
			return d.renameNew(a.To, a.Path)
		}
	case chmod:
		if a.After.matches(a.Path) {
			return d.chmod(a.Path, a.Before.Mode)
		}
	case removeDir:
		if !exists(a.Path) {
			return errors.Join(d.mkdir(a.Path, 0o777), d.chmod(a.Path, a.Before.Mode))
		}
	}
	return nil
}

func (a *action) undoReplace(d *disk, content func(string) ([]byte, error)) error {
	staged, placed := exists(a.Stage), a.After.matches(a.Path)
	switch {
	case staged && placed && !a.After.matches(a.Stage):
		// Under the staging name stands what was at Path.
		if err := d.rename(a.Stage, a.Path); err != nil {
			return err
		}
	case staged:
		return d.remove(a.Stage)
	case placed:
		return a.rewrite(d, content)
	}
	return nil
}

func (a *action) undoRemove(d *disk, content func(string) ([]byte, error)) error {
	switch {
	case exists(a.Stage) && !exists(a.Path):
		return d.renameNew(a.Stage, a.Path)
	case exists(a.Stage):
		return fmt.Errorf("something else is there now; what was there is %s", a.Stage)
	case !exists(a.Path) && a.Before.Link != "":
		return d.symlink(a.Before.Link, a.Path)
	case !exists(a.Path) && a.Before.Sum != "":
		old, err := content(a.Before.Sum)
		if err != nil {
			return err
		}
		return errors.Join(d.create(a.Path, old, a.Before.Mode), d.chmod(a.Path, a.Before.Mode))
	}
	return nil
}

// undoOverwrite restores a file that was rewritten in place, wholly or in
// part.
func (a *action) undoOverwrite(d *disk, content func(string) ([]byte, error)) error {
	now, err := os.ReadFile(a.Path)
	if err != nil {
		return err
	}
	old, err := content(a.Before.Sum)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, old) {
		new, err := content(a.After.Sum)
		if err != nil {
			return err
		}
		if !isMixture(now, old, new) {
			return nil // something else wrote it since
		}
		if err := d.overwrite(a.Path, old); err != nil {
			return err
		}
	}
	if m := fingerprintOf(a.Path); m.Mode != a.Before.Mode && m.Mode == a.After.Mode {
		return d.chmod(a.Path, a.Before.Mode)
	}
	return nil
}

// rewrite puts the old content back where the old file is gone.
func (a *action) rewrite(d *disk, content func(string) ([]byte, error)) error {
	old, err := content(a.Before.Sum)
	if err != nil {
		return err
	}
	info, err := os.Lstat(a.Path)
	if err != nil {
		return err
	}
	if err := d.create(a.Stage, old, 0o600); err != nil {
		return err
	}
	if err := d.copyMetadata(a.Stage, a.Path, info, true); err != nil {
		return err
	}
	if err := d.chmod(a.Stage, a.Before.Mode); err != nil {
		return err
	}
	if err := d.sync([]string{a.Stage}); err != nil {
		return err
	}
	return d.rename(a.Stage, a.Path)
}

// isMixture reports whether now can be what a rewrite of old by new left when
// it was cut short: every byte is the one or the other's.
func isMixture(now, old, new []byte) bool {
	if len(now) > max(len(old), len(new)) || len(now) < min(len(old), len(new)) {
		return false
	}
	for i, b := range now {
		if (i >= len(old) || b != old[i]) && (i >= len(new) || b != new[i]) {
			return false
		}
	}
	return true
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isEmptyDir(path string) bool {
	entries, err := os.ReadDir(path)
	return err == nil && len(entries) == 0
}
