package filelock_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/filelock"
)

func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	first, second := open(), open()
	require.NoError(t, filelock.Lock(t.Context(), first, 0))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, filelock.Lock(ended, second, 0), context.Canceled)

	waits := make(chan error)
	go func() { waits <- filelock.Lock(t.Context(), second, 0) }() // ends when first is unlocked
	filelock.Unlock(first)
	require.NoError(t, <-waits)

	require.ErrorIs(t, filelock.Lock(ended, first, 0), context.Canceled)
	require.NoError(t, second.Close())
	require.NoError(t, filelock.Lock(t.Context(), first, 0))
	require.NoError(t, first.Close())
	require.ErrorContains(t, filelock.Lock(t.Context(), first, 0), "locking "+name)
}
