package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBundlePromisesWhatHolds: a bundle for a system without a sandbox says so.
func TestBundlePromisesWhatHolds(t *testing.T) {
	const none = "there is no sandbox"
	for _, to := range targets {
		text, err := bundleManifest(to, "1.2.3", nil)
		require.NoError(t, err)
		var m struct {
			Description     string
			LongDescription string                                  `json:"long_description"`
			UserConfig      map[string]struct{ Description string } `json:"user_config"`
		}
		require.NoError(t, json.Unmarshal(text, &m))
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
