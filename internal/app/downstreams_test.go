package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/config"
	"toolgate/policy"
)

// A server that may write what commands may write shares /tmp with others as they do.
func TestServerProfileKeepsSharedRoots(t *testing.T) {
	s := &Settings{Policy: &policy.Policy{WritableRoots: []string{"/tmp", "/w"}, SharedRoots: []string{"/tmp"}}}
	f := s.ServerProfile("a", config.MCPServer{Command: "a", Sandbox: "workspace-write"})
	require.Contains(t, f.WritableRoots, "/w")
	require.Equal(t, []string{"/tmp"}, f.SharedRoots)
	f = s.ServerProfile("a", config.MCPServer{Command: "a"})
	require.Empty(t, f.SharedRoots)
}
