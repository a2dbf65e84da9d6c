package app

import (
	"errors"
	"io/fs"
	"path/filepath"

	"toolgate/internal/fileowner"
)

// FileFaults returns an error for each file or folder of the config and the state that another user
// could change. toolgate refuses to read these.
func (s *Settings) FileFaults() (faults []error) {
	seen := map[string]bool{}
	for _, dir := range []string{s.ConfigDir, s.StateDir} {
		filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && (path == filepath.Join(s.StateDir, "servers") || path == s.WorkDir) {
				return fs.SkipDir // written by sandboxed processes, and not read here
			}
			fault, ok := errors.AsType[*fileowner.Error](fileowner.Check(path))
			if ok && !seen[fault.Path] {
				seen[fault.Path] = true
				faults = append(faults, fault)
			}
			return nil
		})
	}
	return faults
}
