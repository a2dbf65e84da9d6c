package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/internal/gate"
	"toolgate/policy"
	"toolgate/server"
	"toolgate/tools"
)

// duplicates are params of a tools/call in which a name is repeated: which of
// its values counts depends on who reads them.
var duplicates = []struct{ name, params, repeated string }{
	{"an argument", `"name":"mcp__raw__do_it","arguments":{"a":1,"a":2}`, "a"},
	{"an argument, escaped", `"name":"mcp__raw__do_it","arguments":{"ab":1,"\u0061b":2}`, "ab"},
	{"a slash, escaped", `"name":"mcp__raw__do_it","arguments":{"a/b":1,"a\/b":2}`, "a/b"},
	{"deep in an argument", `"name":"mcp__raw__do_it","arguments":{"o":[{"p":{"q":1,"r":2,"q":1}}]}`, "q"},
	{"arguments", `"name":"mcp__raw__do_it","arguments":{"a":1},"arguments":{"b":2}`, "arguments"},
	{"arguments, escaped", `"name":"mcp__raw__do_it","arguments":{"a":1},"\u0061rguments":{"b":2}`, "arguments"},
	{"the tool", `"name":"look","arguments":{},"name":"mcp__raw__do_it"`, "name"},
	{"in a member that nobody knows", `"name":"mcp__raw__do_it","arguments":{},"x":{"y":1,"y":2}`, "y"},
	{"in _meta", `"name":"mcp__raw__do_it","arguments":{},"_meta":{"k":1,"k":2,` + modernCaps + `}`, "k"},
	{"a surrogate that is none", `"name":"mcp__raw__do_it","arguments":{"\ud800":1,"\udfff":2}`, "\uFFFD"},
}

// duplicateError checks that an answer refuses the request id for a repeated name.
func duplicateError(t *testing.T, raw, id, name string) {
	t.Helper()
	var answer struct {
		ID    json.RawMessage `json:"id"`
		Error struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(raw), &answer), "%s", raw)
	require.Equal(t, id, string(answer.ID))
	require.Equal(t, -32600, answer.Error.Code, "%s", raw)
	require.Contains(t, answer.Error.Message, fmt.Sprintf("duplicate name %q", name))
}

// noCall answers for a server that must not be called.
func noCall(t *testing.T) func(write func(string, ...any), m line) {
	return func(write func(string, ...any), m line) {
		if !legacyBack(write, m) && m.Method == "tools/call" {
			t.Errorf("the server was called: %s", m.Raw)
		}
	}
}

func TestDuplicateNamesAreRefused(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for _, tt := range duplicates {
			params := tt.params
			if modern && !strings.Contains(params, `"_meta"`) {
				params += `,"_meta":{` + modernCaps + `}`
			}
			t.Run(fmt.Sprintf("stdio/%s/modern=%v", tt.name, modern), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFront(t, policy.ApproveAlways, noCall(t), look)
					defer f.close()
					if !modern {
						f.initialize()
					}
					f.send(`{"jsonrpc":"2.0","id":"d1","method":"tools/call","params":{%s}}`, params)
					duplicateError(t, f.next().Raw, `"d1"`, tt.repeated)
					f.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"nope","_meta":{%s}}}`, modernCaps)
					require.Contains(t, f.next().Raw, "unknown tool", "the next line is read")
				})
			})
			t.Run(fmt.Sprintf("HTTP/%s/modern=%v", tt.name, modern), func(t *testing.T) {
				web(t, server.EndpointOptions{}, noCall(t), func(t *testing.T, c *webClient, _ *aggregator.Downstreams) {
					headers := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "mcp__raw__do_it"}
					if !modern {
						c.initialize()
						headers = nil
					}
					x := c.do("POST", `{"jsonrpc":"2.0","id":"d1","method":"tools/call","params":{`+params+`}}`, headers...)
					require.Equal(t, http.StatusBadRequest, x.status(), x.text())
					duplicateError(t, x.text(), `"d1"`, tt.repeated)
				})
			})
		}
	}
}

// TestDuplicateNamesInOtherMessages: no method and no part of a message is an
// exception, and the id is given back only where there is one.
func TestDuplicateNamesInOtherMessages(t *testing.T) {
	for _, tt := range []struct{ name, message, id, repeated string }{
		{"a prompt", `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"mcp__raw__ask_me","arguments":{"a":"1","a":"2"}}}`, `1`, "a"},
		{"a method", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, `1`, "method"},
		{"params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}`, `1`, "params"},
		{"what nobody knows", `{"jsonrpc":"2.0","id":1,"method":"ping","x":1,"x":1}`, `1`, "x"},
		{"two ids", `{"jsonrpc":"2.0","id":1,"method":"ping","id":2}`, `null`, "id"},
		{"two ids, one escaped", `{"jsonrpc":"2.0","id":1,"method":"ping","\u0069d":2}`, `null`, "id"},
		{"an id that is none", `{"jsonrpc":"2.0","id":{},"method":"ping","x":1,"x":1}`, `null`, "x"},
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":2}}`, `null`, "requestId"},
		{"an answer, whose id is ours", `{"jsonrpc":"2.0","id":1,"result":{"action":"decline","action":"accept"}}`, `null`, "action"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFront(t, policy.ApproveAlways, noCall(t))
				defer f.close()
				f.initialize()
				f.send("%s", tt.message)
				duplicateError(t, f.next().Raw, tt.id, tt.repeated)
				f.send(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
				require.Contains(t, f.next().Raw, `"id":7,"result":{}`)
			})
			web(t, server.EndpointOptions{}, noCall(t), func(t *testing.T, c *webClient, _ *aggregator.Downstreams) {
				x := c.initialize().do("POST", tt.message)
				require.Equal(t, http.StatusBadRequest, x.status(), x.text())
				duplicateError(t, x.text(), tt.id, tt.repeated)
			})
		})
	}
}

