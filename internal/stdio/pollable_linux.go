package stdio

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// pollable returns a reader of in, and a function that closes what was opened for it. The
// runtime waits for a pipe with epoll(7), not with a thread in read(2), so that what a line
// starts runs at once. The pipe is opened anew for that, because O_NONBLOCK would apply to
// all processes that share in.
func pollable(in io.Reader) (r io.Reader, done func()) {
	done = func() {}
	f, ok := in.(*os.File)
	if !ok {
		return in, done
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return in, done
	}
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return in, done
	}
	return again, func() { again.Close() }
}
