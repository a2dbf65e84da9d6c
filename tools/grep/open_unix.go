//go:build unix

package grep

import (
	"os"
	"syscall"
)

// openNonblocking opens path for reading. Should it have become a named pipe
// since it was looked at, this does not wait for its writer.
func openNonblocking(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
