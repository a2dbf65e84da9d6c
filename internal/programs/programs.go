// Package programs finds and starts the programs that toolgate itself runs outside the
// sandbox, such as hooks, servers and browsers. It never returns a program in a folder
// that sandboxed commands can write to, even if that folder is in PATH.
//
//	f := programs.Finder{Dir: workspace, Writable: []string{workspace, "/tmp"}}
//	cmd, err := f.Command(ctx, "/", os.Environ(), "xdg-open", url)
//	err = cmd.Run()
//
// The check uses paths and symlinks. It does not detect a second mount of a writable
// folder at another path.
package programs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A Finder finds programs. It may be used concurrently.
type Finder struct {
	Dir      string   // base of relative paths
	Writable []string // folders that commands can write to; absolute, without symlinks

	// Kept reports whether a path in a writable folder is read-only all the
	// same. If nil, none is.
	Kept func(path string) bool
}

// A WritableError reports a program that sandboxed commands can write to.
type WritableError struct {
	Name string // as requested
	Path string // the program
}

func (e *WritableError) Error() string {
	if isPath(e.Name) {
		return fmt.Sprintf("%s lies in a folder that commands can write", e.Name)
	}
	return fmt.Sprintf("%s is only at %s, in a folder that commands can write", e.Name, e.Path)
}

// Find returns the absolute path of a program. The name is a path, or is looked up in
// the PATH of env. The error is a *[WritableError] if commands can write to the program.
func (f Finder) Find(name string, env []string) (string, error) {
	if isPath(name) {
		file := f.abs(name)
		if f.CanWrite(file) {
			return "", &WritableError{Name: name, Path: file}
		}
		return file, nil
	}
	writable := ""
	for _, dir := range filepath.SplitList(pathOf(env)) {
		file, err := exec.LookPath(filepath.Join(f.abs(dir), name))
		if err != nil {
			continue
		}
		if filepath.IsAbs(dir) && !f.CanWrite(dir) && !f.CanWrite(file) {
			return file, nil
		}
		writable = cmp.Or(writable, file)
	}
	if writable != "" {
		return "", &WritableError{Name: name, Path: writable}
	}
	return "", fmt.Errorf("%s: program not found in PATH", name)
}

// Command returns the command that runs a program as [Finder.Find] finds it, in the folder
// dir, which must be absolute, and with the environment that [Finder.Env] makes of env.
// It has no standard streams. When ctx ends, the program is killed. Every program that
// the gate runs outside the sandbox is started by it.
func (f Finder) Command(
	ctx context.Context, dir string, env []string, name string, args ...string,
) (*exec.Cmd, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("%s: its working folder %q is not absolute", name, dir)
	}
	path, err := f.Find(name, env)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = dir, f.Env(env)
	return cmd, cmd.Err
}

// Replaceable reports whether commands can write a program, or the one that a name stands for on
// the PATH of env. Folders that commands can write are left out of PATH, unless the
// program is only there.
func (f Finder) Replaceable(name string, env []string) bool {
	if isPath(name) {
		return f.CanWrite(name)
	}
	for _, dir := range filepath.SplitList(f.clean(pathOf(env))) {
		if file, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return f.CanWrite(file)
		}
	}
	_, err := f.Find(name, env)
	_, ok := errors.AsType[*WritableError](err)
	return ok
}

// Env returns env with relative and writable folders removed from PATH.
func (f Finder) Env(env []string) []string {
	clean := make([]string, 0, len(env)+1)
	for _, v := range env {
		key, value, _ := strings.Cut(v, "=")
		if isPathVariable(key) {
			v = key + "=" + f.clean(value)
		}
		clean = append(clean, v)
	}
	if runtime.GOOS == "windows" {
		// Otherwise cmd.exe searches its working folder first.
		clean = append(clean, "NoDefaultCurrentDirectoryInExePath=1")
	}
	return clean
}

// clean removes relative and writable folders from the value of PATH.
func (f Finder) clean(path string) string {
	dirs := slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool {
		return !filepath.IsAbs(dir) || f.CanWrite(dir)
	})
	return strings.Join(dirs, string(os.PathListSeparator))
}

// maxLinks limits the symlinks followed in one path, as on Linux.
const maxLinks = 40

// CanWrite reports whether commands can write to the path or replace what it refers
// to, because a symlink on the way is in a writable folder. It also returns true for
// a path with too many symlinks.
func (f Finder) CanWrite(path string) bool {
	path = f.abs(path)
	at := filepath.VolumeName(path) + string(filepath.Separator)
	rest := parts(path[len(filepath.VolumeName(path)):])
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			if at != f.Dir && f.below(at) { // this folder could be replaced by a symlink
				return true
			}
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks || f.below(next) {
			return true
		}
		if filepath.IsAbs(target) {
			at = filepath.VolumeName(target) + string(filepath.Separator)
		}
		rest = append(parts(target[len(filepath.VolumeName(target)):]), rest...)
	}
	return f.below(at)
}

// below reports whether a path without symlinks is writable.
func (f Finder) below(path string) bool {
	in := slices.ContainsFunc(f.Writable, func(root string) bool {
		rel, err := filepath.Rel(root, path)
		return err == nil && filepath.IsLocal(rel)
	})
	return in && (f.Kept == nil || !f.Kept(path))
}

// abs makes path absolute without cleaning it: after a symlink, ".." means another folder.
func (f Finder) abs(path string) string {
	if !filepath.IsAbs(path) {
		path = f.Dir + string(filepath.Separator) + path
	}
	return path
}

// parts splits a path into names. Unlike [filepath.Clean] it keeps "..", whose meaning
// depends on a symlink before it.
func parts(path string) []string {
	names := strings.Split(filepath.ToSlash(path), "/")
	return slices.DeleteFunc(names, func(name string) bool { return name == "" || name == "." })
}

// isPath reports whether name is a path rather than a name to look up.
func isPath(name string) bool { return filepath.Base(name) != name }

// pathOf returns the value of PATH in env. The last one wins.
func pathOf(env []string) string {
	for _, v := range slices.Backward(env) {
		if key, value, _ := strings.Cut(v, "="); isPathVariable(key) {
			return value
		}
	}
	return ""
}

func isPathVariable(key string) bool {
	return key == "PATH" || runtime.GOOS == "windows" && strings.EqualFold(key, "PATH")
}
