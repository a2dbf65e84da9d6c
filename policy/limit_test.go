package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/testkit"
	"toolgate/policy"
)

// pathRules gives each path the access that follows it.
func pathRules(pairs ...any) []policy.PathRule {
	var list []policy.PathRule
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, policy.PathRule{Path: pairs[i].(string), Access: pairs[i+1].(policy.Access)})
	}
	return list
}

const (
	deny  = policy.NoAccess
	read  = policy.CanRead
	write = policy.CanWrite
)

func TestWithinIsTheStricterOfBoth(t *testing.T) {
	ours := testkit.Policy(policy.OnRequest, policy.WorkspaceWrite) // writes /home/u/app and /tmp
	limit := func(pairs ...any) *policy.Limit {
		return &policy.Limit{Rules: pathRules(append([]any{"/", read}, pairs...)...)}
	}
	online := func(l *policy.Limit) *policy.Limit { l.Network = true; return l }
	everything := &policy.Limit{Rules: pathRules("/", write), Network: true}
	for _, tt := range []struct {
		name  string
		ours  policy.Mode
		limit *policy.Limit
		mode  policy.Mode
		roots []string
		paths policy.Paths
		net   policy.Network
	}{
		{"no limit", policy.WorkspaceWrite, nil, policy.WorkspaceWrite, []string{"/home/u/app", "/tmp"}, policy.Paths{}, policy.NetworkNone},
		{"a client without a sandbox", policy.WorkspaceWrite, &policy.Limit{All: true}, policy.WorkspaceWrite, []string{"/home/u/app", "/tmp"}, policy.Paths{}, policy.NetworkNone},
		{"the zero limit", policy.WorkspaceWrite, &policy.Limit{}, policy.ReadOnly, nil, policy.Paths{Restricted: true}, policy.NetworkNone},
		{"the zero limit, no sandbox of ours", policy.DangerFullAccess, &policy.Limit{}, policy.ReadOnly, nil, policy.Paths{Restricted: true}, policy.NetworkNone},
		{"read-only, no sandbox of ours", policy.DangerFullAccess, limit(), policy.ReadOnly, nil, policy.Paths{}, policy.NetworkNone},
		{"a wider folder", policy.WorkspaceWrite, limit("/home/u", write), policy.WorkspaceWrite, []string{"/home/u/app"}, policy.Paths{}, policy.NetworkNone},
		{"a narrower folder", policy.WorkspaceWrite, limit("/home/u/app/sub", write, "/var", write), policy.WorkspaceWrite, []string{"/home/u/app/sub"}, policy.Paths{}, policy.NetworkNone},
		{"another folder", policy.WorkspaceWrite, limit("/home/u/app2", write), policy.ReadOnly, nil, policy.Paths{}, policy.NetworkNone},
		{"everything", policy.WorkspaceWrite, everything, policy.WorkspaceWrite, []string{"/home/u/app", "/tmp"}, policy.Paths{}, policy.NetworkNone},
		{"the client's alone", policy.DangerFullAccess, online(limit("/x", write)), policy.WorkspaceWrite, []string{"/x"}, policy.Paths{}, policy.NetworkAll},
		{"read-only of ours stays", policy.ReadOnly, everything, policy.ReadOnly, nil, policy.Paths{}, policy.NetworkNone},

		{"reading some folders", policy.WorkspaceWrite, &policy.Limit{Rules: pathRules("/usr", read, "/home/u/app", write)}, policy.WorkspaceWrite,
			[]string{"/home/u/app"}, policy.Paths{Restricted: true, Readable: []string{"/usr"}}, policy.NetworkNone},
		{"writing in a folder that is not ours to write", policy.WorkspaceWrite, &policy.Limit{Rules: pathRules("/srv", write)}, policy.ReadOnly,
			nil, policy.Paths{Restricted: true, Readable: []string{"/srv"}}, policy.NetworkNone},
		{"a denied path", policy.WorkspaceWrite, limit("/home/u/app", write, "/home/u/app/secret", deny), policy.WorkspaceWrite,
			[]string{"/home/u/app"}, policy.Paths{Denied: []string{"/home/u/app/secret"}}, policy.NetworkNone},
		{"a hole in a denied path", policy.WorkspaceWrite, limit("/srv", deny, "/srv/www", read), policy.ReadOnly,
			nil, policy.Paths{Denied: []string{"/srv"}, Readable: []string{"/srv/www"}}, policy.NetworkNone},
		{"a path that we hide", policy.WorkspaceWrite, limit("/home/u/.ssh/known_hosts", write, "/home/u/app", write), policy.WorkspaceWrite,
			[]string{"/home/u/app"}, policy.Paths{}, policy.NetworkNone},
		{"a name that we protect", policy.WorkspaceWrite, limit("/home/u/app", write, "/home/u/app/.git", write), policy.WorkspaceWrite,
			[]string{"/home/u/app"}, policy.Paths{}, policy.NetworkNone},
		{"a read-only path", policy.WorkspaceWrite, limit("/home/u/app", write, "/home/u/app/docs", read), policy.WorkspaceWrite,
			[]string{"/home/u/app"}, policy.Paths{ReadOnly: []string{"/home/u/app/docs"}}, policy.NetworkNone},
		{"rules that are none", policy.WorkspaceWrite, limit("relative", write), policy.ReadOnly, nil, policy.Paths{Restricted: true}, policy.NetworkNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := *ours
			p.Mode = tt.ours
			f := p.Within(tt.limit).Profile()
			require.Equal(t, tt.mode.String(), f.Mode.String())
			require.Equal(t, tt.roots, f.WritableRoots)
			require.Equal(t, tt.paths, f.Paths)
			require.Equal(t, tt.net, f.Network)
		})
	}

	client := limit("/home/u/app", write, "/secret", deny)
	client.ReadOnly = []string{"/home/u/app/.aws", "/home/u/app/.git", "/etc", "/home/u/app/a[1]"}
	n := ours.Within(client)
	require.Equal(t, []string{".agents", ".aws", ".claude/settings*.json", ".codex", ".git", ".toolgate", `a\[1]`}, n.Profile().ReadOnlySubpaths)
	require.Equal(t, []string{"/home/u/.ssh"}, n.Profile().Hidden)
	require.Equal(t, []string{"/secret"}, n.Profile().Paths.Denied)
	require.Equal(t, []string{"/home/u/app", "/tmp"}, ours.WritableRoots, "the policy itself is not changed")

	covered := ours.Within(limit("/home/u/app", write, "/home/u/app", read))
	require.Equal(t, policy.ReadOnly, covered.Profile().Mode)
	exact := ours.Within(limit("/home/u/app", write, "/home/u", read))
	require.Equal(t, []string{"/home/u/app"}, exact.Profile().WritableRoots)
}

// What a narrowed policy allows on a path is what both sides allow there.
func FuzzWithin(f *testing.F) {
	f.Add("/=read /a=write /a/b=deny /a/b/c=read", "/=read /a/b=write", "/a/b/c/d")
	f.Add("/a=write", "/=write", "/a")
	f.Add("/=read /a=deny /a/b=write", "/a/b/c=write /a=read", "/a/b")
	f.Fuzz(func(t *testing.T, a, b, at string) {
		as, ok1 := parsePathRules(a)
		bs, ok2 := parsePathRules(b)
		if !ok1 || !ok2 || !isClean(at) {
			t.Skip()
		}
		roots, paths, err := policy.CompilePaths(as)
		require.NoError(t, err)
		ours := &policy.Policy{Mode: policy.WorkspaceWrite, WritableRoots: roots, Paths: paths}
		want := min(accessOf(as, at), accessOf(bs, at))
		require.Equal(t, accessOf(as, at).String(), ours.Profile().Access(at).String(), "our own side")
		got := ours.Within(&policy.Limit{Rules: bs}).Profile().Access(at)
		require.Equal(t, want.String(), got.String())
	})
}
