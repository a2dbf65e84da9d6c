package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolgate/internal/filelock"
	"toolgate/policy"
	"toolgate/sandbox"
)

// slashTmp is the folder that [policy.Policy.TempDir] replaces.
const slashTmp = "/tmp"

// lockSuffix ends the name of the file that is locked as long as the private /tmp of that name is used.
const lockSuffix = ".lock"

// MakePrivateTmp gives commands a /tmp of their own if the settings say so. Remove deletes it with
// everything in it, once no command runs any more. It does nothing where /tmp is not writable, was
// named as a writable folder, or cannot be replaced because nothing is confined.
func (s *Settings) MakePrivateTmp() (remove func(), err error) {
	pol := s.Policy
	if !s.privateTmp || pol.Mode != policy.WorkspaceWrite || !slices.Contains(pol.SharedRoots, slashTmp) {
		return func() {}, nil
	}
	dir, err := filepath.EvalSymlinks(s.WorkDir) // made by Load
	if err != nil {
		return nil, fmt.Errorf("private /tmp: %w", err)
	}
	dir = filepath.Join(dir, "tmp")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("private /tmp: %w", err)
	}
	removeAbandoned(dir)
	own, lock, err := newTmp(dir)
	if err != nil {
		return nil, fmt.Errorf("private /tmp: %w", err)
	}
	pol.TempDir = own
	return func() {
		if err := removeTmp(own, lock); err != nil {
			s.Log.Warn("removing a private /tmp", "err", err)
		}
	}, nil
}

// newTmp makes a private /tmp in dir. The lock is held before there is a folder: one that another process
// takes for abandoned before it is held costs another attempt, and nothing else.
func newTmp(dir string) (own string, lock *os.File, err error) {
	for range 10 {
		if lock, err = os.CreateTemp(dir, "*"+lockSuffix); err != nil {
			return "", nil, err
		}
		if err = lockTmp(lock); err == nil {
			break
		}
		os.Remove(lock.Name())
		lock.Close()
	}
	if err != nil {
		return "", nil, err
	}
	own = strings.TrimSuffix(lock.Name(), lockSuffix)
	if err := os.Mkdir(own, 0o700); err != nil {
		return "", nil, errors.Join(err, removeTmp(own, lock))
	}
	return own, lock, nil
}

// lockTmp locks the lock file of a private /tmp, and fails if the file has been removed. It waits no longer
// than for another process that looks whether the folder is abandoned.
func lockTmp(f *os.File) error {
	if err := filelock.Lock(context.Background(), f, time.Millisecond); err != nil {
		return err
	}
	locked, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := os.Lstat(f.Name())
	if err == nil && !os.SameFile(locked, named) {
		err = fmt.Errorf("%s was replaced", f.Name())
	}
	return err
}

// removeTmp removes a private /tmp. It follows no symlink in it.
func removeTmp(dir string, lock *os.File) error {
	return errors.Join(os.RemoveAll(dir), os.Remove(lock.Name()), lock.Close())
}

// removeAbandoned removes the folders in dir whose process was killed.
func removeAbandoned(dir string) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+lockSuffix))
	if err != nil {
		return // not a pattern
	}
	for _, name := range names {
		lock, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue // removed by another process meanwhile
		}
		if lockTmp(lock) != nil {
			lock.Close()
			continue
		}
		removeTmp(strings.TrimSuffix(name, lockSuffix), lock)
	}
}

// TmpEnv returns environ with TMPDIR set to the private /tmp of plan, if it has one.
func TmpEnv(environ []string, plan sandbox.Plan) []string {
	dir := plan.TempDir()
	if dir == "" {
		return environ
	}
	others := slices.DeleteFunc(slices.Clone(environ), func(v string) bool { return strings.HasPrefix(v, "TMPDIR=") })
	return append(others, "TMPDIR="+dir)
}
