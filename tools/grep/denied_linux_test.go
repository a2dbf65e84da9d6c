package grep_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/policy"
	"toolgate/tools"
	"toolgate/tools/grep"
)

// What the sandbox refuses to read is said to be refused by it.
func TestDenied(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("needle"), 0o644))
	for _, path := range []string{dir, file} {
		var res *mcp.CallToolResult
		args := args(t, map[string]any{"pattern": "needle", "path": path})
		onUnreadingThread(t, func() { res = grep.Tool.Run(t.Context(), args) })
		require.True(t, res.IsError)
		require.Equal(t, "grep_files: denied by the sandbox: read "+path+": it is outside what the sandbox opens for that", text(res))
		require.Equal(t, path, res.Meta[policy.DeniedKey].(*tools.Denial).Path)
	}
}

// onUnreadingThread runs f on a thread that may read no file. The restriction
// dies with the thread.
func onUnreadingThread(t *testing.T, f func()) {
	t.Helper()
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR}
	rules, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if e != 0 {
		if os.Getenv("REQUIRE_SANDBOX") != "" {
			t.Fatal("REQUIRE_SANDBOX is set, but there is no Landlock")
		}
		t.Skip("no Landlock")
	}
	defer unix.Close(int(rules))
	var err error
	done := make(chan struct{})
	go func() { // ends with f; its thread ends with it, for it is never unlocked
		defer close(done)
		runtime.LockOSThread()
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return
		}
		if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); e != 0 {
			err = e
			return
		}
		f()
	}()
	<-done
	require.NoError(t, err)
}
