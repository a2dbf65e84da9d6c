package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
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

// A front is a server with one downstream server behind it, whose lines the
// test writes, and a client whose lines the test writes too.
type front struct {
	t    *testing.T
	set  *aggregator.Downstreams
	in   *io.PipeWriter
	out  lockedBuffer
	done chan struct{}
}

// line is one message in either direction.
type line struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
	Raw    string          `json:"-"`
}

// newFront starts it; back answers each line that the downstream server gets.
// It must be called inside a synctest bubble.
func newFront(t *testing.T, approval policy.ToolApproval, back func(write func(format string, args ...any), m line), catalog ...tools.Tool) *front {
	s, set := newServer(t, approval, back, catalog...)
	f := stdio(t, s)
	f.set = set
	return f
}

// stdio starts s with a client.
func stdio(t *testing.T, s *server.Server) *front {
	r, w := io.Pipe()
	f := &front{t: t, in: w, done: make(chan struct{})}
	go func() { // ends with the client's input
		defer close(f.done)
		s.ServeStdio(context.Background(), r, &f.out)
	}()
	return f
}

// newServer returns the server of newFront, and what is behind it.
func newServer(t *testing.T, approval policy.ToolApproval, back func(write func(format string, args ...any), m line), catalog ...tools.Tool) (*server.Server, *aggregator.Downstreams) {
	set := aggregator.NewDownstreams(aggregator.DownstreamOptions{StateDir: t.TempDir(), Roots: json.RawMessage(`{"roots":[]}`)})
	set.Update([]aggregator.Spec{{
		Name:           "raw",
		StartupTimeout: time.Second,
		ToolTimeout:    func(string) time.Duration { return time.Minute },
		Approval:       func(string) policy.ToolApproval { return approval },
		Launch: func() (*aggregator.Process, error) {
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			done := make(chan struct{})
			go func() { // ends with its input
				defer close(done)
				defer outW.Close()
				var mu sync.Mutex
				write := func(format string, args ...any) {
					mu.Lock()
					defer mu.Unlock()
					fmt.Fprintf(outW, format+"\n", args...)
				}
				for s := bufio.NewScanner(inR); s.Scan(); {
					m := line{Raw: s.Text()}
					json.Unmarshal(s.Bytes(), &m)
					back(write, m)
				}
			}()
			return &aggregator.Process{In: inW, Out: outR, Wait: func() error { <-done; return nil }, Kill: inR.Close}, nil
		},
	}})
	set.WaitListed(context.Background(), false)
	pol := &policy.Policy{Approval: policy.OnRequest, Mode: policy.WorkspaceWrite, Workspace: "/w"}
	return server.New(server.Options{Version: "1", Instructions: "ours", Catalog: catalog, Downstreams: set, Gate: &gate.Gate{Policy: pol, Run: set.Run}}), set
}

func (f *front) close() {
	f.in.Close()
	<-f.done
	if f.set != nil {
		f.set.Close()
	}
}

func (f *front) send(format string, args ...any) {
	f.t.Helper()
	_, err := fmt.Fprintf(f.in, format+"\n", args...)
	require.NoError(f.t, err)
}

// next returns the next line that the client gets.
func (f *front) next() line {
	f.t.Helper()
	synctest.Wait()
	text, ok := f.out.line()
	require.True(f.t, ok, "the server wrote nothing")
	m := line{Raw: strings.TrimSpace(text)}
	require.NoError(f.t, json.Unmarshal([]byte(text), &m))
	return m
}

// initialize opens a session of the older era with a client that can do all.
func (f *front) initialize() line {
	f.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}},"clientInfo":{"name":"t","version":"1"}}}`)
	got := f.next()
	f.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return got
}

const (
	modernCaps = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"sampling":{},"roots":{}}`
	serverCaps = `{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"logging":{}}`
)

