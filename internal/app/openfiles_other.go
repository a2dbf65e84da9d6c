//go:build !linux && !darwin

package app

// maxOpenFiles returns how many files this process may have open: here there is no limit that it could run into.
func maxOpenFiles() int { return 1 << 20 }
