package app

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// unblocked returns out as a file that can be written without waiting for its
// reader, where it is a pipe. Restore must be called in the end.
func unblocked(out io.Writer) (_ io.Writer, restore func()) {
	f, ok := out.(*os.File)
	var stat unix.Stat_t
	if !ok || unix.Fstat(int(f.Fd()), &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO {
		return out, func() {}
	}
	// Opened anew, so that nobody who shares it notices.
	own, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return out, func() {}
	}
	return own, func() { own.Close() }
}
