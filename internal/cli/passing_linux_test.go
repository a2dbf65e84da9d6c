package cli

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAClientOnASocket: many clients give their servers a socket for stdin
// and stdout. It stays as it is, and a client that does not read holds up
// nobody.
func TestAClientOnASocket(t *testing.T) {
	exe := ownBinary(t)
	peer := filepath.Join(filepath.Dir(exe), moodyPeer)
	require.NoError(t, os.Link(exe, peer))
	cmd := proxiedBy(t, exe, []string{peer})
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	ours, theirs := os.NewFile(uintptr(ends[0]), "client"), os.NewFile(uintptr(ends[1]), "toolgate")
	defer theirs.Close()
	cmd.Stdin, cmd.Stdout = theirs, theirs
	for _, v := range cmd.Env {
		if home, ok := strings.CutPrefix(v, "TOOLGATE_HOME="); ok {
			config, err := os.OpenFile(filepath.Join(home, "config.toml"), os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = config.WriteString("default_tools_approval_mode = \"approve\"\n")
			require.NoError(t, err)
			require.NoError(t, config.Close())
		}
	}
	require.NoError(t, cmd.Start())
	defer func() {
		ours.Close()
		cmd.Wait()
	}()
	m := &moody{wireClient: &wireClient{t: t, cmd: cmd, in: ours, out: bufio.NewReaderSize(ours, 1<<20), tool: "mcp__peer__do"}}
	m.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	_, err = ours.WriteString(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	require.NoError(t, err)
	m.request("tools/list", "{}")
	const calls = 200
	for range calls { // their answers are far more than goes into a socket
		m.send(mood{Say: "word ", Times: 2000}, "")
	}
	got := map[int]bool{}
	for len(got) < calls {
		h := m.next()
		require.Equal(t, strings.Repeat("word ", 2000), h.Result.Content[0].Text)
		got[h.ID] = true
	}
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(ends[1]), syscall.F_GETFL, 0)
	require.Zero(t, errno)
	require.Zero(t, flags&syscall.O_NONBLOCK)
}
