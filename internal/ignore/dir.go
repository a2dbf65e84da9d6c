package ignore

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A Flavor selects the program whose rules apply.
type Flavor int

const (
	// Git reads .gitignore and .git/info/exclude, even outside a repository.
	Git Flavor = iota
	// Ripgrep reads these in repositories only. It reads .ignore and .rgignore
	// everywhere, and they take precedence. In all of them {a,b} means a or b,
	// and a class can match a slash.
	Ripgrep
)

// A Dir is a folder of a walk, with the patterns that apply to its entries.
// It may be used concurrently.
type Dir struct {
	above  *Dir
	path   string // absolute, slash-separated, without a trailing slash
	flavor Flavor

	repository bool // it contains .git
	inside     bool // it or a folder above it does

	lists [4]*List // by precedence: .rgignore, .ignore, .gitignore, .git/info/exclude
	empty bool     // it has no list and is not a repository
}

// Root returns the folder at path, where a walk starts. The patterns of the
// folders above it apply, too.
func Root(path string, flavor Flavor) *Dir {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	var d *Dir
	for _, p := range ancestors(abs) {
		d = load(d, p, flavor, anyName)
	}
	if flavor == Git && !d.inside {
		d.above = nil // outside a repository, the folders above do not count
	}
	return d
}

// ancestors returns path and the folders above it, the root first.
func ancestors(path string) []string {
	parent := filepath.Dir(path)
	if parent == path {
		return []string{path}
	}
	return append(ancestors(parent), path)
}

// Enter returns the folder name in d. has reports whether a file may exist in
// that folder, which saves opening files that do not; nil means unknown.
func (d *Dir) Enter(name string, has func(name string) bool) *Dir {
	if has == nil {
		has = anyName
	}
	return load(d, filepath.Join(filepath.FromSlash(d.path+"/"), name), d.flavor, has)
}

func anyName(string) bool { return true }

func load(above *Dir, path string, flavor Flavor, has func(name string) bool) *Dir {
	d := &Dir{above: above, path: strings.TrimSuffix(filepath.ToSlash(path), "/"), flavor: flavor}
	for i, name := range []string{".rgignore", ".ignore", ".gitignore"} {
		if has(name) && (flavor == Ripgrep || name == ".gitignore") {
			d.lists[i] = readList(filepath.Join(path, name), flavor)
		}
	}
	if has(".git") {
		d.repository, d.lists[3] = readRepository(filepath.Join(path, ".git"), flavor)
	}
	d.inside = d.repository || above != nil && above.inside
	d.empty = !d.repository && d.lists == [4]*List{}
	return d
}

// readRepository reports whether there is a repository at dotGit, and returns
// its info/exclude.
func readRepository(dotGit string, flavor Flavor) (bool, *List) {
	info, err := os.Lstat(dotGit)
	if err != nil {
		return false, nil
	}
	return true, readList(filepath.Join(commonDir(dotGit, info), "info", "exclude"), flavor)
}

// commonDir returns the repository's common directory: .git itself or, in a
// linked work tree, where .git is a file, the directory that it points to.
func commonDir(dotGit string, info os.FileInfo) string {
	if info.IsDir() {
		return dotGit
	}
	text, err := readSmall(dotGit)
	if err != nil {
		return dotGit
	}
	gitDir := strings.TrimSpace(strings.TrimPrefix(text, "gitdir:"))
	if !filepath.IsAbs(gitDir) {
		gitDir = filepath.Join(filepath.Dir(dotGit), gitDir)
	}
	common, err := readSmall(filepath.Join(gitDir, "commondir"))
	if err != nil {
		return gitDir
	}
	common = strings.TrimSpace(common)
	if !filepath.IsAbs(common) {
		common = filepath.Join(gitDir, common)
	}
	return common
}

func readList(path string, flavor Flavor) *List {
	text, err := readSmall(path)
	if err != nil {
		return nil
	}
	return Parse(text, flavor)
}

// maxList is the maximum size of a file of patterns in bytes. Nobody writes a
// longer one by hand.
const maxList = 8 << 20

// readSmall returns the text of a regular file that is not too long for a list.
func readSmall(path string) (string, error) {
	info, err := os.Stat(path) // a named pipe must not be opened
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", os.ErrInvalid
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxList+1))
	if len(b) > maxList {
		return "", os.ErrInvalid
	}
	return string(b), err
}

// Match returns the verdict on the entry name of d.
func (d *Dir) Match(name string, dir bool) Verdict {
	full := d.path + "/" + name
	git := d.flavor == Git || d.inside
	var verdicts [4]Verdict // of the lists
	for at := d; at != nil; at = at.above {
		if at.empty {
			continue
		}
		path := full[len(at.path)+1:]
		for i, l := range at.lists {
			if l != nil && verdicts[i] == None && (git || i < 2) {
				verdicts[i] = l.Match(path, dir)
			}
		}
		// The folders above a repository do not affect it.
		git = git && !at.repository
	}
	for _, v := range verdicts {
		if v != None {
			return v
		}
	}
	return None
}
