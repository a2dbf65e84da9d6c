package shell

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoProgramFromTheCurrentFolder: a program of the system's is started by
// its path, and one that was found in the current folder is none.
func TestNoProgramFromTheCurrentFolder(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	require.Greater(t, len(files), 10)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotContains(t, string(text), "exec.ErrDot", file)
		require.NotRegexp(t, `exec\.Command(Context)?\((ctx, )?"`, string(text), file)
	}
}
