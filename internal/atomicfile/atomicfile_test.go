package atomicfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/atomicfile"
)

func TestWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "file")
	for _, mode := range []fs.FileMode{0o600, 0o666, 0o644} {
		require.NoError(t, atomicfile.Write(file, []byte(mode.String()), mode))
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, mode.String(), string(b))
		if runtime.GOOS != "windows" {
			info, err := os.Stat(file)
			require.NoError(t, err)
			require.Equal(t, mode, info.Mode())
		}
	}
}

// A failed write leaves nothing behind.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "folder")
	require.NoError(t, os.MkdirAll(filepath.Join(file, "full"), 0o700))
	require.Error(t, atomicfile.Write(file, nil, 0o600))
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 1)
}

func TestCreate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "file")
	require.NoError(t, atomicfile.Create(file, []byte("first")))
	require.ErrorIs(t, atomicfile.Create(file, []byte("second")), fs.ErrExist)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "first", string(b))
}
