package applypatch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"toolgate/tools"
)

// A transaction is a list of actions that are carried out completely or not at
// all. Another process can complete it or roll it back, given only the
// transaction and the disk.
//
// New contents are staged first: written next to their file under a temporary
// name. Then each action is one rename or, if a file must keep its inode, one
// rewrite. The previous file remains under the staging name until all actions
// are done.
type transaction struct {
	Actions []*action `json:"actions"`
}

// An action is one change of one path. Paths are absolute.
type action struct {
	Kind  actionKind `json:"kind"`
	Path  string     `json:"path"`
	Stage string     `json:"stage,omitempty"` // path of the new file while staged, then of the old one
	To    string     `json:"to,omitempty"`    // new path of a rename

	Before fingerprint `json:"before,omitzero"`
	After  fingerprint `json:"after,omitzero"`

	// The following fields are known only to the process that created the action.

	written  string      // the path as in the patch
	info     fs.FileInfo // of the old file
	old      []byte      // content of the old file, nil if it was not read
	data     []byte      // content of the new file
	perm     fs.FileMode // mode of a new file, subject to the umask if After.Mode is zero
	template string      // file whose owner and attributes the new one gets, "" for none
	moved    bool        // an earlier rename moves the file to Path
}

// An actionKind is the kind of an action.
type actionKind string

const (
	makeDir   actionKind = "mkdir"     // make the folder Path
	create    actionKind = "create"    // rename Stage to Path, which does not exist
	replace   actionKind = "replace"   // exchange Stage and Path
	overwrite actionKind = "overwrite" // rewrite Path in place
	remove    actionKind = "remove"    // rename Path to Stage
	rename    actionKind = "rename"    // rename Path to To
	chmod     actionKind = "chmod"     // change the mode of Path
	removeDir actionKind = "rmdir"     // remove the folder Path if it is empty
)

// rank returns the order of actions: names are freed before they are used.
func (k actionKind) rank() int {
	return slices.Index([]actionKind{remove, makeDir, rename, create, replace, overwrite, chmod, removeDir}, k)
}

