// Package testkit holds what the tests of several packages share.
package testkit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/policy/rules"
)

// ProtectedNames are names below a writable root that stay read-only.
var ProtectedNames = []string{".git", ".codex", ".agents", ".toolgate", ".claude/settings*.json"}

// Policy returns a policy for the workspace /home/u/app on a system that enforces it.
func Policy(a policy.Approval, m policy.Mode) *policy.Policy {
	return &policy.Policy{
		Approval:         a,
		Mode:             m,
		Workspace:        "/home/u/app",
		WritableRoots:    []string{"/home/u/app", "/tmp"},
		ReadOnlySubpaths: ProtectedNames,
		Hidden:           []string{"/home/u/.ssh"},
		Confines:         func() bool { return true },
		Replaceable: func(program string) bool {
			return policy.Below(program, "/home/u/app") || policy.Below(program, "/tmp")
		},
	}
}

// Rules parses a rule file.
func Rules(t testing.TB, text string) *rules.Rules {
	t.Helper()
	r, err := rules.Parse("default.rules", []byte(text))
	require.NoError(t, err)
	return r
}
