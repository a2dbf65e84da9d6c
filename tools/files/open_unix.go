//go:build unix

package files

import (
	"os"
	"syscall"
)

// openNonblocking opens path for reading. It does not block if path has become a
// named pipe since it was checked.
func openNonblocking(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
