package server_test

import (
	"context"
	"encoding/json"
	"fmt"
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

// askingWhile is a server of the older era that asks the client something
// before it answers anything but a list.
func askingWhile(method string) func(func(string, ...any), line) {
	waiting := map[string]json.RawMessage{}
	return func(write func(string, ...any), m line) {
		switch {
		case legacyBack(write, m):
		case strings.HasPrefix(string(m.ID), `"q`):
			write(`{"jsonrpc":"2.0","id":%s,"result":{"big":9007199254740993,"answer":%s}}`, waiting[string(m.ID)], string(m.Result)+string(m.Error))
		case m.Method != "" && len(m.ID) > 0:
			key := `"q` + string(m.ID) + `"`
			waiting[key] = m.ID
			write(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, key, method, question)
		}
	}
}

// An inquiry is a result that asks for input.
type inquiry struct {
	Type     string                     `json:"resultType"`
	Requests map[string]json.RawMessage `json:"inputRequests"`
	State    string                     `json:"requestState"`
}

func inquiryOf(t *testing.T, m line) inquiry {
	t.Helper()
	var in inquiry
	require.NoError(t, json.Unmarshal(m.Result, &in), m.Raw)
	require.Equal(t, "input_required", in.Type, m.Raw)
	require.Len(t, in.Requests, 1)
	return in
}

// The requests other than calls in whose course a server may ask.
var asking = []struct{ method, name, params, other string }{
	{"prompts/get", "mcp__raw__ask_me", `"name":"mcp__raw__ask_me","arguments":{"a":"1"}`, `"name":"mcp__raw__ask_me","arguments":{"a":"2"}`},
	{"resources/read", "raw://a", `"uri":"raw://a"`, `"uri":"raw://b"`},
}

func TestANewerClientIsAskedWhileItGets(t *testing.T) {
	for _, tt := range asking {
		for _, ask := range []string{"elicitation/create", "sampling/createMessage", "roots/list"} {
			t.Run(tt.method+" "+ask, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFront(t, policy.ApproveAlways, askingWhile(ask))
					defer f.close()
					send := func(params, more string) line {
						f.send(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{%s}%s}}`, tt.method, params, modernCaps, more)
						return f.next()
					}
					in := inquiryOf(t, send(tt.params, ""))
					require.JSONEq(t, fmt.Sprintf(`{"method":%q,"params":%s}`, ask, question), string(in.Requests["q1"]))
					require.Contains(t, string(in.Requests["q1"]), "9007199254740993")

					retry := func(state, answers string) string {
						return fmt.Sprintf(`,"requestState":%q,"inputResponses":{%s}`, state, answers)
					}
					require.Contains(t, string(send(tt.other, retry(in.State, `"q1":`+answered)).Error), "belongs to another call")
					f.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mcp__raw__do_it","_meta":{%s}%s}}`, modernCaps, retry(in.State, `"q1":`+answered))
					require.Contains(t, string(f.next().Error), "belongs to another call")

					again := inquiryOf(t, send(tt.params, retry(in.State, "")))
					require.NotEqual(t, in.State, again.State)
					require.Contains(t, string(send(tt.params, retry(in.State, `"q1":`+answered)).Error), "used before")
					got := send(tt.params, retry(again.State, `"q1":`+answered))
					require.Contains(t, string(got.Result), `"big":9007199254740993,"answer":`+answered)
					require.Contains(t, string(got.Result), `"resultType":"complete"`)
					require.Contains(t, string(send(tt.params, retry(again.State, `"q1":`+answered)).Error), "used before")
				})
			})
		}
	}
}

func TestANewerClientIsAskedWhileItGetsOverHTTP(t *testing.T) {
	for _, tt := range asking {
		t.Run(tt.method, func(t *testing.T) {
			web(t, server.EndpointOptions{}, askingWhile("elicitation/create"), func(t *testing.T, c *webClient, _ *aggregator.Downstreams) {
				in := inquiryOf(t, c.modern(1, tt.method, tt.name, tt.params).next().line)
				more := fmt.Sprintf(`%s,"requestState":%q,"inputResponses":{"q1":%s}`, tt.params, in.State, answered)
				got := c.modern(2, tt.method, tt.name, more).next()
				require.Contains(t, string(got.Result), `"big":9007199254740993,"answer":`+answered)
				require.Contains(t, c.modern(3, tt.method, tt.name, more).text(), "used before")
			})
		})
	}
}

