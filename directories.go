package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// A directoryError says why a directory that the user named cannot be used.
type directoryError struct {
	what string // what names it, such as -C
	dir  string // as written
	err  error
}

func (e *directoryError) Error() string {
	dir, msg := e.dir, e.err.Error()
	if pathErr, ok := errors.AsType[*fs.PathError](e.err); ok {
		msg = pathErr.Err.Error()
	}
	if errors.Is(e.err, fs.ErrNotExist) {
		msg = "no such directory"
	}
	if dir == "" {
		dir = `""`
	}
	return fmt.Sprintf("%s %s: %s", e.what, dir, msg)
}

func (e *directoryError) Unwrap() error { return e.err }

// hint returns what to do about it, "" when the error says it all.
func (e *directoryError) hint() string {
	if strings.HasPrefix(e.dir, "~") || strings.Contains(e.dir, "$") {
		return "~ and variables are expanded by a shell only; write the full path"
	}
	if cwd, err := os.Getwd(); err == nil && e.dir != "" && !filepath.IsAbs(e.dir) {
		return "relative paths are resolved against " + cwd
	}
	return ""
}

// directory returns the directory that dir leads to, absolute and without
// links. what is the flag or key that names it, for the [*directoryError] when
// it is not there, no directory, or may not be entered.
func directory(what, dir string) (string, error) {
	if dir == "" {
		return "", &directoryError{what, dir, errors.New("the path is empty")}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", &directoryError{what, dir, err}
	}
	info, err := os.Stat(abs + string(filepath.Separator) + ".") // only a directory that may be entered has one
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		return "", &directoryError{what, dir, err}
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", &directoryError{what, dir, err}
	}
	return real, nil
}

// checkDirectories returns what is wrong with the directories in the flags,
// whichever command they are for. It makes those of --add-dir absolute.
func (f *flags) checkDirectories(cmd *cobra.Command) error {
	if cmd.Flags().Changed("cd") {
		if _, err := directory("-C", f.dir); err != nil {
			return err
		}
	}
	return absolute("--add-dir", f.addDirs)
}

// absolute makes the directories that the user named with what absolute.
func absolute(what string, dirs []string) error {
	for i, dir := range dirs {
		if _, err := directory(what, dir); err != nil {
			return err
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		dirs[i] = abs
	}
	return nil
}
