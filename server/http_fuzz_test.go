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

	"toolgate/server"
)

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
			require.True(t, json.Valid(w.Body.Bytes()), "%s", w.Body)
		}
		for line := range strings.Lines(w.Body.String()) {
			if data, ok := strings.CutPrefix(line, "data: "); ok && strings.TrimSpace(data) != "" {
				require.True(t, json.Valid([]byte(data)), "%s", data)
			}
		}
	})
}
