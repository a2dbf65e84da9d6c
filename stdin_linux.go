package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// polled returns in as a file that the runtime waits for together with all
// others, where in is a pipe or a socket: a read that blocks would hold a
// thread, and another one would have to be woken for each message. Restore
// must be called in the end.
func polled(in io.Reader) (_ io.Reader, restore func()) {
	f, ok := in.(*os.File)
	if !ok {
		return in, func() {}
	}
	own, restore := polledFile(f, os.O_RDONLY)
	return own, restore
}

// polledOut is polled for what is written to: a write then need not wait for
// the reader.
func polledOut(out io.Writer) (_ io.Writer, restore func()) {
	f, ok := out.(*os.File)
	if !ok {
		return out, func() {}
	}
	own, restore := polledFile(f, os.O_WRONLY)
	return own, restore
}

func polledFile(f *os.File, flag int) (_ *os.File, restore func()) {
	var stat unix.Stat_t
	fd := int(f.Fd())
	if unix.Fstat(fd, &stat) != nil {
		return f, func() {}
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		// Opened anew, so that nobody who shares it notices.
		own, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), flag|unix.O_NONBLOCK, 0)
		if err != nil {
			return f, func() {}
		}
		return own, func() { own.Close() }
	case unix.S_IFSOCK:
		// Its other end is the client's, and this one was made for us.
		if unix.SetNonblock(fd, true) != nil {
			return f, func() {}
		}
		return os.NewFile(uintptr(fd), f.Name()), func() { unix.SetNonblock(fd, false) }
	}
	return f, func() {}
}
