package main

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// polled returns in as it is best read. A read that blocks costs the least:
// it is awake as soon as there is something. But it holds a processor of the
// runtime's for some milliseconds, so where there is but one, a pipe or a
// socket is returned as a file that the runtime waits for together with all
// others. Restore must be called in the end.
func polled(in io.Reader) (_ io.Reader, restore func()) {
	f, mode := fileOf(in)
	if f == nil || runtime.GOMAXPROCS(0) > 1 {
		return in, func() {}
	}
	switch mode {
	case unix.S_IFIFO:
		if own := openAnew(f, os.O_RDONLY); own != nil {
			return own, func() { own.Close() }
		}
	case unix.S_IFSOCK:
		// Its other end is the client's, and this one was made for us.
		fd := int(f.Fd())
		if unix.SetNonblock(fd, true) == nil {
			return os.NewFile(uintptr(fd), f.Name()), func() { unix.SetNonblock(fd, false) }
		}
	}
	return in, func() {}
}

// unblocked returns out as a file that can be written without waiting for its
// reader, where it is a pipe. Restore must be called in the end.
func unblocked(out io.Writer) (_ io.Writer, restore func()) {
	f, mode := fileOf(out)
	if f == nil || mode != unix.S_IFIFO {
		return out, func() {}
	}
	own := openAnew(f, os.O_WRONLY)
	if own == nil {
		return out, func() {}
	}
	return own, func() { own.Close() }
}

// fileOf returns the file that stream is, nil for none, and its type.
func fileOf(stream any) (f *os.File, mode uint32) {
	f, ok := stream.(*os.File)
	var stat unix.Stat_t
	if !ok || unix.Fstat(int(f.Fd()), &stat) != nil {
		return nil, 0
	}
	return f, stat.Mode & unix.S_IFMT
}

// openAnew opens a pipe a second time, so that it does not block and nobody
// who shares it notices. It returns nil when that cannot be.
func openAnew(f *os.File, flag int) *os.File {
	own, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), flag|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	return own
}
