package app

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/config"
)

func TestStartsToolgate(t *testing.T) {
	bin := t.TempDir()
	name := "toolgate"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	require.NoError(t, os.WriteFile(filepath.Join(bin, name), nil, 0o700))
	t.Setenv("PATH", bin)
	self, err := os.Executable()
	require.NoError(t, err)
	for _, c := range []struct {
		argv         []string
		starts, ends bool // ends: the server has no further ones
	}{
		{[]string{"toolgate"}, true, false},
		{[]string{"/usr/local/bin/toolgate", "-C", "/srv"}, true, false},
		{[]string{self, "serve"}, true, false},
		{[]string{"npx", "-y", "toolgate"}, true, false},
		{[]string{"npx", "toolgate@1.2.3", "-s", "read-only"}, true, false},
		{[]string{"sh", "-c", "exec toolgate serve"}, true, false},
		{[]string{"bash", "-lc", "cd /srv && npx -y toolgate"}, true, false},
		{[]string{"env", "A=b", "toolgate"}, true, false},
		{[]string{"cmd", "/c", "toolgate"}, true, false},
		{[]string{`C:\Programs\Toolgate.exe`}, true, false},
		{[]string{"toolgate", "wrap", "--", "npx", "-y", "server"}, true, true},
		{[]string{"npx", "-y", "toolgate-viewer"}, false, false},
		{[]string{"node", "toolgate"}, false, false},
		{[]string{"git", "clone", "toolgate"}, false, false},
		{[]string{"ssh", "host", "toolgate"}, false, false},
	} {
		require.Equal(t, c.starts, StartsToolgate(c.argv), "%q", c.argv)
		require.Equal(t, c.starts && !c.ends, startsItself(config.MCPServer{Command: c.argv[0], Args: c.argv[1:]}), "%q", c.argv)
	}
	other := config.MCPServer{Command: "toolgate", Env: map[string]string{"TOOLGATE_HOME": "/srv/other"}}
	require.False(t, startsItself(other))
	t.Setenv("TOOLGATE_HOME", "/srv/other")
	require.True(t, startsItself(other))
}

func TestSymlinkToToolgate(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // where only an administrator can create one
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "toolgate"), nil, 0o700))
	require.NoError(t, os.Symlink("toolgate", filepath.Join(dir, "tg")))
	require.True(t, StartsToolgate([]string{filepath.Join(dir, "tg")}))
}

func TestDepth(t *testing.T) {
	t.Setenv("TOOLGATE_HOME", t.TempDir())
	for value, ok := range map[string]bool{"": true, "1": true, "3": true, "4": false, "-1": false} {
		t.Setenv(depthVariable, value)
		a, err := (&Options{LogLevel: "error", Dir: t.TempDir()}).Open()
		if !ok {
			require.ErrorContains(t, err, "toolgate is started by itself")
			continue
		}
		require.NoError(t, err)
		a.Close()
	}
}
