package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLaterCredentialsAreHidden lets the user log in to something in a session: from the
// next call on, neither a tool of the running worker nor a command can read what was saved.
func TestLaterCredentialsAreHidden(t *testing.T) {
	needSandbox(t)
	c := startClient(t, "-a", "never", "-c", "sandbox_workspace_write.exclude_slash_tmp=true").open()
	require.Contains(t, c.call("shell", `{"command":["echo","started"]}`).text(), "started")
	elsewhere := filepath.Join(t.TempDir(), "netrc")
	require.NoError(t, os.WriteFile(elsewhere, []byte("secret-word"), 0o600))
	for _, name := range []string{".aws/credentials", ".docker/config.json", ".netrc"} {
		file := filepath.Join(c.home, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		if name == ".netrc" {
			require.NoError(t, os.Symlink(elsewhere, file))
		} else {
			require.NoError(t, os.WriteFile(file, []byte("secret-word"), 0o600))
		}
		require.NotContains(t, c.call("read_file", `{"file_path":"`+file+`"}`).text(), "secret-word", "by a tool")
		require.NotContains(t, c.call("shell", `{"command":["cat","`+file+`"]}`).text(), "secret-word", "by a command")
	}
	require.NotContains(t, c.call("shell", `{"command":["cat","`+elsewhere+`"]}`).text(), "secret-word", "behind the symlink")

	// A program saves by putting another file in its place.
	require.NoError(t, os.WriteFile(elsewhere+".new", []byte("secret-word"), 0o600))
	require.NoError(t, os.Rename(elsewhere+".new", elsewhere))
	require.NotContains(t, c.call("shell", `{"command":["cat","`+elsewhere+`"]}`).text(), "secret-word", "saved again")
}
