package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
)

func TestWithinIsTheStricterOfBoth(t *testing.T) {
	ours := workspace(policy.OnRequest, policy.WorkspaceWrite) // writes /home/u/app and /tmp
	for _, tt := range []struct {
		name  string
		ours  policy.Mode
		limit *policy.Limit
		mode  policy.Mode
		roots []string
		net   policy.Network
	}{
		{"no limit", policy.WorkspaceWrite, nil, policy.WorkspaceWrite, []string{"/home/u/app", "/tmp"}, policy.NetworkNone},
		{"a client without a sandbox", policy.WorkspaceWrite, &policy.Limit{All: true}, policy.WorkspaceWrite, []string{"/home/u/app", "/tmp"}, policy.NetworkNone},
		{"the zero limit", policy.WorkspaceWrite, &policy.Limit{}, policy.ReadOnly, nil, policy.NetworkNone},
		{"the zero limit, no sandbox of ours", policy.DangerFullAccess, &policy.Limit{}, policy.ReadOnly, nil, policy.NetworkNone},
		{"a wider folder", policy.WorkspaceWrite, &policy.Limit{Writable: []string{"/home/u"}}, policy.WorkspaceWrite, []string{"/home/u/app"}, policy.NetworkNone},
		{"a narrower folder", policy.WorkspaceWrite, &policy.Limit{Writable: []string{"/home/u/app/sub", "/var"}}, policy.WorkspaceWrite, []string{"/home/u/app/sub"}, policy.NetworkNone},
		{"another folder", policy.WorkspaceWrite, &policy.Limit{Writable: []string{"/home/u/app2"}}, policy.ReadOnly, nil, policy.NetworkNone},
		{"everything", policy.WorkspaceWrite, &policy.Limit{Writable: []string{"/"}, Network: true}, policy.WorkspaceWrite, []string{"/home/u/app", "/tmp"}, policy.NetworkNone},
		{"the client's alone", policy.DangerFullAccess, &policy.Limit{Writable: []string{"/x"}, Network: true}, policy.WorkspaceWrite, []string{"/x"}, policy.NetworkAll},
		{"read-only of ours stays", policy.ReadOnly, &policy.Limit{Writable: []string{"/"}, Network: true}, policy.ReadOnly, nil, policy.NetworkNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := *ours
			p.Mode = tt.ours
			f := p.Within(tt.limit).Profile()
			require.Equal(t, tt.mode.String(), f.Mode.String())
			require.Equal(t, tt.roots, f.WritableRoots)
			require.Equal(t, tt.net, f.Network)
		})
	}
	n := ours.Within(&policy.Limit{Writable: []string{"/home/u/app"}, ReadOnly: []string{"/home/u/app/.aws", "/home/u/app/.git", "/etc"}, Hidden: []string{"/secret"}})
	require.Equal(t, []string{".agents", ".aws", ".claude/settings*.json", ".codex", ".git", ".toolgate"}, n.Profile().ReadOnlySubpaths)
	require.Equal(t, []string{"/home/u/.ssh", "/secret"}, n.Profile().Hidden)
	require.Equal(t, []string{"/home/u/app", "/tmp"}, ours.WritableRoots, "the policy itself is not changed")

	covered := ours.Within(&policy.Limit{Writable: []string{"/home/u/app"}, ReadOnly: []string{"/home/u/app"}})
	require.Equal(t, policy.ReadOnly, covered.Profile().Mode)
	exact := ours.Within(&policy.Limit{Writable: []string{"/home/u/app"}, ReadOnly: []string{"/home/u"}})
	require.Equal(t, []string{"/home/u/app"}, exact.Profile().WritableRoots)
}

func TestACallIsHeldToItsLimit(t *testing.T) {
	h := newHouse(policy.Never, policy.DangerFullAccess)
	c := policy.Call{Limit: &policy.Limit{}, Action: policy.Action{Tool: "shell", Command: []string{"make"}}}
	_, err := h.gate.Call(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, []policy.Mode{policy.ReadOnly}, h.ran)

	c.Limit = &policy.Limit{All: true, Unknown: "deny by pattern"}
	_, err = h.gate.Call(t.Context(), c)
	require.EqualError(t, err, "denied: the client's own sandbox asks for what cannot be held here: deny by pattern")
}
