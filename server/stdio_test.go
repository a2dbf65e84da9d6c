package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
)

// oddResults are results that any decoding and encoding would change.
var oddResults = []string{
	`{"content":[],"_meta":{"n":9007199254740993,"f":1.0,"e":1E400}}`,
	`{ "z" : 1, "content":[ ], "a":{"y":1,"b":2} }`,
	`{"content":[{"type":"hologram","payload":{"deep":[[]]}}]}`,
	`{"content":[],"structuredContent":[1.50,"<&>\u2028\u0041"],"extra":null}`,
	`{"content":[{"type":"text","text":"<b>&` + "\u2028\u2029" + `\ud83d\ude00 \/ é"}],"isError":true}`,
	`{"content":[],"content":[{"type":"text","text":"2"}]}`,
	`{"content":[],"resultType":"own"}`,
	`{"content":[{"type":"text","text":"` + strings.Repeat("long ", 50_000) + `"}]}`,
}

// TestStdioPassesResultsByteForByte: whatever way a call takes through us, its
// result is written as the bytes it came in; for the newer era with what that
// asks for in front.
func TestStdioPassesResultsByteForByte(t *testing.T) {
	for _, tt := range []struct{ name, method, params string }{
		{"a call", "tools/call", `{"name":"mcp__raw__do_it","arguments":{}%s}`},
		{"a call that the SDK decodes", "tools/call", `{"name":"mcp__raw__do_it","arguments":{},"unknown":1%s}`},
		{"a prompt", "prompts/get", `{"name":"mcp__raw__ask_me"%s}`},
		{"a resource", "resources/read", `{"uri":"raw://a"%s}`},
	} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/modern=%v", tt.name, modern), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := 0
					f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
						if !legacyBack(write, m) && len(m.ID) > 0 {
							write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, oddResults[n])
						}
					})
					defer f.close()
					meta := ""
					if modern {
						meta = `,"_meta":{` + modernCaps + `}`
					} else {
						f.initialize()
					}
					name := ""
					for _, p := range f.set.Prompts() {
						name = p.Key
					}
					params := strings.ReplaceAll(fmt.Sprintf(tt.params, meta), "mcp__raw__ask_me", name)
					for ; n < len(oddResults); n++ {
						f.send(`{"jsonrpc":"2.0","id":"%d","method":%q,"params":%s}`, n, tt.method, params)
						got := f.next().Raw
						if !modern {
							require.Equal(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","result":%s}`, n, oddResults[n]), got)
							continue
						}
						require.True(t, strings.HasSuffix(got, oddResults[n][1:]+"}"), "%s", got)
						front := strings.TrimSuffix(got, oddResults[n][1:]+"}")
						if !strings.Contains(oddResults[n], "resultType") {
							require.Contains(t, front, `"resultType":"complete"`)
						}
						if !strings.Contains(oddResults[n], "_meta") {
							require.Contains(t, front, `"io.modelcontextprotocol/serverInfo":{"name":"toolgate"`)
						}
					}
				})
			})
		}
	}
}

