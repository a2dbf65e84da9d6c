package shell

import (
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile creates an unnamed file in memory.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("toolgate-output", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "toolgate-output"), nil
}
