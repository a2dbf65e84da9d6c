package shell

import (
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile makes a file that is kept in memory and has no name.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("toolgate-output", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "toolgate-output"), nil
}