// A pending request belongs to its caller.
func TestAPendingRequestIsItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, set := newServer(t, policy.ApproveAlways, askingWhile("elicitation/create"))
		one := &webClient{t: t, e: s.NewEndpoint(server.EndpointOptions{Caller: "token:one"})}
		two := &webClient{t: t, e: s.NewEndpoint(server.EndpointOptions{Caller: "token:two"})}
		defer set.Close()
		defer one.e.Close()
		defer two.e.Close()
		in := inquiryOf(t, one.modern(1, "resources/read", "raw://a", `"uri":"raw://a"`).next().line)
		more := fmt.Sprintf(`"uri":"raw://a","requestState":%q,"inputResponses":{"q1":%s}`, in.State, answered)
		require.Contains(t, two.modern(1, "resources/read", "raw://a", more).text(), "was used before or has expired")
		require.Contains(t, string(one.modern(2, "resources/read", "raw://a", more).next().Result), `"y":9007199254740993`)
	})
}

func TestPendingRequestsHaveLimits(t *testing.T) {
	const get = `{"jsonrpc":"2.0","id":%d,"method":"prompts/get","params":{"name":"mcp__raw__ask_me","_meta":{%s}%s}}`
	t.Run("in time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFront(t, policy.ApproveAlways, askingWhile("elicitation/create"))
			defer f.close()
			f.send(get, 1, modernCaps, "")
			in := inquiryOf(t, f.next())
			<-time.After(6 * time.Minute)
			f.send(get, 2, modernCaps, fmt.Sprintf(`,"requestState":%q,"inputResponses":{"q1":%s}`, in.State, answered))
			require.Contains(t, string(f.next().Error), "has expired")
		})
	})
	t.Run("in number", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFront(t, policy.ApproveAlways, askingWhile("elicitation/create"))
			defer f.close()
			for i := range 33 {
				f.send(get, i, modernCaps, "")
				got := f.next()
				require.Equal(t, i == 32, strings.Contains(string(got.Error), "too many calls wait"), got.Raw)
			}
		})
	})
}

// A client that cannot be asked is not: the server gets the answer that such a
// client would give. Completion has no rounds, so nobody is asked there.
func TestNobodyIsAskedInVain(t *testing.T) {
	for name, tt := range map[string]struct{ method, params, caps string }{
		"a client that can do nothing": {"prompts/get", `"name":"mcp__raw__ask_me"`, `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`},
		"completion":                   {"completion/complete", `"ref":{"type":"ref/prompt","name":"mcp__raw__ask_me"},"argument":{"name":"a","value":"x"}`, modernCaps},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				back := askingWhile("elicitation/create")
				f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
					if m.Method == "initialize" {
						write(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"completions":{}}}}`, m.ID)
						return
					}
					back(write, m)
				})
				defer f.close()
				f.send(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{%s}}}`, tt.method, tt.params, tt.caps)
				require.Contains(t, string(f.next().Result), `"answer":{"action":"cancel"}`)
			})
		})
	}
}

// The older era has no requestState: none goes to a server behind unseen.
func TestAnOlderClientBringsNoState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) { legacyBack(write, m) })
		defer f.close()
		f.initialize()
		f.send(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"mcp__raw__ask_me","requestState":"forged"}}`)
		require.Contains(t, string(f.next().Error), "-32602")
	})
}

// askingGate is a gate that asks before every call, also elsewhere, where everybody
// is answered as parallel does.
func askingGate(run gate.RunFunc, parallel func(context.Context, gate.QueuedQuestion) (gate.Answer, error)) *gate.Gate {
	return &gate.Gate{Run: run, AskInParallel: parallel, Policy: &policy.Policy{
		Approval:      policy.Untrusted,
		Mode:          policy.WorkspaceWrite,
		Workspace:     "/w",
		WritableRoots: []string{"/w"},
		Confines:      func() bool { return true },
	}}
}

const changeCall = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"change","arguments":{"path":"a"},"_meta":{%s}%s}}`

