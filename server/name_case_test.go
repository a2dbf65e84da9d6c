package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
	"toolgate/policy"
	"toolgate/server"
	"toolgate/tools"
)

// TestNamesInAnotherCaseAreUnknown: a name that differs from a known one by its
// case takes nothing's place. One that differs by its escapes is the same.
func TestNamesInAnotherCaseAreUnknown(t *testing.T) {
	for _, tt := range []struct{ name, params, meta, arguments string }{
		{"_meta", `"name":"mcp__raw__do_it","arguments":{"a":1},"_meta":{"k":"sent"},"_META":{"k":"other"}`, `{"k":"sent"}`, `{"a":1}`},
		{"_meta alone", `"name":"mcp__raw__do_it","arguments":{"a":1},"_Meta":{"k":"other"}`, ``, `{"a":1}`},
		{"_meta, escaped", `"n\u0061me":"mcp__raw__do_it","\u0061rguments":{"a":1},"\u005fmeta":{"k":"sent"}`, `{"k":"sent"}`, `{"a":1}`},
		{"arguments", `"name":"mcp__raw__do_it","arguments":{"a":1},"Arguments":{"a":2}`, ``, `{"a":1}`},
		{"the tool", `"Name":"nope","name":"mcp__raw__do_it","NAME":"nope","arguments":{}`, ``, `{}`},
		{"arguments are the server's to read", `"name":"mcp__raw__do_it","arguments":{"a":1,"A":2}`, ``, `{"a":1,"A":2}`},
		{"the protocol version", `"name":"mcp__raw__do_it","arguments":{},"_Meta":{` + modernCaps + `}`, ``, `{}`},
	} {
		var got struct {
			Meta      json.RawMessage `json:"_meta"`
			Arguments json.RawMessage `json:"arguments"`
		}
		back := func(write func(string, ...any), m line) {
			if !legacyBack(write, m) && m.Method == "tools/call" {
				var all map[string]json.RawMessage
				_ = json.Unmarshal(m.Params, &all) // params of ours are valid
				got.Meta, got.Arguments = all["_meta"], all["arguments"]
				write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
			}
		}
		check := func(t *testing.T, answer string) {
			require.Contains(t, answer, `"result":{"content":[]}`)
			require.Equal(t, tt.arguments, string(got.Arguments))
			require.Equal(t, tt.meta, string(got.Meta))
		}
		t.Run("stdio/"+tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFront(t, policy.ApproveAlways, back)
				defer f.close()
				f.initialize()
				f.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{%s}}`, tt.params)
				check(t, f.next().Raw)
			})
		})
		t.Run("HTTP/"+tt.name, func(t *testing.T) {
			web(t, server.EndpointOptions{}, back, func(t *testing.T, c *webClient, _ *aggregator.Downstreams) {
				check(t, c.initialize().post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{%s}}`, tt.params).next().Raw)
			})
		})
	}
}

// TestAHeaderGivenTwiceIsRefused: whichever of its values agrees with the body.
func TestAHeaderGivenTwiceIsRefused(t *testing.T) {
	web(t, server.EndpointOptions{}, noCall(t), func(t *testing.T, c *webClient, _ *aggregator.Downstreams) {
		const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":{"path":"a"},"_meta":{` + modernCaps + `}}}`
		for header, other := range map[string]string{"Mcp-Name": "change", "Mcp-Method": "ping", "Mcp-Protocol-Version": "2025-11-25"} {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/mcp", strings.NewReader(body))
			for k, v := range map[string]string{
				"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
				"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "look",
			} {
				r.Header.Set(k, v)
			}
			r.Header.Add(header, other)
			w := httptest.NewRecorder()
			c.e.ServeHTTP(w, r)
			require.Equal(t, http.StatusBadRequest, w.Code, header)
			require.Contains(t, w.Body.String(), header+" must be given once")
		}
	})
}

