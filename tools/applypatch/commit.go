package applypatch

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// transaction returns the actions that carry out the plan, without the operations
// in avoid.
func (pl *plan) transaction(avoid map[operation]bool) *transaction {
	b := &builder{plan: pl, avoid: avoid, token: rand.Text()[:12], movedTo: map[string]*file{}, made: map[string]bool{}}
	for _, path := range pl.order {
		f := pl.files[path]
		if from := f.after.from; f.after.exists && from != "" && from != path && b.movedTo[from] == nil {
			b.movedTo[from] = f
		}
	}
	for _, path := range pl.order {
		if f := pl.files[path]; f.changed() {
			b.add(f)
		}
	}
	b.removeDirs()
	return &b.transaction
}

// A builder builds the transaction of a plan.
type builder struct {
	transaction
	plan    *plan
	avoid   map[operation]bool
	token   string
	movedTo map[string]*file // by old path; the first file that it is moved to
	made    map[string]bool  // folders that an action creates
}

func (b *builder) add(f *file) {
	switch {
	case !f.after.exists:
		if !b.renamedAway(f) {
			b.append(f, f, action{Kind: remove, Stage: b.stageFor(f)})
		}
	case f.after.from == f.path:
		b.change(f, false)
	case f.before.exists:
		b.placeNew(f, replace)
	case b.canRename(f):
		b.rename(f)
	default:
		b.makeDirs(filepath.Dir(f.path), f)
		b.placeNew(f, create)
	}
}

// change adds the action that changes the content or mode of the file at f's
// path. If moved is set, an earlier action moves the file there.
func (b *builder) change(f *file, moved bool) {
	origin := b.plan.files[f.after.from]
	// The template is staged before the file is moved.
	a := action{Kind: replace, moved: moved, template: origin.path}
	sameContent := bytes.Equal(origin.before.data, f.after.data)
	switch {
	case sameContent && origin.before.mode == f.after.mode:
		return
	case sameContent:
		a.Kind = chmod
	case links(origin.before.info) > 1 || b.avoid[operation{replace, f.path}]:
		a.Kind = overwrite // a file with several hard links must remain the same file
	default:
		a.Stage = b.stageFor(f)
	}
	b.append(origin, f, a)
}

// placeNew adds the action that puts a new file at f's path.
func (b *builder) placeNew(f *file, kind actionKind) {
	a := action{Kind: kind, Stage: b.stageFor(f), perm: f.after.mode}
	if origin := b.plan.files[f.after.from]; origin != nil && origin.before.info != nil {
		a.template = origin.path
	}
	b.append(f, f, a)
}

// canRename reports whether f is another file of the plan that can be renamed,
// because nothing else needs it at its old path.
func (b *builder) canRename(f *file) bool {
	if f.after.from == "" || b.avoid[operation{rename, f.path}] {
		return false
	}
	origin := b.plan.files[f.after.from]
	if origin.after.exists || strings.HasPrefix(f.path, origin.path+string(filepath.Separator)) {
		return false
	}
	return b.movedTo[origin.path] == f
}

func (b *builder) renamedAway(f *file) bool {
	to := b.movedTo[f.path]
	return to != nil && !to.before.exists && b.canRename(to)
}

func (b *builder) rename(f *file) {
	b.makeDirs(filepath.Dir(f.path), f)
	origin := b.plan.files[f.after.from]
	b.Actions = append(b.Actions, &action{
		Kind: rename, Path: origin.path, To: f.path, written: f.written,
		info: origin.before.info, old: origin.before.data,
		Before: origin.before.fingerprint(), After: origin.before.fingerprint(),
	})
	b.change(f, true)
}

// makeDirs adds actions that create dir, a folder above f, and the folders above it
// unless they exist.
func (b *builder) makeDirs(dir string, f *file) {
	if b.made[dir] || isDir(dir) || dir == filepath.Dir(dir) {
		return
	}
	b.makeDirs(filepath.Dir(dir), f)
	b.made[dir] = true
	b.Actions = append(b.Actions, &action{Kind: makeDir, Path: dir, written: f.written})
}

// removeDirs adds actions that remove the folders that become empty, deepest
// first.
func (b *builder) removeDirs() {
	for _, dir := range slices.Backward(b.plan.emptyDirs) {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			before := fingerprint{Mode: info.Mode().Perm()}
			b.Actions = append(b.Actions, &action{Kind: removeDir, Path: dir, written: dir, Before: before})
		}
	}
}

// append adds an action on f whose content comes from origin.
func (b *builder) append(origin, f *file, a action) {
	a.Path, a.written = f.path, f.written
	a.info, a.data = origin.before.info, f.after.data
	if origin.before.read {
		a.old = origin.before.data
	}
	a.Before, a.After = origin.before.fingerprint(), f.after.fingerprint()
	if f.after.from == "" && !f.after.exact {
		a.After.Mode = 0
	}
	b.Actions = append(b.Actions, &a)
}

func (s *state) fingerprint() fingerprint {
	switch {
	case !s.exists:
		return fingerprint{}
	case s.link != "":
		return fingerprint{Link: s.link}
	case !s.read:
		return fingerprint{Mode: s.mode}
	}
	return fingerprint{Sum: sum(s.data), Mode: s.mode}
}

// stageFor returns a path for the staged file of f, in the nearest folder that
// exists and is not removed.
func (b *builder) stageFor(f *file) string {
	dir := filepath.Dir(f.path)
	for (!isDir(dir) || slices.Contains(b.plan.emptyDirs, dir)) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	base := filepath.Base(f.path)
	return filepath.Join(dir, fmt.Sprintf(".%s.toolgate-%s-%d", base[:min(len(base), 100)], b.token, len(b.Actions)))
}