// A fingerprint identifies the content and mode of a file. A zero Mode is unknown.
type fingerprint struct {
	Sum  string      `json:"sum,omitempty"` // SHA-256 in hex, "" if unknown
	Mode fs.FileMode `json:"mode,omitempty"`
	Link string      `json:"link,omitempty"` // target of a symbolic link
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// A fallbackError reports an operation that failed but has a fallback: a file that
// cannot be replaced may be rewritten, and one that cannot be renamed may be
// copied.
type fallbackError struct {
	operation
	err error
}

// An operation is a kind of action on a path.
type operation struct {
	kind actionKind
	path string
}

func (e *fallbackError) Error() string { return e.err.Error() }
func (e *fallbackError) Unwrap() error { return e.err }

// staleError returns the error for a file that changed after it was read.
func staleError(written string) error {
	return fmt.Errorf("%s: something else changed the file while the patch was being applied; "+
		"read it and resend the patch", written)
}

// A rollBackError reports a roll back that failed.
type rollBackError struct{ why, back error }

func (e *rollBackError) Error() string {
	return fmt.Sprintf("%v; and not all of the patch could be taken back: %v", e.why, e.back)
}

func (e *rollBackError) Unwrap() []error { return []error{e.why, e.back} }

// run carries out all actions, or rolls back and returns the reason. If the roll
// back fails too, the error is a [*rollBackError]. leftovers are old files that
// could not be removed after all actions were done.
func (t *transaction) run(d *disk) (leftovers []string, err error) {
	slices.SortStableFunc(t.Actions, func(a, b *action) int { return a.Kind.rank() - b.Kind.rank() })
	err = t.stage(d)
	for _, a := range t.Actions {
		if err == nil && !a.isFresh() {
			err = staleError(a.written)
		}
	}
	for _, a := range t.Actions {
		if err == nil {
			err = modelError(a.do(d), a.written)
		}
	}
	if err == nil {
		err = syncError(d.sync(t.folders()))
	}
	if err == nil {
		return t.removeStaged(d), nil
	}
	if back := t.rollBack(d, t.content); back != nil {
		err = &rollBackError{err, back}
	}
	return nil, err
}

// modelError returns an error of the file system for the model: with the path as in the
// patch, and as a denial if the sandbox refused the access.
func modelError(err error, written string) error {
	reason := tools.Reason(err)
	if reason == err {
		return err
	}
	if d, ok := errors.AsType[*fallbackError](err); ok {
		return &fallbackError{d.operation, modelError(d.err, written)}
	}
	if denied := tools.AsDenial(err, "write", written); denied != nil {
		return denied
	}
	return fmt.Errorf("%s: cannot be written: %w", written, reason)
}

// content returns the old or new content with the given hash.
func (t *transaction) content(sum string) ([]byte, error) {
	for _, a := range t.Actions {
		if a.Before.Sum == sum && a.old != nil {
			return a.old, nil
		}
		if a.After.Sum == sum && a.data != nil {
			return a.data, nil
		}
	}
	return nil, fs.ErrNotExist
}

// probe returns an error if a file to change is not writable. A read-only file is
// not changed, even if its folder would allow it to be replaced.
func (t *transaction) probe() error {
	for _, a := range t.Actions {
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

// stage writes and syncs every new file under its staging name.
func (t *transaction) stage(d *disk) error {
	var staged []string
	for _, a := range t.Actions {
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

// syncError returns an error of [disk.sync] for the model.
func syncError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the files cannot be brought to the disk: %w", tools.Reason(err))
}

func (a *action) stage(d *disk) error {
	if a.After.Link != "" {
		return d.symlink(a.After.Link, a.Stage)
	}
	perm := a.perm
	if a.template != "" {
		perm = 0o600 // until its owner is set
	}
	err := d.create(a.Stage, a.data, perm)
	refused := errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
	if err == nil {
		// For example, the owner may be unknown in this user namespace.
		err = a.copyMetadata(d)
		refused = err != nil
	}
	if a.Kind == replace && refused {
		return &fallbackError{operation{replace, a.Path}, err}
	}
	return err
}

func (a *action) copyMetadata(d *disk) error {
	if a.template != "" {
		if err := d.copyMetadata(a.Stage, a.template, a.Kind == replace); err != nil {
			return err
		}
	}
	if a.After.Mode == 0 {
		return nil
	}
	return d.chmod(a.Stage, a.After.Mode)
}

// isFresh reports whether the file is still as it was when the action was created.
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

// same reports whether the file did not change from a to b.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.Mode() == b.Mode() && a.ModTime().Equal(b.ModTime())
}

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
		if isRenameRefused(err) {
			return &fallbackError{operation{rename, a.To}, err}
		}
		return err
	case chmod:
		return d.chmod(a.Path, a.After.Mode)
	case removeDir:
		if isEmptyDir(a.Path) {
			return d.remove(a.Path)
		}
		return nil
	}
	panic("applypatch: action " + string(a.Kind))
}

// isRenameRefused reports whether copying may work instead: the paths are on
// different mounts, or the rename was refused, and a copy shows for which path.
func isRenameRefused(err error) bool {
	return errors.Is(err, syscall.EXDEV) || errors.Is(err, syscall.EBUSY) ||
		errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// replace exchanges the staged file and the one at Path.
func (a *action) replace(d *disk) error {
	err := d.exchange(a.Stage, a.Path)
	if errors.Is(err, errors.ErrUnsupported) {
		// This loses the old file but not its content, which is in the store.
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

// checkDisplaced returns an error if the displaced file is not the one that
// was read, because another program replaced it at the last moment.
func (a *action) checkDisplaced() error {
	info, err := os.Lstat(a.Stage)
	if err == nil && !same(info, a.info) {
		err = staleError(a.written)
	}
	return err
}

// removeStaged removes the files under staging names and returns those that it
// cannot remove.
func (t *transaction) removeStaged(d *disk) (leftovers []string) {
	for _, a := range t.Actions {
		if a.Stage != "" && exists(a.Stage) && d.remove(a.Stage) != nil {
			leftovers = append(leftovers, a.Stage)
		}
	}
	return leftovers
}

// folders returns the existing folders whose entries the actions change.
func (t *transaction) folders() []string {
	folders := map[string]bool{}
	for _, a := range t.Actions {
		for _, p := range []string{a.Path, a.To, a.Stage} {
			if p != "" && exists(filepath.Dir(p)) {
				folders[filepath.Dir(p)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(folders))
}

// done reports whether every action was done.
func (t *transaction) done() bool {
	return !slices.ContainsFunc(t.Actions, func(a *action) bool { return !a.done() })
}

// done reports whether the action was done, judging by the disk alone.
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

// fingerprintOf returns the fingerprint of the file at path, zero if there is none.
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

func (m fingerprint) matches(path string) bool {
	have := fingerprintOf(path)
	if m.Mode == 0 {
		have.Mode = 0
	}
	return have == m && have != fingerprint{}
}

// rollBack undoes the actions that were done, judging by the disk. It does not
// touch files that something else has changed since. content returns the content
// with the given hash.
func (t *transaction) rollBack(d *disk, content func(sum string) ([]byte, error)) error {
	var errs []error
	for _, a := range slices.Backward(t.Actions) {
		if err := a.undo(d, content); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", a.Path, err))
		}
	}
	if err := d.sync(t.folders()); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (a *action) undo(d *disk, content func(string) ([]byte, error)) error {
	switch a.Kind {
	case makeDir:
		if isEmptyDir(a.Path) {
			return d.remove(a.Path)
		}
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
		// The old file is under the staging name.
		return d.rename(a.Stage, a.Path)
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

// undoOverwrite restores a file that was rewritten in place, completely or in
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
			return nil // something else has written it since
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

func (a *action) rewrite(d *disk, content func(string) ([]byte, error)) error {
	old, err := content(a.Before.Sum)
	if err != nil {
		return err
	}
	lost := &action{Kind: replace, Path: a.Path, Stage: a.Stage, After: a.Before, data: old, template: a.Path}
	if err := lost.stage(d); err != nil {
		return err
	}
	if err := d.sync([]string{a.Stage}); err != nil {
		return err
	}
	return d.rename(a.Stage, a.Path)
}

// isMixture reports whether now can be the result of an interrupted rewrite of old
// by new: every byte is from one or the other.
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
