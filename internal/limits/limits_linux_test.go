package limits_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/internal/limits"
)

const (
	sharedFile = "TOOLGATE_TEST_SHARED" // variable that has this binary map a file
	sharedSize = 64 << 20
)

// TestMain maps a file, says so, and waits for the end of stdin.
func TestMain(m *testing.M) {
	name := os.Getenv(sharedFile)
	if name == "" {
		os.Exit(m.Run())
	}
	f, err := os.Open(name)
	if err == nil {
		_, err = unix.Mmap(int(f.Fd()), 0, sharedSize, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	}
	if err != nil {
		panic(err)
	}
	fmt.Println("mapped")
	io.Copy(io.Discard, os.Stdin)
}

// TestCheck measures four processes that share most of their memory.
func TestCheck(t *testing.T) {
	name := t.TempDir() + "/shared"
	require.NoError(t, os.WriteFile(name, make([]byte, sharedSize), 0o600))
	for range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), sharedFile+"="+name)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = out.Read(make([]byte, 1))
		require.NoError(t, err)
		t.Cleanup(func() {
			in.Close()
			require.NoError(t, cmd.Wait())
		})
	}
	for _, tt := range []struct {
		name   string
		limits limits.Limits
		want   string // the key of the limit, "" for none
	}{
		{"defaults", limits.Limits{}, ""},
		{"what is shared counts once", limits.Limits{Memory: 3 * sharedSize}, ""},
		{"but it counts", limits.Limits{Memory: sharedSize / 2}, "memory"},
		{"no limit", limits.Limits{Memory: -1, Processes: -1, Disk: -1}, ""},
		{"threads count", limits.Limits{Processes: 4}, "processes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key := ""
			if over := limits.NewWatcher(tt.limits, []string{t.TempDir()}, nil).Check(os.Getpid()); over != nil {
				key = over.Key
			}
			require.Equal(t, tt.want, key)
		})
	}
	t.Run("watch", func(t *testing.T) {
		stopped := make(chan struct{})
		end := limits.NewWatcher(limits.Limits{Processes: 4}, nil, nil).Watch(os.Getpid(), func() error { close(stopped); return nil })
		<-stopped
		require.EqualError(t, end(errors.New("killed")),
			"stopped: it had more than 4 processes and threads; the user can raise processes in [limits] of toolgate's config")
		end = limits.NewWatcher(limits.Limits{}, nil, nil).Watch(os.Getpid(), func() error { panic("no limit is exceeded") })
		require.EqualError(t, end(errors.New("killed")), "killed")
	})
}

func TestRlimits(t *testing.T) {
	require.Equal(t, map[int]uint64{
		unix.RLIMIT_NPROC: 16384, unix.RLIMIT_NOFILE: 16384, unix.RLIMIT_FSIZE: 64 << 30, unix.RLIMIT_CORE: 0,
	}, limits.Limits{}.Rlimits())
	require.Empty(t, limits.Limits{Processes: -1, OpenFiles: -1, FileSize: -1, CoreSize: -1}.Rlimits())
}
