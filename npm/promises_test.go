package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBundlePromisesWhatHolds: a bundle for a system without a sandbox says so.
func TestBundlePromisesWhatHolds(t *testing.T) {
	const none = "there is no sandbox"
	for _, to := range targets {
		m := manifestOf(to, "1.2.3", nil)
		sandbox, folders := m.UserConfig["sandbox"].Description, m.UserConfig["workspaces"].Description
		if to.goos == "linux" {
			require.Contains(t, m.Description, "confined by a sandbox")
			require.NotContains(t, m.LongDescription, none)
			continue
		}
		require.NotContains(t, m.Description, "confined", to)
		require.Contains(t, m.Description, "with your approval", to)
		require.Contains(t, m.LongDescription, none, to)
		require.NotContains(t, m.LongDescription, "kernel-enforced sandbox", to)
		require.Contains(t, sandbox, none, to)
		require.Contains(t, folders, "read or written without your approval", to)
	}
	require.Contains(t, string(readme), "macOS and Windows", "npm's page is one for all systems")
}
