package server

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
)

func TestLimitOf(t *testing.T) {
	const root = `{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}`
	managed := func(network, entries string) string {
		return `{"permissionProfile":{"type":"managed","file_system":{"type":"restricted","entries":[` + entries + `]},"network":"` + network + `"},"sandboxCwd":"file:///w"}`
	}
	rule := func(path string, a policy.Access) policy.PathRule { return policy.PathRule{Path: path, Access: a} }
	reads := []policy.PathRule{rule("/", policy.CanRead)}
	for _, tt := range []struct {
		name, state string
		want        *policy.Limit
	}{
		{"none", ``, nil},
		{"no sandbox", `{"permissionProfile":{"type":"disabled"}}`, &policy.Limit{All: true}},
		{"read-only", managed("restricted", root), &policy.Limit{Rules: reads}},
		{"workspace-write", managed("restricted", root+`,{"path":{"type":"path","path":"/w"},"access":"write"},{"path":{"type":"special","value":{"kind":"slash_tmp"}},"access":"write"},{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"},{"path":{"type":"path","path":"/w/.git"},"access":"read","missing_path_behavior":"skip"}`),
			&policy.Limit{Rules: append(slices.Clone(reads), rule("/w", policy.CanWrite), rule("/tmp", policy.CanWrite), rule("/t", policy.CanWrite)), ReadOnly: []string{"/w/.git"}}},
		{"network", managed("enabled", root), &policy.Limit{Rules: reads, Network: true}},
		{"no limit on files", `{"permissionProfile":{"type":"managed","file_system":{"type":"unrestricted"},"network":"restricted"}}`, &policy.Limit{Rules: []policy.PathRule{rule("/", policy.CanWrite)}}},
		{"a folder by pattern", managed("restricted", root+`,{"path":{"type":"glob_pattern","pattern":"/w/**"},"access":"write"}`), &policy.Limit{Rules: append(slices.Clone(reads), rule("/w", policy.CanWrite))}},
		{"workspace roots", managed("restricted", root+`,{"path":{"type":"special","value":{"kind":"workspace_roots"}},"access":"write"}`), &policy.Limit{Rules: append(slices.Clone(reads), rule("/w", policy.CanWrite))}},
		{"below them", managed("restricted", root+`,{"path":{"type":"special","value":{"kind":"project_roots","subpath":"docs"}},"access":"write"}`), &policy.Limit{Rules: append(slices.Clone(reads), rule("/w/docs", policy.CanWrite))}},
		{"a denied path", managed("restricted", root+`,{"path":{"type":"path","path":"/s"},"access":"deny"}`), &policy.Limit{Rules: append(slices.Clone(reads), rule("/s", policy.NoAccess))}},
		{"a read-only path", managed("restricted", root+`,{"path":{"type":"path","path":"/w/docs"},"access":"read"}`), &policy.Limit{Rules: append(slices.Clone(reads), rule("/w/docs", policy.CanRead))}},
		{"a denied pattern", managed("restricted", root+`,{"path":{"type":"glob_pattern","pattern":"/w/**/*.env"},"access":"deny"}`), &policy.Limit{Rules: append(slices.Clone(reads), policy.PathRule{Path: "/w/**/*.env", Glob: true})}},
		{"reads restricted", managed("restricted", `{"path":{"type":"path","path":"/usr"},"access":"read"}`), &policy.Limit{Rules: []policy.PathRule{rule("/usr", policy.CanRead)}}},
		{"a place to come, given", managed("restricted", root+`,{"path":{"type":"special","value":{"kind":"unknown","path":":cwd"}},"access":"write"}`), &policy.Limit{Rules: reads}},

		{"a pattern that is none", managed("restricted", root+`,{"path":{"type":"glob_pattern","pattern":"/w/[.env"},"access":"deny"}`), &policy.Limit{Rules: reads, Unknown: `denying /w/[.env: pattern "/w/[.env": a bracket or backslash is not closed`}},
		{"a path that is none", managed("restricted", root+`,{"path":{"type":"path","path":"w"},"access":"write"}`), &policy.Limit{Rules: append(slices.Clone(reads), rule("w", policy.CanWrite)), Unknown: `path "w": must be absolute and clean`}},
		{"a place to come, denied", managed("restricted", root+`,{"path":{"type":"special","value":{"kind":"vault"}},"access":"deny"}`), &policy.Limit{Rules: reads, Unknown: `denying vault: unknown place ":vault"`}},
		{"an access to come", managed("restricted", root+`,{"path":{"type":"path","path":"/s"},"access":"append"}`), &policy.Limit{Rules: reads, Unknown: `unknown access "append"`}},
		{"a kind of path to come", managed("restricted", root+`,{"path":{"type":"inode"},"access":"deny"}`), &policy.Limit{Rules: reads, Unknown: `denying inode: a path of type "inode"`}},
		{"a file system to come", `{"permissionProfile":{"type":"managed","file_system":{"type":"new"}}}`, &policy.Limit{Unknown: `a file system of type "new"`}},
		{"a type to come", `{"permissionProfile":{"type":"new"}}`, &policy.Limit{Unknown: `a profile of type "new"`}},
		{"names in another case", `{"permissionProfile":{"type":"managed","Type":"disabled","file_system":{"type":"new"}},"permissionprofile":{"type":"disabled"}}`, &policy.Limit{Unknown: `a file system of type "new"`}},
		{"nonsense", `5`, &policy.Limit{Unknown: "a state that cannot be read"}},
		{"without a profile", `{}`, &policy.Limit{Unknown: "a state that cannot be read"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var state json.RawMessage
			if tt.state != "" {
				state = json.RawMessage(tt.state)
			}
			require.Equal(t, tt.want, limitOf(state, "/t"))
		})
	}
}
