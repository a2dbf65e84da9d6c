package aggregator_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/aggregator/schema"
)

// offering returns a server with these tools, a prompt and a resource.
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

// TestANameStaysWithItsOwner checks that the owner of a name does not depend on which
// servers are running.
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

// TestAToolNamedLikeABuiltInOne checks that such a tool is published under another name.
func TestAToolNamedLikeABuiltInOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := ""
		bare := spec("bare", offering("shell", "read").launch)
		bare.Prefix = &none
		s := aggregator.NewDownstreams(aggregator.DownstreamOptions{StateDir: t.TempDir(), Reserved: []string{"shell"}})
		defer s.Close()
		s.Update([]aggregator.Spec{bare})
		s.WaitListed(t.Context(), false)
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

// TestAURIOfTwoServers checks that a URI of two servers is ambiguous, and that each
// resource is published with its server's prefix.
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

// TestAURIWithAnotherServersPrefix checks that a server cannot list a URI that is
// mistaken for another server's.
func TestAURIWithAnotherServersPrefix(t *testing.T) {
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

// The arguments of a tool with an adapted schema are forwarded unchanged.
func TestProfilesOfATool(t *testing.T) {
	f := &fake{script: script{"tools/list": func(p *peer, m message) error {
		p.result(m, toolList(`{"name":"echo","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/P"}},"$defs":{"P":{"type":"object","properties":{"n":{"type":["integer","null"]}}}}}}`))
		return nil
	}}}
	s := set(t, spec("raw", f.launch))
	tool := s.Tools()[0]
	require.Contains(t, string(tool.DefinitionFor(schema.Plain)), "$ref")
	require.Contains(t, string(tool.DefinitionFor("")), "$ref")
	gemini := string(tool.DefinitionFor(schema.Gemini))
	require.NotContains(t, gemini, "$ref")
	require.Contains(t, gemini, `"nullable":true`)
	require.Equal(t, gemini, string(tool.DefinitionFor(schema.Gemini)))
	got, err := call(t.Context(), s, "raw", "echo", `{"a": {"n":9007199254740993}}`)
	require.NoError(t, err)
	require.Contains(t, got, `{\"a\": {\"n\":9007199254740993}}`)
}

func TestASchemaOverItsLimit(t *testing.T) {
	f := &fake{script: script{"tools/list": func(p *peer, m message) error {
		p.result(m, toolList(`{"name":"echo","inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"`+strings.Repeat("x", 500)+`"}}}}`))
		return nil
	}}}
	one := spec("raw", f.launch)
	one.SchemaMax = 200
	s := set(t, one)
	require.Equal(t, []string{"mcp__raw__echo"}, names(s))
	require.NotContains(t, string(s.Tools()[0].Definition), "xxx")
	require.Contains(t, string(s.Tools()[0].Definition), `"a":{"type":"string"}`)
	require.Empty(t, s.Status()[0].Faults)
}
