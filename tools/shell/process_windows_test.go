package shell

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLookupOnThisSystem: only a path leads to a program of the workspace.
func TestLookupOnThisSystem(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"planted.exe", "cmd.exe"} {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	env := append(os.Environ(), `PATH=.;`+os.Getenv("PATH"))
	_, err := lookup("planted", env)
	require.EqualError(t, err, "cannot start planted: not found on PATH")
	path, err := lookup(`.\planted`, env)
	require.NoError(t, err)
	require.Equal(t, `.\planted.exe`, path)
	path, err = lookup("cmd", env)
	require.NoError(t, err)
	require.Regexp(t, `(?i)^[a-z]:\\.*\\system32\\cmd\.exe$`, path)
}