// An answer is for the question that the client was shown, not for a later one that
// nobody has seen.
func TestALateAnswerApprovesNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var modes []policy.Mode
		run := func(_ context.Context, _ gate.Call, f policy.Profile) (gate.Outcome, error) {
			modes = append(modes, f.Mode)
			out := gate.Outcome{Result: json.RawMessage(`{"content":[]}`)}
			if f.Mode != policy.DangerFullAccess {
				out.Denied = &policy.Denial{Op: "write", Path: "denied"}
			}
			return out, nil
		}
		f := stdio(t, server.New(server.Options{
			Version: "1",
			Catalog: []tools.Tool{change, look},
			Gate: askingGate(run, func(ctx context.Context, q gate.QueuedQuestion) (gate.Answer, error) {
				if q.Question.Stage == gate.BeforeRun {
					return gate.Once, nil
				}
				<-ctx.Done()
				return gate.No, ctx.Err()
			}),
		}))
		defer f.close()
		f.send(changeCall, 1, modernCaps, "")
		first := inquiryOf(t, f.next())
		require.NotContains(t, string(first.Requests["approval"]), "outside the sandbox")
		<-time.After(2 * time.Second) // it is answered elsewhere, and the call is denied
		require.Equal(t, []policy.Mode{policy.WorkspaceWrite}, modes)

		yes := `,"requestState":%q,"inputResponses":{"approval":{"action":"accept","content":{"decision":"once"}}}`
		f.send(changeCall, 2, modernCaps, fmt.Sprintf(yes, first.State))
		second := inquiryOf(t, f.next())
		require.Contains(t, string(second.Requests["approval"]), "outside the sandbox")
		require.Equal(t, []policy.Mode{policy.WorkspaceWrite}, modes)
		f.send(changeCall, 3, modernCaps, fmt.Sprintf(yes, second.State))
		f.next()
		require.Equal(t, []policy.Mode{policy.WorkspaceWrite, policy.DangerFullAccess}, modes)
	})
}

func TestCallsThatHaveEndedDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := stdio(t, server.New(server.Options{
			Version: "1",
			Catalog: []tools.Tool{change, look},
			Gate:    askingGate(ran, func(context.Context, gate.QueuedQuestion) (gate.Answer, error) { return gate.Once, nil }),
		}))
		defer f.close()
		for i := range 40 {
			f.send(changeCall, i, modernCaps, "")
			require.NotContains(t, f.next().Raw, "too many calls wait", "%d", i)
			<-time.After(time.Second) // it is answered elsewhere
		}
	})
}

func TestARequestStateIsAString(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
			require.NotEqual(t, "tools/call", m.Method)
			askingModern(write, m)
		})
		defer f.close()
		f.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mcp__raw__do_it","_meta":{%s},"requestState":5,"inputResponses":{"who":{}}}}`, modernCaps)
		require.Contains(t, string(f.next().Error), "not one that this server gave out")
	})
}

// A person may take longer over a question than the server's tool may take.
func TestNoTimeLimitRunsWhileAStatelessClientIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, policy.ApproveAlways, askingModern)
		defer f.close()
		const call = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"mcp__raw__do_it","_meta":{%s}%s}}`
		f.send(call, 1, modernCaps, "")
		in := inquiryOf(t, f.next())
		<-time.After(2 * time.Minute)
		f.send(call, 2, modernCaps, fmt.Sprintf(`,"requestState":%q,"inputResponses":{"who":%s}`, in.State, answered))
		require.Contains(t, f.next().Raw, `"state":"theirs"`)
	})
}

func TestCallsEndWithTheirConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outcomes []string
		g := askingGate(ran, nil)
		g.Record = func(e gate.Event) { outcomes = append(outcomes, e.Outcome) }
		e := server.New(server.Options{Version: "1", Catalog: []tools.Tool{change, look}, Gate: g}).NewEndpoint(server.EndpointOptions{Caller: "t"})
		c := &webClient{t: t, e: e}
		inquiryOf(t, c.modern(1, "tools/call", "change", `"name":"change","arguments":{"path":"a"}`).next().line)
		require.Empty(t, outcomes)
		e.Close()
		require.Equal(t, []string{"refused"}, outcomes)
	})
}
