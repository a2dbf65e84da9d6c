package stdio

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestPollable(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	blocking := func() bool {
		flags, err := unix.FcntlInt(r.Fd(), unix.F_GETFL, 0) // Fd makes it blocking
		require.NoError(t, err)
		return flags&unix.O_NONBLOCK == 0
	}
	require.True(t, blocking())

	in, done := pollable(r)
	require.NotSame(t, r, in)
	conn, err := in.(*os.File).SyscallConn()
	require.NoError(t, err)
	conn.Control(func(fd uintptr) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		require.NoError(t, err)
		require.NotZero(t, flags&unix.O_NONBLOCK)
	})
	require.True(t, blocking(), "those that share the pipe must not see it")

	go func() { // ends when it has written
		io.WriteString(w, "hello")
		w.Close()
	}()
	all, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Equal(t, "hello", string(all))
	done()
	_, err = in.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrClosed)
}

func TestPollableAfterTheWriterHasGone(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	io.WriteString(w, "hello")
	w.Close()
	in, done := pollable(r)
	defer done()
	all, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Equal(t, "hello", string(all))
}

func TestPollableLeavesTheRestAlone(t *testing.T) {
	text := strings.NewReader("x")
	in, done := pollable(text)
	done()
	require.Same(t, text, in)
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer f.Close()
	in, done = pollable(f)
	done()
	require.Same(t, f, in)
	_, err = f.Stat()
	require.NoError(t, err, "it is not closed")
}
