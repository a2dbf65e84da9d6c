package app

import (
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"toolgate/policy"
)

// A toolgate that starts takes no other's private /tmp for abandoned, not even one that is being made.
func TestPrivateTmpsMadeAtOnce(t *testing.T) {
	workDir := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				pol := &policy.Policy{Mode: policy.WorkspaceWrite, SharedRoots: []string{slashTmp}}
				s := &Settings{WorkDir: workDir, Policy: pol, privateTmp: true, Log: slog.New(slog.DiscardHandler)}
				remove, err := s.MakePrivateTmp()
				if !assert.NoError(t, err) {
					return
				}
				assert.DirExists(t, pol.TempDir)
				assert.FileExists(t, pol.TempDir+lockSuffix)
				remove()
			}
		})
	}
	all.Wait()
	left, err := filepath.Glob(filepath.Join(workDir, "tmp", "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