// TestADuplicateNameIsNoApproval: an answer with a repeated name is no answer.
func TestADuplicateNameIsNoApproval(t *testing.T) {
	const yes = `{"action":"decline","action":"accept","content":{"decision":"once"}}`
	never := func(context.Context, gate.Call, policy.Profile) (gate.Outcome, error) {
		t.Error("the call ran")
		return gate.Outcome{}, nil
	}
	gated(t, server.EndpointOptions{}, never, func(t *testing.T, c *webClient, _ *server.Server) {
		x := c.initialize().post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"change","arguments":{"path":"a"}}}`)
		q := x.next()
		<-time.After(time.Second)
		require.Equal(t, http.StatusBadRequest, c.post(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, yes).status())
		x.quiet()
	})
	gated(t, server.EndpointOptions{}, never, func(t *testing.T, c *webClient, _ *server.Server) {
		const params = `"name":"change","arguments":{"path":"a"}`
		var res struct {
			State string `json:"requestState"`
		}
		require.NoError(t, json.Unmarshal(c.modern(1, "tools/call", "change", params).next().Result, &res))
		x := c.modern(2, "tools/call", "change", fmt.Sprintf(`%s,"requestState":%q,"inputResponses":{"approval":%s}`, params, res.State, yes))
		require.Equal(t, http.StatusBadRequest, x.status(), x.text())
	})
}

// TestCallRefusesDuplicateNames: arguments that come from the command line or
// from a hook have been through no transport.
func TestCallRefusesDuplicateNames(t *testing.T) {
	var events []gate.Event
	hooked := false
	g := &gate.Gate{
		Policy: &policy.Policy{Approval: policy.OnRequest, Mode: policy.DangerFullAccess, Workspace: "/w"},
		Run: func(_ context.Context, c gate.Call, _ policy.Profile) (gate.Outcome, error) {
			t.Errorf("the call ran with %s", c.Arguments)
			return gate.Outcome{}, nil
		},
		Before: func(_ context.Context, c *gate.Call) error {
			hooked = true
			c.Arguments = json.RawMessage(`{"path":"a","path":"b"}`)
			return nil
		},
		Record: func(e gate.Event) { events = append(events, e) },
	}
	s := server.New(server.Options{Version: "1", Catalog: []tools.Tool{change}, Gate: g})

	reply, err := s.Call(t.Context(), "cli", "change", json.RawMessage(`{"path":"a","p\u0061th":"b"}`), nil)
	require.NoError(t, err)
	require.True(t, reply.IsError)
	require.Contains(t, string(reply.Result), `duplicate name \"path\"`)
	require.False(t, hooked, "no hook sees it")
	require.Equal(t, "invalid", events[0].Outcome)
	require.Empty(t, events[0].Args)

	reply, err = s.Call(t.Context(), "cli", "change", json.RawMessage(`{"path":"a"}`), nil)
	require.NoError(t, err)
	require.True(t, hooked)
	require.True(t, reply.Refused)
	require.Contains(t, string(reply.Result), `duplicate name \"path\"`)

	synctest.Test(t, func(t *testing.T) {
		s, set := newServer(t, policy.ApproveAlways, noCall(t))
		defer set.Close()
		for _, args := range []string{`{"a":1,"a":2}`, `{"a":1},"arguments":{"b":2}`} {
			reply, err := s.Call(t.Context(), "cli", "mcp__raw__do_it", json.RawMessage(args), nil)
			require.NoError(t, err)
			require.True(t, reply.IsError, args)
		}
	})
}

// TestTwoNamesOfOneArgument: a property that is published under another name
// may be sent under either, but not under both.
func TestTwoNamesOfOneArgument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
			switch {
			case m.Method == "tools/list":
				write(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"do_it","inputSchema":{"type":"object","properties":{"a b":{"type":"string"}}}}]}}`, m.ID)
			case m.Method == "tools/call":
				write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"sent":%s}}`, m.ID, m.Params)
			default:
				legacyBack(write, m)
			}
		})
		defer f.close()
		f.initialize()
		f.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__raw__do_it","arguments":{"a_b":"1"}}}`)
		require.Contains(t, f.next().Raw, `"arguments":{"a b":"1"}`)
		f.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mcp__raw__do_it","arguments":{"a_b":"1","a b":"2"}}}`)
		got := f.next().Raw
		require.NotContains(t, got, `"sent"`)
		require.Contains(t, got, `\"a_b\" and \"a b\" are the same argument`)
	})
}