// TestResultTypeIsThereOnce: also if the server writes the name with escapes, a stateless
// client's result gets no second one.
func TestResultTypeIsThereOnce(t *testing.T) {
	for _, result := range []string{
		`{"messages":[],"result\u0054ype":"complete"}`,
		`{"messages":[],"resultType":"complete"}`,
		`{"messages":[],"ResultType":"complete"}`,
	} {
		back := func(write func(string, ...any), m line) {
			if !legacyBack(write, m) && m.Method == "prompts/get" {
				write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			f := newFront(t, policy.ApproveAlways, back)
			defer f.close()
			f.send(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"mcp__raw__ask_me","_meta":{%s}}}`, modernCaps)
			got := f.next()
			require.NoError(t, rawjson.Unique(got.Result), got.Raw)
			o, err := rawjson.Parse(got.Result)
			require.NoError(t, err)
			require.Equal(t, "complete", o.Text("resultType"))
		})
	}
}

// TestAnAnswerInAnotherCaseIsNone: what the user's client says beside its
// answer takes nothing's place in it.
func TestAnAnswerInAnotherCaseIsNone(t *testing.T) {
	for _, answer := range []string{
		`{"action":"decline","Action":"accept","content":{"decision":"once"}}`,
		`{"action":"accept","Content":{"decision":"once"}}`,
		`{"action":"accept","content":{"Decision":"once"}}`,
	} {
		never := func(context.Context, gate.Call, policy.Profile) (gate.Outcome, error) {
			t.Errorf("the call ran after %s", answer)
			return gate.Outcome{}, nil
		}
		const params = `"name":"change","arguments":{"path":"a"}`
		gated(t, server.EndpointOptions{}, never, func(t *testing.T, c *webClient, _ *server.Server) {
			x := c.initialize().post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{%s}}`, params)
			c.post(`{"jsonrpc":"2.0","id":%s,"result":%s}`, x.next().ID, answer)
			require.Contains(t, x.next().Raw, "denied")
		})
		gated(t, server.EndpointOptions{}, never, func(t *testing.T, c *webClient, _ *server.Server) {
			var res struct {
				State string `json:"requestState"`
			}
			require.NoError(t, json.Unmarshal(c.modern(1, "tools/call", "change", params).next().Result, &res))
			x := c.modern(2, "tools/call", "change", fmt.Sprintf(`%s,"requestState":%q,"inputResponses":{"approval":%s}`, params, res.State, answer))
			require.Contains(t, x.next().Raw, "denied")
		})
		synctest.Test(t, func(t *testing.T) {
			var res struct {
				State string `json:"requestState"`
			}
			g := &gate.Gate{Policy: &policy.Policy{Approval: policy.Untrusted, Mode: policy.WorkspaceWrite, Workspace: "/w"}, Run: never}
			f := stdio(t, server.New(server.Options{Version: "1", Catalog: []tools.Tool{change}, Gate: g}))
			defer f.close()
			f.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{%s,"_meta":{%s}}}`, params, modernCaps)
			require.NoError(t, json.Unmarshal(f.next().Result, &res))
			f.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{%s,"_meta":{%s},"requestState":%q,"inputResponses":{"approval":%s}}}`, params, modernCaps, res.State, answer)
			require.Contains(t, f.next().Raw, "denied")
		})
	}
}

// TestATraceInAnotherCaseIsNone: the record has what a server would read.
func TestATraceInAnotherCaseIsNone(t *testing.T) {
	var events []gate.Event
	g := &gate.Gate{Policy: &policy.Policy{Approval: policy.Never, Workspace: "/w"}, Run: ran, Record: func(e gate.Event) { events = append(events, e) }}
	for _, tt := range []struct{ meta, want string }{
		{`{"traceparent":"00-a","TraceParent":"00-b"}`, "00-a"},
		{`{"Traceparent":"00-b"}`, ""},
		{`{"trace\u0070arent":"00-c"}`, "00-c"},
		{`{"traceparent":1}`, ""},
	} {
		_, err := g.Call(t.Context(), gate.Call{Action: policy.Action{Tool: "look", ReadOnly: true}, Meta: json.RawMessage(tt.meta)})
		require.NoError(t, err)
		require.Equal(t, tt.want, events[len(events)-1].TraceParent, tt.meta)
	}
}
