package aggregator_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// stateless answers like a well-behaved stateless server with these tools.
func stateless(w http.ResponseWriter, m message, tools ...string) {
	switch m.Method {
	case "server/discover":
		answerJSON(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
	case "tools/list":
		answerJSON(w, m, `{"resultType":"complete","ttlMs":3600000,"tools":[`+strings.Join(tools, ",")+`]}`)
	case "tools/call":
		answerJSON(w, m, `{"resultType":"complete","content":[]}`)
	default:
		http.Error(w, "", http.StatusNotFound)
	}
}

func TestArgumentsInHeaders(t *testing.T) {
	tool := `{"name":"q","inputSchema":{"type":"object","properties":{"re gion":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"b":{"type":"boolean","x-mcp-header":"B"},"o":{"type":"object","properties":{"in":{"type":"string","x-mcp-header":"In"}}},"plain":{"type":"string"}}}}`
	var mu sync.Mutex
	var seen http.Header
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if m.Method == "tools/call" {
			mu.Lock()
			seen = r.Header.Clone()
			mu.Unlock()
		}
		stateless(w, m, tool)
	})
	s := set(t, webSpec(w))
	_, err := call(t.Context(), s, "web", "q", `{"re_gion":" padded é","n":9007199254740993,"b":false,"o":{"in":"x"},"plain":"y"}`)
	require.NoError(t, err)
	require.Equal(t, "=?base64?IHBhZGRlZCDDqQ==?=", seen.Get("Mcp-Param-Region"), "by the server's own name")
	require.Equal(t, "9007199254740993", seen.Get("Mcp-Param-N"))
	require.Equal(t, "false", seen.Get("Mcp-Param-B"))
	require.Equal(t, "x", seen.Get("Mcp-Param-In"))
	_, err = call(t.Context(), s, "web", "q", `{"re_gion":null}`)
	require.NoError(t, err)
	for name := range seen {
		require.False(t, strings.HasPrefix(name, "Mcp-Param-"), name)
	}
}

func TestToolsWithInvalidHeaders(t *testing.T) {
	with := func(name, props string) string {
		return `{"name":"` + name + `","inputSchema":{"type":"object","properties":{` + props + `}}}`
	}
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		stateless(w, m,
			with("good", `"a":{"type":"string","x-mcp-header":"A"},"x-mcp-header":{"type":"string"},"e":{"enum":["x-mcp-header"]}`),
			with("empty", `"a":{"type":"string","x-mcp-header":""}`),
			with("number", `"a":{"type":"string","x-mcp-header":3}`),
			with("space", `"a":{"type":"string","x-mcp-header":"A B"}`),
			with("crlf", `"a":{"type":"string","x-mcp-header":"A\r\nX: y"}`),
			with("object", `"a":{"type":"object","x-mcp-header":"A"}`),
			with("float", `"a":{"type":"number","x-mcp-header":"A"}`),
			with("untyped", `"a":{"x-mcp-header":"A"}`),
			with("twice", `"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}`),
			with("items", `"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}`),
			with("union", `"a":{"anyOf":[{"type":"string","x-mcp-header":"A"}]}`),
		)
	})
	s := set(t, webSpec(w))
	require.Equal(t, []string{"mcp__web__good"}, names(s))
	require.Len(t, s.Status()[0].Faults, 10)
	require.Contains(t, s.Status()[0].Faults[0], "x-mcp-header")
}

// A server that refuses our version once but lists it as supported is asked again
// rather than treated as session-based.
func TestARefusedVersionThatIsSupported(t *testing.T) {
	var refused atomic.Bool
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if refused.CompareAndSwap(false, true) {
			w.WriteHeader(http.StatusBadRequest)
			w.Write([]byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}`))
			return
		}
		stateless(w, m, okTool)
	})
	s := set(t, webSpec(w))
	require.Equal(t, "2026-07-28", s.Status()[0].Server)
	require.NotContains(t, w.log(), "initialize")
}
