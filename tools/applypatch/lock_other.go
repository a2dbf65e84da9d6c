//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package applypatch

import "os"

// lockFile does nothing: files cannot be locked on this system. A process still
// serializes its own patches.
func lockFile(*os.File) error { return nil }
