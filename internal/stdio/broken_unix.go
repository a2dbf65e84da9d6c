//go:build unix

package stdio

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// watchBroken returns a channel that is closed when nobody can read out any
// more, found without writing to it. It watches until stop is closed; for
// anything but a file the channel never closes.
func watchBroken(out io.Writer, stop <-chan struct{}) <-chan struct{} {
	gone := make(chan struct{})
	f, ok := out.(*os.File)
	if !ok {
		return gone
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return gone
	}
	go func() { // ends with stop or when out breaks
		for {
			select {
			case <-stop:
				return
			default:
			}
			// poll(2): POLLERR is "also set for a file descriptor referring
			// to the write end of a pipe when the read end has been closed".
			broken := false
			err := raw.Control(func(fd uintptr) {
				fds := []unix.PollFd{{Fd: int32(fd)}}
				n, err := unix.Poll(fds, 100)
				broken = err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0
			})
			if broken || err != nil {
				close(gone)
				return
			}
		}
	}()
	return gone
}
