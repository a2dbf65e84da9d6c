package files_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/tools/files"
)

func snapshot(t *testing.T, dir string, names ...string) (s policy.Snapshot) {
	t.Helper()
	args, err := json.Marshal(files.SnapshotInput{Dir: dir, Files: names})
	require.NoError(t, err)
	res := files.Snapshot.Run(t.Context(), args)
	require.False(t, res.IsError)
	require.NoError(t, json.Unmarshal([]byte(res.Content[0].(*mcp.TextContent).Text), &s))
	return s
}

func TestSnapshot(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	x, y, sub := filepath.Join(dir, "x"), filepath.Join(dir, "y"), filepath.Join(dir, "sub")
	require.NoError(t, os.WriteFile(x, []byte("one"), 0o600))
	require.NoError(t, os.Mkdir(sub, 0o700))

	before := snapshot(t, sub, x, y, sub, filepath.Join(x, "below"))
	require.Empty(t, before.Real)
	require.Equal(t, []string{sub, x}, before.Existing())
	require.Empty(t, before.Changes(snapshot(t, sub, x, y, sub, filepath.Join(x, "below"))))

	require.NoError(t, os.WriteFile(x, []byte("two"), 0o600))
	require.NoError(t, os.WriteFile(y, nil, 0o600))
	require.NoError(t, os.Remove(sub))
	after := snapshot(t, sub, x, y, sub, filepath.Join(x, "below"))
	require.Equal(t, []string{"the folder is another one", sub + " is gone", x + " has changed", y + " is new"}, before.Changes(after))
	require.Equal(t, policy.Missing, after.Dir)

	if runtime.GOOS == "windows" {
		return // symlinks need a privilege there
	}
	require.NoError(t, os.Symlink(dir, sub))
	linked := snapshot(t, sub)
	require.Equal(t, dir, linked.Real)
	require.Equal(t, []string{"the folder is another one (" + dir + ")"}, snapshot(t, dir).Changes(linked))
}
