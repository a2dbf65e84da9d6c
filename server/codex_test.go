package server

import (
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"toolgate/policy"
)

func TestLimitOf(t *testing.T) {
	const root = `{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}`
	managed := func(network, entries string) string {
		return `{"permissionProfile":{"type":"managed","file_system":{"type":"restricted","entries":[` + entries + `]},"network":"` + network + `"},"sandboxCwd":"file:///w"}`
	}
	for _, tt := range []struct {
		name, state string
		want        *policy.Limit
	}{
		{"none", ``, nil},
		{"no sandbox", `{"permissionProfile":{"type":"disabled"}}`, &policy.Limit{All: true}},
		{"read-only", managed("restricted", root), &policy.Limit{}},
		{"workspace-write", managed("restricted", root+`,{"path":{"type":"path","path":"/w"},"access":"write"},{"path":{"type":"special","value":{"kind":"slash_tmp"}},"access":"write"},{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"},{"path":{"type":"path","path":"/w/.git"},"access":"read","missing_path_behavior":"skip"}`),
			&policy.Limit{Writable: []string{"/w", "/tmp", "/t"}, ReadOnly: []string{"/w/.git"}}},
		{"network", managed("enabled", root), &policy.Limit{Network: true}},
		{"a folder by pattern", managed("restricted", root+`,{"path":{"type":"glob","pattern":"/w/**"},"access":"write"}`), &policy.Limit{Writable: []string{"/w"}}},
		{"workspace roots", managed("restricted", root+`,{"path":{"type":"special","value":{"kind":"workspace_roots"}},"access":"write"}`), &policy.Limit{Writable: []string{"/w"}}},
		{"a denied path", managed("restricted", root+`,{"path":{"type":"path","path":"/s"},"access":"deny"}`), &policy.Limit{Hidden: []string{"/s"}}},
		{"a denied pattern", managed("restricted", root+`,{"path":{"type":"glob","pattern":"**/*.env"},"access":"deny"}`), &policy.Limit{Unknown: "denying the pattern **/*.env"}},
		{"reads restricted", managed("restricted", `{"path":{"type":"path","path":"/usr"},"access":"read"}`), &policy.Limit{ReadOnly: []string{"/usr"}, Unknown: "reading only some folders"}},
		{"a type to come", `{"permissionProfile":{"type":"new"}}`, &policy.Limit{Unknown: `a profile of type "new"`}},
		{"nonsense", `5`, &policy.Limit{Unknown: "a state that cannot be read"}},
		{"without a profile", `{}`, &policy.Limit{Unknown: "a state that cannot be read"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			meta := mcp.Meta{}
			if tt.state != "" {
				var v any
				require.NoError(t, json.Unmarshal([]byte(tt.state), &v))
				meta[sandboxStateKey] = v
			}
			require.Equal(t, tt.want, limitOf(meta, "/t"))
		})
	}
}
