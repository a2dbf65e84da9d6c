package aggregator_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/internal/config"
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

// publicName returns the name of one tool, and requires that it is the same
// beside other tools.
func (s namedServer) publicName(t testing.TB, tool string) string {
	t.Helper()
	prefix := s.prefix
	if prefix == "-" {
		prefix = aggregator.DefaultPrefix(s.name)
	}
	prefix = aggregator.PlainName(prefix)
	alone := aggregator.PublicNames(s.name, prefix, 0, []string{tool})[tool]
	folded := strings.NewReplacer("-", "_", ".", "_", "é", "_").Replace(tool)
	beside := aggregator.PublicNames(s.name, prefix, 0, []string{folded, tool, tool + "_", "another"})[tool]
	require.Equal(t, alone, beside, "%+v %q: the name depends on the server's other tools", s, tool)
	return alone
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
			name := s.publicName(t, tool)
			require.NotEmpty(t, name)
			require.LessOrEqual(t, len(name), aggregator.DefaultNameBudget)
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
		require.NotEqual(t, a.publicName(t, t1), b.publicName(t, t2))
	})
}

// offering is a server with these tools and a prompt and resource of fixed names.
func offering(tools ...string) *fake {
	var list []string
	for _, name := range tools {
		list = append(list, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
	}
	return &fake{script: script{
		"initialize": func(p *peer, m message) error {
			p.result(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{}}}`)
			return nil
		},
		"tools/list":     func(p *peer, m message) error { p.result(m, toolList(list...)); return nil },
		"prompts/list":   func(p *peer, m message) error { p.result(m, `{"prompts":[{"name":"`+tools[0]+`"}]}`); return nil },
		"resources/list": func(p *peer, m message) error { p.result(m, `{"resources":[{"uri":"raw://a"}]}`); return nil },
		"resources/read": func(p *peer, m message) error {
			p.result(m, `{"contents":[{"text":"`+tools[0]+`"}]}`)
			return nil
		},
	}}
}

// TestANameStaysWithItsOwner: which of two servers a name leads to does not
// depend on which of them runs.
func TestANameStaysWithItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := func(specs ...aggregator.Spec) map[string]string {
			s := set(t, specs...)
			defer s.Close()
			found := map[string]string{}
			for _, tool := range s.Tools() {
				found["tool "+tool.Name] = tool.Server
			}
			for _, p := range s.Prompts() {
				found["prompt "+p.Key] = p.Server
			}
			return found
		}
		pair, one := spec("pair", offering("one__two").launch), spec("pair__one", offering("two").launch)
		both := owners(pair, one)
		require.Len(t, both, 4)
		for _, alone := range []map[string]string{owners(pair), owners(one)} {
			require.Len(t, alone, 2)
			for name, server := range alone {
				require.Equal(t, server, both[name], name)
			}
		}
		require.NotContains(t, both, "tool mcp__pair__one__two", "it could be read as either")
	})
}

// TestAToolNamedLikeABuiltInOne has a name of its own, and does not vanish.
func TestAToolNamedLikeABuiltInOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := ""
		bare := spec("bare", offering("shell", "read").launch)
		bare.Prefix = &none
		s := aggregator.NewDownstreams(aggregator.DownstreamOptions{StateDir: t.TempDir(), Reserved: []string{"shell"}})
		defer s.Close()
		s.Update([]aggregator.Spec{bare})
		s.Settle(t.Context(), false)
		list := names(s)
		require.Len(t, list, 2)
		require.NotContains(t, list, "shell")
		require.Contains(t, list, "read")
		i := slices.IndexFunc(list, func(n string) bool { return strings.HasPrefix(n, "shell_") })
		require.GreaterOrEqual(t, i, 0, "%q", list)
		tool, _ := s.Tool(list[i])
		require.Equal(t, "shell", tool.Raw)
	})
}

// TestAURIOfTwoServers: a URI that two servers have leads to neither, and each
// has its own before it, also when the other one is gone.
func TestAURIOfTwoServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := spec("a", offering("from_a").launch), spec("b_b", offering("from_b").launch)
		s := set(t, a, b)
		read := func(uri string) (server string, err error) {
			to, err := s.Target(aggregator.ReadResource, []byte(`{"uri":"`+uri+`"}`))
			return to.Server, err
		}
		_, err := read("raw://a")
		require.ErrorContains(t, err, "a+raw://a")
		require.ErrorContains(t, err, "b-b+raw://a")
		_, err = read("raw://listed-by-nobody")
		require.ErrorContains(t, err, "b-b+raw://listed-by-nobody")
		_, err = s.Target(aggregator.Subscribe, []byte(`{"uri":"raw://a"}`))
		require.ErrorContains(t, err, "b-b+raw://a")
		for uri, want := range map[string]string{"a+raw://a": "a", "b-b+raw://a": "b_b", "b-b+raw://other": "b_b"} {
			got, err := read(uri)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		s.Update([]aggregator.Spec{b})
		for _, uri := range []string{"raw://a", "b-b+raw://a", "raw://other"} {
			got, err := read(uri)
			require.NoError(t, err)
			require.Equal(t, "b_b", got)
		}
		s.Close()
	})
}

// TestAURIThatPosesAsAnothers: what one server lists cannot be mistaken
// for the URI that stands for another's.
func TestAURIThatPosesAsAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poser := offering("poser")
		poser.script["resources/list"] = func(p *peer, m message) error { p.result(m, `{"resources":[{"uri":"b+raw://a"}]}`); return nil }
		s := set(t, spec("a", poser.launch), spec("b", offering("owner").launch))
		to, err := s.Target(aggregator.ReadResource, []byte(`{"uri":"b+raw://a"}`))
		require.NoError(t, err)
		require.Equal(t, aggregator.Target{Server: "b", Arguments: []byte(`{"uri":"raw://a"}`)}, to)
		s.Close()
	})
}
