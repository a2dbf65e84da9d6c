package applypatch

import (
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

// A resolver resolves the paths in a patch.
type resolver struct {
	dir   string   // the working folder, from os.Getwd
	roots []string // real paths of the folders that symbolic links may point into
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

// resolve returns the absolute path of path without symbolic links. If follow is
// set, the last element is resolved too.
//
// If a symbolic link leads out of the roots, the error is a [*tools.Denial] that
// names the target. A path that is written as one outside the roots is no error:
// the user has seen it when approving the patch, and the sandbox confines it.
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
		return "", fmt.Errorf("%s: %w", path, tools.Reason(err))
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
	return "", &tools.Denial{
		Op:   "write",
		Path: real,
		Why:  path + " leads there through a symbolic link, out of the workspace",
	}
}

// followLink returns the target of the symbolic link at path, or path if it is
// not a link.
func followLink(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return path, nil // an error will show when the file is read
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

// realDir returns dir without symbolic links. Elements that do not exist yet are
// kept as they are.
func realDir(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	parent := filepath.Dir(dir)
	if !missing || parent == dir {
		return real, err
	}
	if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", fmt.Errorf("%s is a symbolic link that leads nowhere", filepath.Base(dir))
	}
	parent, err = realDir(parent)
	return filepath.Join(parent, filepath.Base(dir)), err
}

func (r *resolver) inside(real string) bool {
	return slices.ContainsFunc(r.roots, func(root string) bool {
		rel, err := filepath.Rel(root, real)
		return err == nil && filepath.IsLocal(rel)
	})
}
