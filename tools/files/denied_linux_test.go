package files_test

import (
	"encoding/json"
	"fmt"
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
)

// What the sandbox refuses is said to be refused by it, in the text and for the
// gate, and is told apart from what owner and mode forbid.
func TestDenied(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o644))
	for _, test := range []struct{ tool, args, op, path string }{
		{"read_file", `{"file_path":%q}`, "read", file},
		{"view_image", `{"path":%q}`, "read", file},
		{"list_dir", `{"dir_path":%q}`, "read", dir},
		{"write_file", `{"file_path":%q,"content":"x"}`, "write", file},
		{"write_file", `{"file_path":%q,"content":"x"}`, "write", filepath.Join(dir, "new")},
		{"write_file", `{"file_path":%q,"content":"x"}`, "write", filepath.Join(dir, "new", "deep", "file")},
	} {
		var res *mcp.CallToolResult
		onLandlockedThread(t, func() {
			res = catalog[test.tool].Run(t.Context(), json.RawMessage(fmt.Sprintf(test.args, test.path)))
		})
		require.True(t, res.IsError)
		require.Equal(t, fmt.Sprintf("%s: denied by the sandbox: %s %s: it is outside what the sandbox opens for that", test.tool, test.op, test.path), text(res))
		d, ok := res.Meta[policy.DeniedKey].(*tools.Denial)
		require.True(t, ok, test.tool)
		require.Equal(t, test.op, d.Op)
		require.Equal(t, test.path, d.Path)
	}
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "text", string(content))
	require.NoFileExists(t, filepath.Join(dir, "new"))
}

// onLandlockedThread runs f on a thread that may read and write no file. The
// restriction dies with the thread.
func onLandlockedThread(t *testing.T, f func()) {
	t.Helper()
	if abi, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); e != 0 || abi < 3 {
		if os.Getenv("REQUIRE_SANDBOX") != "" {
			t.Fatal("REQUIRE_SANDBOX is set, but there is no Landlock")
		}
		t.Skip("no Landlock")
	}
	var err error
	done := make(chan struct{})
	go func() { // ends with f; its thread ends with it, for it is never unlocked
		defer close(done)
		runtime.LockOSThread()
		if err = landlockThisThread(); err == nil {
			f()
		}
	}()
	<-done
	require.NoError(t, err)
}

func landlockThisThread() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR |
		unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR}
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if e != 0 {
		return e
	}
	defer unix.Close(int(fd))
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); e != 0 {
		return e
	}
	return nil
}
