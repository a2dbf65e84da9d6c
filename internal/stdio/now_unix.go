//go:build unix

package stdio

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// WithoutWaiting returns what writes to out as much as can be written at
// once, nil when that cannot be had: when out is no file, or one whose writes
// wait, which those of a socket need not. Its error is set when less than all
// was written.
func WithoutWaiting(out io.Writer) func([]byte) (int, error) {
	file, ok := out.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	write := unix.Write
	waits := true
	err = raw.Control(func(fd uintptr) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		waits = err != nil || flags&unix.O_NONBLOCK == 0
		if _, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE); waits && err == nil {
			write, waits = sendNow, false
		}
	})
	if err != nil || waits {
		return nil
	}
	return func(b []byte) (n int, err error) {
		cerr := raw.Write(func(fd uintptr) bool {
			n, err = write(int(fd), b)
			return true // done, with whatever came of it
		})
		if cerr != nil {
			return 0, cerr
		}
		if err == nil && n < len(b) {
			err = io.ErrShortWrite
		}
		return max(n, 0), err
	}
}

func sendNow(fd int, b []byte) (int, error) {
	return unix.SendmsgN(fd, b, nil, nil, unix.MSG_DONTWAIT)
}