// TestOddCallsAreAnsweredAsBefore: what the fast way does not take is answered
// as the SDK answers it.
func TestOddCallsAreAnsweredAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
			if !legacyBack(write, m) && len(m.ID) > 0 {
				write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"params":%s}}`, m.ID, m.Params)
			}
		})
		defer f.close()
		f.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__raw__do_it"}}`)
		require.Contains(t, f.next().Raw, "invalid during session initialization")
		f.initialize()
		for _, tt := range []struct{ params, want string }{
			{`[]`, `"code":-32602`},
			{`{}`, `"code":-32602`},
			{`{"name":7}`, `"code":-32602`},
			{`{"name":"nope"}`, `unknown tool \"nope\"`},
			{`{"name":"mcp__raw__do_it","arguments":null}`, `"arguments":null`},
			{`{"name":"mcp__raw__do_it","name":"nope"}`, `duplicate name \"name\"`},
			{`{"name":"mcp__raw__do_it","arguments":{"a":1},"arguments":{"a":2}}`, `duplicate name \"arguments\"`},
			{`{"name":"mcp__raw__do_\u0069t","arguments":{"z":1.0,"a":9007199254740993}}`, `"arguments":{"z":1.0,"a":9007199254740993}`},
			{`{"name":"mcp__raw__do_it","_meta":{"x":9007199254740993}}`, `"_meta":{"x":9007199254740993}`},
			{`{"name":"mcp__raw__do_it","_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}`, `"error"`},
			{`{"name":"mcp__raw__do_it","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`, `"code":-32602`},
			{`{"name":"mcp__raw__do_it","_meta":{` + modernCaps + `,"x":1.0}}`, `"x":1.0`},
		} {
			f.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}`, tt.params)
			got := f.next()
			require.Contains(t, got.Raw, tt.want, tt.params)
			require.Equal(t, "1", string(got.ID), tt.params)
		}
	})
}

// TestCancellingACall: the call ends without an answer, and the server behind is told.
func TestCancellingACall(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern=%v", modern), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := make(chan string, 10)
				hold := true
				f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
					switch {
					case legacyBack(write, m):
					case m.Method == "tools/call" && !hold:
						write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
					case m.Method == "notifications/cancelled":
						told <- string(m.Params)
					}
				})
				defer f.close()
				meta := ""
				if modern {
					meta = `,"_meta":{` + modernCaps + `}`
				} else {
					f.initialize()
				}
				for n := range 3 { // the first of the newer era goes through the SDK
					f.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"mcp__raw__do_it"%s}}`, n, meta)
					synctest.Wait()
					f.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"enough"}}`, n)
					synctest.Wait()
					require.Contains(t, <-told, `"requestId"`)
					answer, _ := f.out.line()
					require.Empty(t, answer, "nobody waits for one")
				}
				hold = false
				f.send(`{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"mcp__raw__do_it"%s}}`, meta)
				require.NotEmpty(t, f.next().Result, "and the id is free again")
			})
		})
	}
}

// TestTheEndOfInputWaitsForCalls: calls still owed are answered; those that
// last too long are cancelled, and the server ends all the same.
func TestTheEndOfInputWaitsForCalls(t *testing.T) {
	for _, slow := range []time.Duration{30 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			over := make(chan struct{})
			f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
				if legacyBack(write, m) || m.Method != "tools/call" {
					return
				}
				var p struct {
					Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
				}
				json.Unmarshal(m.Params, &p)
				go func() {
					for range slow / (20 * time.Second) {
						select {
						case <-time.After(20 * time.Second): // a sign of life
						case <-over:
							return
						}
						write(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"x":9007199254740993}}`, p.Meta.ProgressToken)
					}
					write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
				}()
			})
			defer f.set.Close()
			defer close(over)
			f.initialize()
			start := time.Now()
			f.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__raw__do_it","_meta":{"progressToken":"mine"}}}`)
			f.in.Close()
			<-f.done
			p := f.next()
			require.Equal(t, "notifications/progress", p.Method)
			require.Equal(t, `{"progressToken":"mine","progress":1,"x":9007199254740993}`, string(p.Params))
			if slow < time.Minute {
				require.NotEmpty(t, f.next().Result)
				return
			}
			require.Equal(t, time.Minute, time.Since(start))
		})
	}
}

// An answer carries the id as it came, and frees it.
func TestIDsOfEveryForm(t *testing.T) {
	for _, id := range []string{`7`, `"a<b"`, `"\u0061"`, `1.5`, `1.0`, `9007199254740993`, `1e999`} {
		t.Run(id, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) { legacyBack(write, m) })
				f.initialize()
				for range 2 {
					f.send(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"nope"}}`, id)
					m := f.next()
					require.Equal(t, id, string(m.ID))
					require.Contains(t, string(m.Error), "unknown tool")
				}
				began := time.Now()
				f.close()
				require.Zero(t, time.Since(began), "no answer is owed")
			})
		})
	}
}

const goodInitialize = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func TestRequestsRightAfterInitialize(t *testing.T) {
	for _, before := range []string{"", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":5}`} {
		synctest.Test(t, func(t *testing.T) {
			f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) { legacyBack(write, m) })
			defer f.close()
			if before != "" {
				f.send("%s", before)
				require.NotEmpty(t, f.next().Error)
			}
			f.send("%s\n%s", goodInitialize, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
			for range 2 {
				require.NotEmpty(t, f.next().Result)
			}
		})
	}
}

// An initialize that is refused before the SDK sees it holds nobody up.
func TestAnInitializeWithAnUsedID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) { legacyBack(write, m) })
		defer f.close()
		f.send(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{%s}}}`, modernCaps)
		f.next()
		f.send("%s", strings.Replace(goodInitialize, `"i"`, "1.0", 1))
		require.Contains(t, string(f.next().Error), "still being answered")
		f.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{%s}}}`, modernCaps)
		require.NotEmpty(t, f.next().Result)
	})
}