// legacyBack answers what every server of the older era answers.
func legacyBack(write func(string, ...any), m line) bool {
	switch m.Method {
	case "initialize":
		write(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":`+serverCaps+`,"serverInfo":{"name":"raw","version":"1"},"instructions":"theirs"}}`, m.ID)
	case "tools/list":
		write(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"z":1,"name":"do_it","inputSchema":{"type":"object","properties":{}},"_meta":{"n":9007199254740993}}]}}`, m.ID)
	case "resources/list":
		write(`{"jsonrpc":"2.0","id":%s,"result":{"resources":[{"uri":"raw://a","name":"a","x":9007199254740993}]}}`, m.ID)
	case "resources/templates/list":
		write(`{"jsonrpc":"2.0","id":%s,"result":{"resourceTemplates":[{"uriTemplate":"raw://t/{id}","name":"t"}]}}`, m.ID)
	case "prompts/list":
		write(`{"jsonrpc":"2.0","id":%s,"result":{"prompts":[{"name":"ask_me"}]}}`, m.ID)
	default:
		return false
	}
	return true
}

func TestListsAreTheServersBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) { legacyBack(write, m) })
		defer f.close()
		init := f.initialize()
		require.Contains(t, string(init.Result), `"prompts":{"listChanged":true}`)
		require.NotContains(t, string(init.Result), `completions`, "nobody serves it")
		require.Contains(t, string(init.Result), "The server raw says of its tools: theirs")
		for method, want := range map[string]string{
			"tools/list":               `{"tools":[{"z":1,"name":"mcp__raw__do_it","inputSchema":{"type":"object","properties":{}},"_meta":{"n":9007199254740993}}]}`,
			"resources/list":           `{"resources":[{"uri":"raw://a","name":"a","x":9007199254740993}]}`,
			"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"raw://t/{id}","name":"t"}]}`,
			"prompts/list":             `{"prompts":[{"name":"mcp__raw__ask_me"}]}`,
		} {
			f.send(`{"jsonrpc":"2.0","id":1,"method":%q}`, method)
			require.Equal(t, want, string(f.next().Result))
			f.send(`{"jsonrpc":"2.0","id":2,"method":%q,"params":{"_meta":{%s}}}`, method, modernCaps)
			got := string(f.next().Result)
			require.Contains(t, got, `"resultType":"complete"`)
			require.Contains(t, got, strings.TrimSuffix(strings.TrimPrefix(want, "{"), "}")+`,"ttlMs":30000,"cacheScope":"private"`)
		}
	})
}

func TestForwardedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got string
		f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
			switch {
			case legacyBack(write, m):
			case m.Method == "resources/read" && !strings.Contains(string(m.Params), "raw://"):
				write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"none","data":{"n":9007199254740993}}}`, m.ID)
			case len(m.ID) > 0:
				got = string(m.Params)
				write(`{"jsonrpc":"2.0","id":%s,"result":{"z":9007199254740993,"a":1.0}}`, m.ID)
			}
		})
		defer f.close()
		f.initialize()
		for _, tt := range []struct{ method, params, down string }{
			{"prompts/get", `{"name":"mcp__raw__ask_me","arguments":{"b":"<","a":"1"},"_meta":{"x":9007199254740993}}`, `{"name":"ask_me","arguments":{"b":"<","a":"1"},"_meta":{"x":9007199254740993}}`},
			{"resources/read", `{"uri":"raw://a"}`, `{"uri":"raw://a"}`},
			{"resources/read", `{"uri":"raw://t/5"}`, `{"uri":"raw://t/5"}`},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"mcp__raw__ask_me"},"argument":{"name":"a","value":"x"}}`, `{"ref":{"type":"ref/prompt","name":"ask_me"},"argument":{"name":"a","value":"x"}}`},
			{"completion/complete", `{"ref":{"type":"ref/resource","uri":"raw://t/{id}"},"argument":{"name":"id","value":"x"}}`, `{"ref":{"type":"ref/resource","uri":"raw://t/{id}"},"argument":{"name":"id","value":"x"}}`},
		} {
			f.send(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, tt.method, tt.params)
			require.Equal(t, `{"z":9007199254740993,"a":1.0}`, string(f.next().Result))
			require.Equal(t, tt.down, got)
		}
		f.send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"other://x"}}`)
		require.Equal(t, `{"code":-32002,"message":"none","data":{"n":9007199254740993}}`, string(f.next().Error))
		f.send(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"nope"}}`)
		require.Contains(t, string(f.next().Error), `-32602`)
	})
}

func TestNewsReachesTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
			if legacyBack(write, m) {
				return
			}
			seen = append(seen, m.Method+" "+string(m.Params))
			switch m.Method {
			case "tools/call":
				write(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"raw://a"}}`)
				write(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"raw://b"}}`)
				<-time.After(time.Millisecond)
				write(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"quiet"}}`)
				write(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":{"n":9007199254740993}}}`)
				write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
			default:
				if len(m.ID) > 0 {
					write(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
				}
			}
		})
		defer f.close()
		f.initialize()
		f.send(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"warning"}}`)
		f.next()
		f.send(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"raw://a"}}`)
		f.next()
		synctest.Wait()
		require.Contains(t, seen, `logging/setLevel {"level":"warning"}`)
		require.Contains(t, seen, `resources/subscribe {"uri":"raw://a"}`)
		require.Contains(t, seen, `notifications/roots/list_changed `, "a client with roots has come")
		f.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"mcp__raw__do_it"}}`)
		<-time.After(time.Second)
		require.Equal(t, `{"uri":"raw://a"}`, string(f.next().Params))
		require.Equal(t, `{"level":"error","data":{"n":9007199254740993}}`, string(f.next().Params))
		require.Equal(t, "3", string(f.next().ID))
		f.send(`{"jsonrpc":"2.0","id":4,"method":"resources/unsubscribe","params":{"uri":"raw://a"}}`)
		f.next()
		require.Contains(t, seen, `resources/unsubscribe {"uri":"raw://a"}`)
	})
}

// question is what the downstream servers below ask, with bytes that no typed
// relay would keep.
const question = `{"message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}},"x":9007199254740993}`

// A server of the older era that asks the client within a call.
func askingLegacy(method string) func(func(string, ...any), line) {
	var call line
	return func(write func(string, ...any), m line) {
		switch {
		case legacyBack(write, m):
		case m.Method == "tools/call":
			call = m
			write(`{"jsonrpc":"2.0","id":"q","method":%q,"params":%s}`, method, question)
		case string(m.ID) == `"q"`:
			write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"answer":%s}}`, call.ID, m.Result)
		}
	}
}

// A server of the newer era that asks in a result.
func askingModern(write func(string, ...any), m line) {
	switch m.Method {
	case "initialize":
		write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"unsupported protocol version"}}`, m.ID)
	case "server/discover":
		write(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`, m.ID)
	case "tools/list":
		write(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","tools":[{"name":"do_it"}],"ttlMs":3600000}}`, m.ID)
	case "tools/call":
		var in struct {
			State     string          `json:"requestState"`
			Responses json.RawMessage `json:"inputResponses"`
		}
		json.Unmarshal(m.Params, &in)
		if in.State == "" {
			write(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":%s}},"requestState":"theirs"}}`, m.ID, question)
			return
		}
		write(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[],"state":%q,"answers":%s}}`, m.ID, in.State, in.Responses)
	}
}

const answered = `{"action":"accept","content":{"name":"n"},"y":9007199254740993}`

func TestAnOlderClientIsAsked(t *testing.T) {
	for _, tt := range []struct {
		name string
		back func(func(string, ...any), line)
		want string
	}{
		{"by an older server", askingLegacy("elicitation/create"), `"answer":` + answered},
		{"by a newer server", askingModern, `"state":"theirs","answers":{"who":` + answered + `}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFront(t, policy.ApproveAlways, tt.back)
				defer f.close()
				f.initialize()
				f.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__raw__do_it"}}`)
				q := f.next()
				require.Equal(t, "elicitation/create", q.Method)
				require.Equal(t, question, string(q.Params))
				f.send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, answered)
				got := string(f.next().Result)
				require.Contains(t, got, tt.want)
				require.NotContains(t, got, "resultType")
			})
		})
	}
}

