package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/gate"
	"toolgate/policy"
	"toolgate/server"
	"toolgate/tools"
)

// checkMessage checks that b is JSON, and that its error, if it is one, has a code:
// "Error codes MUST be integers", and 0 says nothing (specification, basic).
func checkMessage(t *testing.T, b []byte) {
	var m struct{ Error *struct{ Code int64 } }
	require.NoError(t, json.Unmarshal(b, &m), "%s", b)
	require.False(t, m.Error != nil && m.Error.Code == 0, "%s", b)
}

// FuzzStdio: whatever a client sends, each line that it gets is a message, and every
// error has a code.
func FuzzStdio(f *testing.F) {
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"look","arguments":{}}}` + "\n"
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}` + "\n"
	for _, lines := range []string{
		call, greeting + "\n" + call + cancel, greeting + "\n" + greeting, cancel + "{}\n[]\n",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":5}`, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`,
		greeting + "\n" + `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":5}}`,
		greeting + "\n" + `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{` + modernCaps + `}}}`,
		`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{` +
			modernCaps + `}}}` + "\n" + cancel,
		`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"_meta":{` + modernCaps + `}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"_meta":{` + modernCaps + `}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":1,"method":"nope"}`,
	} {
		f.Add(lines)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		pol := &policy.Policy{Approval: policy.OnRequest, Workspace: "/w", Confines: func() bool { return true }}
		s := server.New(server.Options{Version: "1", Catalog: []tools.Tool{change, look}, Gate: &gate.Gate{Policy: pol, Run: ran}})
		var out lockedBuffer
		// A stream that only the client ends is ended with the context.
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.NoError(t, s.ServeStdio(ctx, strings.NewReader(lines), &out))
		for line, ok := out.line(); ok; line, ok = out.line() {
			checkMessage(t, []byte(line))
		}
	})
}

// FuzzHTTPPost: whatever is posted gets an answer with a status that we know,
// and every message in it is JSON.
func FuzzHTTPPost(f *testing.F) {
	for _, body := range []string{
		greeting,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{"_meta":{` + modernCaps + `}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":{},"requestState":"x","inputResponses":{"approval":{"action":"accept"}},"_meta":{` + modernCaps + `}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":5}}`,
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"x":5,"_meta":{` + modernCaps + `}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":5,"_meta":{` + modernCaps + `}}}`,
		`{"jsonrpc":"2.0","id":"toolgate-1","error":{"code":1,"message":"m"}}`,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`,
		`{"id":{"id":1}}`, `[]`, `{}`, ``, `null`, "\xff", `{"jsonrpc":"2.0","id":1,"method":"`,
	} {
		f.Add(body, "", "", "", true)
		f.Add(body, "2026-07-28", "tools/call", "look", false)
		f.Add(body, "2025-06-18", "", "", true)
	}
	_, e := webEndpoint(f, server.EndpointOptions{MaxBody: 1 << 16})
	f.Fuzz(func(t *testing.T, body, version, method, name string, inSession bool) {
		// Some requests open a stream that only the client ends.
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, "POST", "/mcp", strings.NewReader(body))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		for key, v := range map[string]string{"Mcp-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name} {
			if v != "" {
				r.Header.Set(key, v)
			}
		}
		w := httptest.NewRecorder()
		if inSession {
			first := httptest.NewRequestWithContext(ctx, "POST", "/mcp", strings.NewReader(greeting))
			first.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			opened := httptest.NewRecorder()
			e.ServeHTTP(opened, first)
			r.Header.Set("Mcp-Session-Id", opened.Header().Get("Mcp-Session-Id"))
		}
		e.ServeHTTP(w, r)
		require.Contains(t, []int{200, 202, 400, 404, 406, 413, 415, 429}, w.Code, "%s", w.Body)
		if w.Header().Get("Content-Type") == "application/json" {
			checkMessage(t, w.Body.Bytes())
		}
		for line := range strings.Lines(w.Body.String()) {
			if data, ok := strings.CutPrefix(line, "data: "); ok && strings.TrimSpace(data) != "" {
				checkMessage(t, []byte(data))
			}
		}
	})
}
