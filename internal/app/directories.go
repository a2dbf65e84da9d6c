package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A DirectoryError is a directory named by the user that cannot be used.
type DirectoryError struct {
	what string // what names it, such as -C
	dir  string // as written
	err  error
}

func (e *DirectoryError) Error() string {
	msg := e.err.Error()
	if pathErr, ok := errors.AsType[*fs.PathError](e.err); ok {
		msg = pathErr.Err.Error()
	}
	if errors.Is(e.err, fs.ErrNotExist) {
		msg = "no such directory"
	}
	return fmt.Sprintf("%s %s: %s", e.what, cmp.Or(e.dir, `""`), msg)
}

func (e *DirectoryError) Unwrap() error { return e.err }

// Hint returns what to do about it, "" if the error says it all.
func (e *DirectoryError) Hint() string {
	if strings.HasPrefix(e.dir, "~") || strings.Contains(e.dir, "$") {
		return "~ and variables are expanded by a shell only; write the full path"
	}
	if cwd, err := os.Getwd(); err == nil && e.dir != "" && !filepath.IsAbs(e.dir) {
		return "relative paths are resolved against " + cwd
	}
	return ""
}

// Directory returns dir as an absolute path without symlinks. What is the flag or key that names
// it. The error is a [*DirectoryError] if dir does not exist, is not a directory or cannot be
// entered.
func Directory(what, dir string) (string, error) {
	if dir == "" {
		return "", &DirectoryError{what, dir, errors.New("the path is empty")}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", &DirectoryError{what, dir, err}
	}
	info, err := os.Stat(abs + string(filepath.Separator) + ".") // only a directory that may be entered has one
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		return "", &DirectoryError{what, dir, err}
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", &DirectoryError{what, dir, err}
	}
	return real, nil
}