func TestANewerClientIsAsked(t *testing.T) {
	for _, tt := range []struct {
		name     string
		back     func(func(string, ...any), line)
		approval policy.ToolApproval
		want     func(key string) string
	}{
		{"by an older server", askingLegacy("elicitation/create"), policy.ApproveAlways, func(string) string { return `"answer":` + answered }},
		{"by an older server, after us", askingLegacy("elicitation/create"), policy.ApprovePrompt, func(string) string { return `"answer":` + answered }},
		{"by a newer server", askingModern, policy.ApproveAlways, func(key string) string { return `"state":"theirs","answers":{"` + key + `":` + answered + `}` }},
		{"by a newer server, after us", askingModern, policy.ApprovePrompt, func(key string) string { return `"state":"theirs","answers":{"` + key + `":` + answered + `}` }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFront(t, tt.approval, tt.back)
				defer f.close()
				call := func(more string) (state, key string, res line) {
					f.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__raw__do_it","_meta":{%s}%s}}`, modernCaps, more)
					res = f.next()
					var in struct {
						Type     string                     `json:"resultType"`
						Requests map[string]json.RawMessage `json:"inputRequests"`
						State    string                     `json:"requestState"`
					}
					json.Unmarshal(res.Result, &in)
					for k := range in.Requests {
						key = k
					}
					return in.State, key, res
				}
				state, key, res := call("")
				if tt.approval == policy.ApprovePrompt {
					require.Equal(t, "approval", key)
					require.Contains(t, string(res.Result), "the tool do_it of the server raw")
					state, key, res = call(fmt.Sprintf(`,"requestState":%q,"inputResponses":{"approval":{"action":"accept","content":{"decision":"once"}}}`, state))
				}
				require.Contains(t, string(res.Result), `"x":9007199254740993`)
				require.NotEqual(t, "theirs", state, "theirs travels inside ours")
				answer := fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:%s}`, state, key, answered)
				_, _, res = call(answer)
				require.Contains(t, string(res.Result), tt.want(key))
				_, _, res = call(answer)
				require.Contains(t, string(res.Result), "used before", "a state is good for one use")
				_, _, res = call(`,"requestState":"forged"`)
				require.Contains(t, string(res.Error), "not one that this server gave out")
			})
		})
	}
}

func TestAPendingCallExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, policy.ApproveAlways, askingLegacy("elicitation/create"))
		defer f.close()
		f.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__raw__do_it","_meta":{%s}}}`, modernCaps)
		var in struct {
			State string `json:"requestState"`
		}
		require.NoError(t, json.Unmarshal(f.next().Result, &in))
		<-time.After(6 * time.Minute)
		f.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mcp__raw__do_it","_meta":{%s},"requestState":%q,"inputResponses":{"q1":%s}}}`, modernCaps, in.State, answered)
		require.Contains(t, string(f.next().Result), "has expired")
	})
}

func TestPendingCallsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
			if !legacyBack(write, m) && m.Method == "tools/call" {
				write(`{"jsonrpc":"2.0","id":"q%s","method":"elicitation/create","params":%s}`, m.ID, question)
			}
		})
		defer f.close()
		for i := range 33 {
			f.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"mcp__raw__do_it","_meta":{%s}}}`, i, modernCaps)
			got := string(f.next().Result)
			require.Equal(t, i == 32, strings.Contains(got, "too many calls wait"), "%d: %s", i, got)
		}
	})
}

func TestAClientThatCannotBeAsked(t *testing.T) {
	for method, want := range map[string]string{
		"elicitation/create":     `{"action":"cancel"}`,
		"sampling/createMessage": `the client does not support`,
		"roots/list":             `{"roots":[]}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			answer := ""
			var call line
			f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
				switch {
				case legacyBack(write, m):
				case m.Method == "tools/call":
					call = m
					write(`{"jsonrpc":"2.0","id":"q","method":%q,"params":{}}`, method)
				case string(m.ID) == `"q"`:
					answer = m.Raw
					write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, call.ID)
				}
			})
			defer f.close()
			f.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
			f.next()
			f.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			f.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__raw__do_it"}}`)
			require.Equal(t, "1", string(f.next().ID))
			require.Contains(t, answer, want)
		})
	}
}

func TestUnknownToolsAreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) { legacyBack(write, m) })
		defer f.close()
		f.initialize()
		for _, name := range []string{"mcp__raw__nope", "do_it", "toolgate-change"} {
			f.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q}}`, name)
			require.Contains(t, string(f.next().Error), "unknown tool")
		}
	})
}

func TestResourcesAsTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
			switch {
			case legacyBack(write, m):
			case m.Method == "resources/read":
				write(`{"jsonrpc":"2.0","id":%s,"result":{"contents":[{"uri":"raw://a","text":"inside"}]}}`, m.ID)
			}
		}, look)
		defer f.close()
		f.initialize()
		f.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		require.Contains(t, string(f.next().Result), `"name":"read_mcp_resource"`)
		for _, tt := range []struct{ tool, args, want string }{
			{"list_mcp_resources", `{}`, `{"resources":[{"name":"a","server":"raw","uri":"raw://a","x":9007199254740993}]}`},
			{"list_mcp_resource_templates", `{"server":"raw"}`, `"server":"raw"`},
			{"list_mcp_resources", `{"cursor":"x"}`, `cursor can only be used when a server is specified`},
			{"list_mcp_resources", `{"server":"none"}`, `unknown MCP server 'none'`},
			{"list_mcp_resources", `{"sever":"none"}`, `has no argument "sever", which was ignored; did you mean "server"?`},
			{"read_mcp_resource", `{"server":"raw","uri":"raw://a"}`, `{"server":"raw","uri":"raw://a","contents":[{"uri":"raw://a","text":"inside"}]}`},
			{"read_mcp_resource", `{"server":"none","uri":"raw://a"}`, `unknown MCP server 'none'`},
			{"read_mcp_resource", `{"uri":"raw://a"}`, `missing argument`},
		} {
			f.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tt.tool, tt.args)
			var res struct {
				Content []struct{ Text string }
			}
			got := f.next()
			require.NoError(t, json.Unmarshal(got.Result, &res), got.Raw)
			require.Contains(t, res.Content[len(res.Content)-1].Text, tt.want)
		}
	})
}

// TestOnlyWhatIsServedIsDeclared: without tools of our own we use no sandbox
// of the client's, so we do not ask to be told of it.
func TestOnlyWhatIsServedIsDeclared(t *testing.T) {
	const key = "codex/sandbox-state-meta"
	for _, tt := range []struct {
		name, theirs string
		own          []tools.Tool
		want         bool
	}{
		{"nobody", `{"tools":{}}`, nil, false},
		{"the server behind", `{"tools":{},"experimental":{"` + key + `":{}}}`, nil, true},
		{"we", `{"tools":{}}`, []tools.Tool{look}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
					if m.Method == "initialize" {
						write(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":%s}}`, m.ID, tt.theirs)
						return
					}
					legacyBack(write, m)
				}, tt.own...)
				defer f.close()
				got := string(f.initialize().Result)
				require.Equal(t, tt.want, strings.Contains(got, key), got)
				require.NotContains(t, got, `"prompts"`)
				require.NotContains(t, got, `"resources"`)
				require.NotContains(t, got, `"logging"`)
			})
		})
	}
}

// counting is a server that takes a second over everything, and notes what it is asked.
func counting(seen *[]string) func(func(string, ...any), line) {
	var mu sync.Mutex
	return func(write func(string, ...any), m line) {
		if legacyBack(write, m) || len(m.ID) == 0 {
			return
		}
		mu.Lock()
		*seen = append(*seen, m.Method)
		mu.Unlock()
		<-time.After(time.Second)
		write(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	}
}

func TestASubscriptionIsMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		f := newFront(t, policy.ApproveAlways, counting(&seen))
		defer f.close()
		f.initialize()
		f.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"raw://a"}}`)
		f.send(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"raw://a"}}`)
		f.next()
		<-time.After(3 * time.Second)
		f.next()
		f.send(`{"jsonrpc":"2.0","id":3,"method":"resources/unsubscribe","params":{"uri":"raw://a"}}`)
		<-time.After(3 * time.Second)
		require.Equal(t, []string{"resources/subscribe", "resources/unsubscribe"}, seen)
	})
}

func TestSubscriptionsEndWithTheirSession(t *testing.T) {
	for _, whileSubscribing := range []bool{false, true} {
		var seen []string
		web(t, server.EndpointOptions{}, counting(&seen), func(t *testing.T, c *webClient, _ *aggregator.Downstreams) {
			c.initialize()
			c.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"raw://a"}}`).status()
			if !whileSubscribing {
				<-time.After(3 * time.Second)
			}
			synctest.Wait()
			require.Equal(t, http.StatusNoContent, c.do("DELETE", "").status())
			<-time.After(5 * time.Second)
			require.Equal(t, []string{"resources/subscribe", "resources/unsubscribe"}, seen)
		})
	}
}
