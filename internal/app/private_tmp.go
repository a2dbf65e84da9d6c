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
	own, err := os.MkdirTemp(dir, "")
	if err != nil {
		return nil, fmt.Errorf("private /tmp: %w", err)
	}
	lock, err := lockTmp(own)
	if err != nil {
		os.RemoveAll(own)
		return nil, fmt.Errorf("private /tmp: %w", err)
	}
	pol.TempDir = own
	return func() {
		if err := removeTmp(own, lock); err != nil {
			s.Log.Warn("removing a private /tmp", "err", err)
		}
	}, nil
}

// lockTmp locks a private /tmp. It waits no longer than for another process that looks whether it is abandoned.
func lockTmp(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := filelock.Lock(context.Background(), f, time.Millisecond); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// removeTmp removes a private /tmp. It follows no symlink in it.
func removeTmp(dir string, lock *os.File) error {
	return errors.Join(os.RemoveAll(dir), os.Remove(lock.Name()), lock.Close())
}

// removeAbandoned removes the folders in dir whose process was killed.
func removeAbandoned(dir string) {
	names, err := filepath.Glob(filepath.Join(dir, "*.lock"))
	if err != nil {
		return // not a pattern
	}
	for _, name := range names {
		own := strings.TrimSuffix(name, ".lock")
		if lock, err := lockTmp(own); err == nil {
			removeTmp(own, lock)
		}
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
