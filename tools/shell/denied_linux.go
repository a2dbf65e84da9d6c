package shell

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// readOnlyMount reports whether path, or the nearest folder above it that
// exists, lies on what is mounted read-only.
func readOnlyMount(path string) bool {
	var st unix.Statfs_t
	for unix.Statfs(path, &st) != nil {
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
	return st.Flags&unix.ST_RDONLY != 0
}
