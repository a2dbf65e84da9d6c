package applypatch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"toolgate/tools"
)

// A resolver finds the file that a path of a patch means.
type resolver struct {
	dir   string   // the working folder, as the system names it
	roots []string // real paths of the folders into which symbolic links may lead
}

func newResolver(roots []string) (*resolver, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("finding the workspace: %w", err)
	}
	r := &resolver{dir: dir}
	for _, root := range append([]string{dir}, roots...) {
		real, err := filepath.EvalSymlinks(root)
		if err == nil {
			r.roots = append(r.roots, real)
		}
	}
	return r, nil
}

// resolve returns the absolute path, without symbolic links, of what path
// means. The last name is followed too when follow is set.
//
// A path that leaves the roots by a symbolic link is a [*tools.Denial] that
// names where it leads. One that leaves them as written is not: whoever
// approved it has seen it, and the sandbox confines it.
func (r *resolver) resolve(path string, follow bool) (string, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("%q is no path", path)
	}
	if last := path[len(path)-1]; last == '/' || os.IsPathSeparator(last) {
		return "", fmt.Errorf("%s: it names a folder; give the path of a file", path)
	}
	lexical := path
	if !filepath.IsAbs(lexical) {
		lexical = filepath.Join(r.dir, path)
	}
	lexical = filepath.Clean(lexical)
	parent, err := realDir(filepath.Dir(lexical))
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, plainError(err))
	}
	real := filepath.Join(parent, filepath.Base(lexical))
	if follow {
		if real, err = followLink(real); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
	}
	if real == lexical || r.inside(real) {
		return real, nil
	}
	return "", &tools.Denial{Op: "write", Path: real, Why: path + " leads there through a symbolic link, out of the workspace"}
}

// followLink returns what the symbolic link at path leads to, or path.
func followLink(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return path, nil // what is wrong with it shows when it is read
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("it is a symbolic link that leads nowhere; delete it first")
	}
	if err != nil {
		return "", errors.New("it is a symbolic link that cannot be followed; delete it first")
	}
	return real, nil
}

// realDir returns dir without symbolic links. What of it is not there yet
// stays as it is.
func realDir(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	notThere := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	parent := filepath.Dir(dir)
	if !notThere || parent == dir {
		return real, err
	}
	if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", fmt.Errorf("%s is a symbolic link that leads nowhere", filepath.Base(dir))
	}
	parent, err = realDir(parent)
	return filepath.Join(parent, filepath.Base(dir)), err
}

// inside reports whether real is in one of the roots.
func (r *resolver) inside(real string) bool {
	for _, root := range r.roots {
		rel, err := filepath.Rel(root, real)
		if err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}
