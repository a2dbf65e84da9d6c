//go:build unix

package files_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pipe without a writer does not hold the snapshot up.
func TestSnapshotOfAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, name := range []string{pipe, "/dev/zero"} {
		require.Contains(t, snapshot(t, t.TempDir(), name).Files[name], "no file")
	}
}
