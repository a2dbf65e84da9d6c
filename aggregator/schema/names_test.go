package schema_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator/schema"
	"toolgate/internal/config"
	"toolgate/policy"
)

// A namedServer is a server as far as the names of its tools depend on it.
type namedServer struct {
	name   string
	prefix string // "-" for the default one
}

func (s namedServer) entry() config.MCPServer {
	m := config.MCPServer{Command: "x"}
	if s.prefix != "-" {
		m.Prefix = &s.prefix
	}
	return m
}

// publicName returns the name of one tool.
func (s namedServer) publicName(tool string) string {
	prefix := s.prefix
	if prefix == "-" {
		prefix = policy.ToolPrefix(s.name)
	}
	return schema.PublicName(s.name, policy.PlainName(prefix), 0, tool)
}

// refused reports whether the config refuses the two servers side by side.
func refused(a, b namedServer) bool {
	_, err := config.AddServers(nil, map[string]config.MCPServer{a.name: a.entry(), b.name: b.entry()})
	return err != nil
}

// words returns all words over the letters up to a length.
func words(letters string, length int) []string {
	list := []string{""}
	for i := 0; len(list[i]) < length; i++ {
		for _, l := range letters {
			list = append(list, list[i]+string(l))
		}
	}
	return list[1:]
}

// TestPublishedNamesDiffer: no two tools have one name, whatever their names
// are made of, unless the config refuses their servers.
func TestPublishedNamesDiffer(t *testing.T) {
	var servers []namedServer
	for _, name := range words("a_-.A", 3) {
		servers = append(servers, namedServer{name, "-"})
	}
	long := strings.Repeat("server", 10)
	for _, name := range []string{"pair", "pair__one", "pair_", "_pair", "a__a", "a__a__a", long, long + "1"} {
		servers = append(servers, namedServer{name, "-"})
	}
	for i, prefix := range []string{"", "a", "a_", "a_a_", "a__", "a__a__", "mcp__", "mcp__a", "mcp__pair__", long, "a.", "é"} {
		servers = append(servers, namedServer{"own" + strings.Repeat("x", i), prefix})
	}
	tools := append(words("a_-.é", 3), "one__two", "two", "_two", "a_a__a", "a__a", "mcp__a__a", "mcp__pair__one__two", "shell", "\x00", "a\x00a",
		strings.Repeat("t", 60), strings.Repeat("t", 61), "a_0123456789ab", "a_81b5af806cd7")
	type pair struct {
		server namedServer
		tool   string
	}
	owner := map[string][]pair{}
	for _, s := range servers {
		for _, tool := range tools {
			name := s.publicName(tool)
			require.NotEmpty(t, name)
			require.LessOrEqual(t, len(name), schema.DefaultNameBudget)
			require.Empty(t, strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"))
			owner[name] = append(owner[name], pair{s, tool})
		}
	}
	for name, pairs := range owner {
		for i, p := range pairs {
			for _, q := range pairs[:i] {
				require.NotEqual(t, p.server, q.server, "%s is %q and %q", name, p.tool, q.tool)
				require.True(t, refused(p.server, q.server), "%s is %+v and %+v", name, p, q)
			}
		}
	}
}

func FuzzPublishedNamesDiffer(f *testing.F) {
	f.Add("pair", "one__two", "pair__one", "two")
	f.Add("my-server", "a", "my_server", "a")
	f.Add("a", "b-c", "a", "b_c")
	f.Add("a", "_b", "a_", "b")
	f.Fuzz(func(t *testing.T, s1, t1, s2, t2 string) {
		a, b := namedServer{s1, "-"}, namedServer{s2, "-"}
		if t1 == "" || t2 == "" || s1 == s2 && t1 == t2 {
			t.Skip()
		}
		if s1 != s2 && refused(a, b) {
			t.Skip()
		}
		require.NotEqual(t, a.publicName(t1), b.publicName(t2))
	})
}

func TestPublicNames(t *testing.T) {
	raw := []string{"dash-name", "dash_name", "plain", strings.Repeat("x", 60), "dotted.name/with-dash", "é", "_hidden", "two__words", "a_0123456789ab"}
	names := map[string]string{}
	for _, r := range raw {
		names[r] = schema.PublicName("fake", "mcp__fake__", 0, r)
	}
	require.Equal(t, "mcp__fake__plain", names["plain"])
	require.Equal(t, "mcp__fake__dash_name", names["dash_name"])
	require.Equal(t, "mcp__fake__dash-name", names["dash-name"])
	require.Equal(t, "mcp__fake__dotted_name_with_5f4f2c22debc", names["dotted.name/with-dash"])
	for _, hashed := range []string{"é", "_hidden", "two__words", "a_0123456789ab"} {
		require.Regexp(t, "^mcp__fake__.*_[0-9a-f]{12}$", names[hashed])
		require.NotEqual(t, "mcp__fake__"+hashed, names[hashed])
	}
	for r, n := range names {
		require.LessOrEqual(t, len(n), schema.DefaultNameBudget, r)
	}
	require.Equal(t, "read-file", schema.PublicName("s", "", 0, "read-file"))
	require.Equal(t, "mcp__a_b__", policy.ToolPrefix("a.b"))
}
