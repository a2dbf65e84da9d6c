package files_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/tools/files"
)

func TestWriteDescribe(t *testing.T) {
	a, err := files.WriteFile.Describe(json.RawMessage(`{"file_path":"a/b","content":"hello"}`))
	require.NoError(t, err)
	require.Equal(t, []string{"a/b"}, a.Writes)
	require.Empty(t, a.Reads)
	require.False(t, a.ReadOnly)
	require.Equal(t, "a/b, 5 bytes:\nhello", a.Preview)
}

// What a file was beside its content, it stays.
func TestWriteKeeps(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes and links are of Unix")
	}
	t.Chdir(t.TempDir())
	write := func(path, content string) {
		t.Helper()
		b, err := json.Marshal(map[string]string{"file_path": path, "content": content})
		require.NoError(t, err)
		res := call(t, "write_file", string(b))
		require.False(t, res.IsError, text(res))
	}
	content := func(path string) string {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(b)
	}

	require.NoError(t, os.WriteFile("run", []byte("old"), 0o644))
	require.NoError(t, os.Chmod("run", 0o751))
	write("run", "new")
	info, err := os.Stat("run")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o751), info.Mode())

	require.NoError(t, os.WriteFile("one", []byte("old"), 0o644))
	require.NoError(t, os.Link("one", "two"))
	write("one", "new")
	require.Equal(t, "new", content("two"))

	require.NoError(t, os.MkdirAll("deep/er", 0o755))
	require.NoError(t, os.WriteFile("deep/target", []byte("old"), 0o644))
	require.NoError(t, os.Symlink("../target", "deep/er/link"))
	require.NoError(t, os.Symlink("deep/er", "short"))
	write("short/link", "new")
	require.Equal(t, "new", content("deep/target"))
	info, err = os.Lstat("deep/er/link")
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)

	require.NoError(t, os.Symlink("yet to come", "dangling"))
	write("dangling", "new")
	require.Equal(t, "new", content("yet to come"))

	require.NoError(t, os.Symlink("round", "round"))
	res := call(t, "write_file", `{"file_path":"round","content":"x"}`)
	require.Equal(t, "write_file: round: leads through too many symbolic links; give the path of the file itself", text(res))

	left, err := filepath.Glob(".*.tmp")
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWriteRefused(t *testing.T) {
	if os.Getuid() == 0 || runtime.GOOS == "windows" {
		t.Skip("root may write everywhere")
	}
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("shut", 0o555))
	res := call(t, "write_file", `{"file_path":"shut/x","content":"x"}`)
	require.Equal(t, "write_file: shut/x: permission denied by owner and mode; choose another path", text(res))
}
