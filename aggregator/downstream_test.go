package aggregator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/internal/gate"
	"toolgate/policy"
)

// processes are the scripts that run in their own process.
var processes = map[string]script{
	"orderly": {"tools/list": func(p *peer, m message) error {
		p.result(m, toolList(`{"name":"echo","annotations":{"readOnlyHint":true}}`))
		return nil
	}},
	"big": {"tools/call": func(p *peer, m message) error {
		p.result(m, text(strings.Repeat("x", 20<<20)))
		return nil
	}},
	"deaf": {"start": func(*peer, message) error { ignoreInterrupt(); return nil }, "initialize": func(p *peer, m message) error {
		p.result(m, okInit)
		io.Copy(io.Discard, p.in)
		select {}
	}},
}

func TestResultsKeepTheirBytes(t *testing.T) {
	for _, tt := range []struct{ name, result string }{
		{"big integer, number text", `{"content":[],"_meta":{"n":9007199254740993,"f":1.0,"e":1E400}}`},
		{"order of keys", `{"z":1,"content":[],"a":{"y":1,"b":2}}`},
		{"content of unknown kind", `{"content":[{"type":"hologram","payload":{"deep":[[]]}}]}`},
		{"fields that nobody knows", `{"content":[],"structuredContent":{"n":42},"resultType":"own","extra":null}`},
		{"escapes", `{"content":[{"type":"text","text":"<b>&\u2028\ud83d\ude00 \/ é"}]}`},
		{"double keys", `{"content":[],"content":[{"type":"text","text":"2"}]}`},
		{"isError", `{"content":[{"type":"text","text":"no"}],"isError":true}`},
		{"isError of a wrong type", `{"content":[],"isError":"yes"}`},
		{"the note of a worker", `{"content":[],"_meta":{"toolgate/denied":{"op":"write"}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{script: script{"tools/call": func(p *peer, m message) error { p.result(m, tt.result); return nil }}}
				s := set(t, spec("raw", f.launch))
				out, err := s.Run(t.Context(), gate.Call{Action: policy.Action{Server: "raw", Tool: "echo"}}, policy.Profile{})
				require.NoError(t, err)
				require.Equal(t, tt.result, string(out.Result))
				require.Nil(t, out.Denied, "a downstream server is not our worker")
				require.Equal(t, strings.Contains(tt.result, `"isError":true`), out.IsError)
				s.Close()
			})
		})
	}
}

func TestArgumentsAndMetaAreForwardedUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got string
		f := &fake{script: script{"tools/call": func(p *peer, m message) error {
			got = string(m.Params)
			p.result(m, text("ok"))
			return nil
		}}}
		s := set(t, spec("raw", f.launch))
		_, err := call(t.Context(), s, "raw", "echo", `{"z":9007199254740993,"a":1.0,"s":"<&>"}`, func(c *gate.Call) {
			c.Meta = json.RawMessage(`{"x/y":9007199254740993,"progressToken":"theirs","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`)
		})
		require.NoError(t, err)
		require.Equal(t, `{"name":"echo","arguments":{"z":9007199254740993,"a":1.0,"s":"<&>"},"_meta":{"x/y":9007199254740993}}`, got)
		s.Close()
	})
}

func TestProtocolErrorsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{script: script{"tools/call": func(p *peer, m message) error {
			p.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"open <this>","data":{"n":9007199254740993}}}`, m.ID)
			return nil
		}}}
		s := set(t, spec("raw", f.launch))
		_, err := call(t.Context(), s, "raw", "echo", `{}`)
		rpc, ok := errors.AsType[*aggregator.RPCError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, int64(-32042), rpc.Code)
		require.Equal(t, "open <this>", rpc.Message)
		require.Equal(t, `{"n":9007199254740993}`, string(rpc.Data))
		s.Close()
	})
}

// Lines between messages that are ignored.
func TestInvalidLinesAreIgnored(t *testing.T) {
	for _, tt := range []struct{ name, line string }{
		{"a banner", `Server listening on stdio`},
		{"an empty line", ``},
		{"a stack trace", "Traceback (most recent call last):\n  File \"x\", line 1"},
		{"not UTF-8", "\xff\xfe{}"},
		{"half a message", `{"jsonrpc":"2.0","id":`},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"result":{}}]`},
		{"an answer nobody waits for", `{"jsonrpc":"2.0","id":987654,"result":{}}`},
		{"an error without id", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`},
		{"an answer without id", `{"jsonrpc":"2.0","result":{}}`},
		{"a notification of unknown kind", `{"jsonrpc":"2.0","method":"notifications/odd","params":{}}`},
		{"a request of unknown kind", `{"jsonrpc":"2.0","id":"r1","method":"odd/request","params":{}}`},
		{"progress for nobody", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":55,"progress":1}}`},
		{"progress without token", `{"jsonrpc":"2.0","method":"notifications/progress","params":[]}`},
		{"deep nesting", strings.Repeat("[", 5000)},
		{"a number", `42`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{script: script{"*": func(p *peer, _ message) error { p.line("%s", tt.line); return nil }}}
				s := set(t, spec("raw", f.launch))
				require.Equal(t, []string{"mcp__raw__echo"}, names(s))
				got, err := call(t.Context(), s, "raw", "echo", `{}`)
				require.NoError(t, err)
				require.Contains(t, got, "called")
				require.Equal(t, 1, f.count())
				s.Close()
			})
		})
	}
}

func TestAnswersWithOddIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{script: script{"tools/call": func(p *peer, m message) error {
			p.line(`{"id":"%s","result":{"content":[]}}`, m.ID) // a string, and no jsonrpc
			return nil
		}}}
		s := set(t, spec("raw", f.launch))
		_, err := call(t.Context(), s, "raw", "echo", `{}`)
		require.NoError(t, err)
		s.Close()
	})
}

func TestInvalidAnswers(t *testing.T) {
	for _, result := range []string{`null`, `"text"`, `[]`, `7`} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{script: script{"tools/call": func(p *peer, m message) error { p.result(m, result); return nil }}}
			s := set(t, spec("raw", f.launch))
			_, err := call(t.Context(), s, "raw", "echo", `{}`)
			require.ErrorContains(t, err, "not a JSON object", result)
			s.Close()
		})
	}
}

func TestInvalidToolsAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{script: script{"tools/list": func(p *peer, m message) error {
			p.result(m, toolList(
				okTool,
				`{"name":"echo","description":"again","inputSchema":{"type":"object"}}`,
				`{"description":"no name","inputSchema":{"type":"object"}}`,
				`{"name":7,"inputSchema":{"type":"object"}}`,
				`"no object"`,
				`{"name":"text","inputSchema":"text"}`,
				`{"name":"string","inputSchema":{"type":"string"}}`,
				`{"name":"dangling","inputSchema":{"$ref":"#/$defs/None"}}`,
				`{"name":"none"}`,
				`{"name":"outputs","inputSchema":{"type":"object","properties":{}},"outputSchema":{"type":"array"}}`,
				`{"z":1,"name":"kept","title":"T","icons":[{"src":"x"}],"_meta":{"n":9007199254740993},"inputSchema":{"type":"object","properties":{"a":{"type":"string"}}},"annotations":{"readOnlyHint":true,"destructiveHint":"no"}}`,
			))
			return nil
		}}}
		s := set(t, spec("raw", f.launch))
		require.Equal(t, []string{"mcp__raw__echo", "mcp__raw__kept", "mcp__raw__none", "mcp__raw__outputs"}, names(s))
		kept, _ := s.Tool("mcp__raw__kept")
		require.Equal(t, `{"z":1,"name":"mcp__raw__kept","title":"T","icons":[{"src":"x"}],"_meta":{"n":9007199254740993},"inputSchema":{"type":"object","properties":{"a":{"type":"string"}}},"annotations":{"readOnlyHint":true,"destructiveHint":"no"}}`, string(kept.Definition))
		require.True(t, *kept.Claims.ReadOnly)
		require.Nil(t, kept.Claims.Destructive)
		outputs, _ := s.Tool("mcp__raw__outputs")
		require.NotContains(t, string(outputs.Definition), "outputSchema")
		require.Len(t, s.Status()[0].Faults, 7)
		s.Close()
	})
}

func TestTwoToolsWithOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := ""
		a, b := spec("a", (&fake{}).launch), spec("b", (&fake{}).launch)
		a.Prefix, b.Prefix = &none, &none
		s := set(t, a, b)
		require.Equal(t, []string{"echo"}, names(s))
		require.Contains(t, s.Status()[1].Faults[0], "the server a")
		s.Close()
	})
}

func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{script: script{"tools/list": func(p *peer, m message) error {
			var in struct{ Cursor string }
			json.Unmarshal(m.Params, &in)
			switch in.Cursor {
			case "":
				p.result(m, `{"tools":[{"name":"one"}],"nextCursor":"2"}`)
			default: // and again and again
				p.result(m, `{"tools":[{"name":"two"}],"nextCursor":"2"}`)
			}
			return nil
		}}}
		s := set(t, spec("raw", f.launch))
		require.Equal(t, []string{"mcp__raw__one", "mcp__raw__two"}, names(s))
		s.Close()
	})
}

func TestAServerThatNeverAnswersDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mute := &fake{script: script{"initialize": func(*peer, message) error { return nil }}}
		s := aggregator.NewDownstreams(aggregator.DownstreamOptions{StateDir: t.TempDir()})
		s.Update([]aggregator.Spec{spec("good", (&fake{}).launch), spec("mute", mute.launch)})
		synctest.Wait()
		require.Equal(t, []string{"mcp__good__echo"}, names(s))
		start := time.Now()
		s.WaitListed(t.Context(), false)
		require.Equal(t, 10*time.Second, time.Since(start).Round(time.Second), "its time to start")
		_, err := call(t.Context(), s, "good", "echo", `{}`)
		require.NoError(t, err)
		st := s.Status()[1]
		require.Contains(t, st.Error, "no handshake within 10s")
		s.Close()
	})
}

func TestTheSavedCatalogAnswersBeforeTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		first := aggregator.NewDownstreams(aggregator.DownstreamOptions{StateDir: dir})
		first.Update([]aggregator.Spec{spec("raw", (&fake{}).launch)})
		first.WaitListed(t.Context(), false)
		want := first.Tools()
		first.Close()

		mute := &fake{script: script{"initialize": func(*peer, message) error { return nil }}}
		second := aggregator.NewDownstreams(aggregator.DownstreamOptions{StateDir: dir})
		second.Update([]aggregator.Spec{spec("raw", mute.launch)})
		require.Equal(t, want, second.Tools())
		second.Close()

		other := spec("raw", mute.launch)
		other.Digest = "another config"
		third := aggregator.NewDownstreams(aggregator.DownstreamOptions{StateDir: dir})
		third.Update([]aggregator.Spec{other})
		require.Empty(t, third.Tools(), "saved under another config")
		third.Close()
	})
}

func TestListChangesAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools := okTool
		f := &fake{script: script{
			"tools/list": func(p *peer, m message) error { p.result(m, toolList(tools)); return nil },
			"tools/call": func(p *peer, m message) error {
				tools += `,{"name":"new"}`
				p.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				p.result(m, text("ok"))
				return nil
			},
		}}
		s := set(t, spec("raw", f.launch))
		var mu sync.Mutex
		var changes []aggregator.Change
		s.Listen(aggregator.Listener{Changed: func(c aggregator.Change) { mu.Lock(); defer mu.Unlock(); changes = append(changes, c) }})
		_, err := call(t.Context(), s, "raw", "echo", `{}`)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []string{"mcp__raw__echo", "mcp__raw__new"}, names(s))
		require.Equal(t, []aggregator.Change{{Tools: true}}, changes)
		s.Close()
	})
}

func TestACrashBetweenCallsIsHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		s := set(t, spec("raw", f.launch))
		for range 3 {
			_, err := call(t.Context(), s, "raw", "echo", `{}`)
			require.NoError(t, err)
			f.run().kill()
		}
		s.Close()
	})
}

func TestACrashDuringACall(t *testing.T) {
	for _, tt := range []struct {
		name, annotations string
		calls             int
		fails             bool
	}{
		{"that may have done something", `{}`, 1, true},
		{"that only reads", `{"readOnlyHint":true}`, 2, false},
		{"that may be repeated", `{"idempotentHint":true}`, 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				f := &fake{script: script{
					"tools/list": func(p *peer, m message) error {
						p.result(m, toolList(`{"name":"t","annotations":`+tt.annotations+`}`))
						return nil
					},
					"tools/call": func(p *peer, m message) error {
						if calls++; calls == 1 {
							return errExit
						}
						p.result(m, text("done"))
						return nil
					},
				}}
				s := set(t, spec("raw", f.launch))
				got, err := call(t.Context(), s, "raw", "t", `{}`)
				require.Equal(t, tt.calls, calls)
				if !tt.fails {
					require.NoError(t, err)
					require.Equal(t, text("done"), got)
				} else {
					require.ErrorContains(t, err, "the server raw ended while it worked on this")
				}
				_, err = call(t.Context(), s, "raw", "t", `{}`)
				require.NoError(t, err, "it is back")
				s.Close()
			})
		})
	}
}

func TestRestartsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{script: script{"start": func(*peer, message) error { return errExit }}}
		s := set(t, spec("raw", f.launch))
		<-time.After(time.Hour)
		require.Less(t, f.count(), 120, "at most one start a minute, but for the first")
		require.Greater(t, f.count(), 55)
		require.Equal(t, aggregator.Backoff, s.Status()[0].State)

		before, start := f.count(), time.Now()
		_, err := call(t.Context(), s, "raw", "echo", `{}`)
		require.ErrorContains(t, err, "does not offer this tool")
		require.Equal(t, before, f.count())
		require.Less(t, time.Since(start), time.Second)
		s.Close()
	})
}

func TestACallEndsTheBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		f := &fake{script: script{"start": func(*peer, message) error {
			if broken.Load() {
				return errExit
			}
			return nil
		}}}
		s := set(t, spec("raw", f.launch))
		broken.Store(true)
		f.run().kill()
		<-time.After(10 * time.Minute)
		start := time.Now()
		_, err := call(t.Context(), s, "raw", "echo", `{}`)
		require.ErrorContains(t, err, "the server raw does not run")
		require.LessOrEqual(t, time.Since(start), 2*time.Second)
		broken.Store(false)
		<-time.After(2 * time.Second)
		start = time.Now()
		_, err = call(t.Context(), s, "raw", "echo", `{}`)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), time.Second)
		s.Close()
	})
}

func TestLazyAndIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		lazy := spec("raw", f.launch)
		lazy.Lazy, lazy.IdleStop = true, time.Minute
		s := set(t, lazy)
		require.Equal(t, 1, f.count(), "once, to learn what it offers")
		<-time.After(2 * time.Minute)
		require.Equal(t, aggregator.Stopped, s.Status()[0].State)
		require.Equal(t, []string{"mcp__raw__echo"}, names(s))
		<-f.run().done
		_, err := call(t.Context(), s, "raw", "echo", `{}`)
		require.NoError(t, err)
		require.Equal(t, 2, f.count())
		<-time.After(50 * time.Second)
		_, err = call(t.Context(), s, "raw", "echo", `{}`)
		require.NoError(t, err)
		<-time.After(50 * time.Second)
		require.Equal(t, aggregator.Ready, s.Status()[0].State, "used within the minute")
		f.run().kill()
		<-time.After(time.Minute)
		require.Equal(t, 2, f.count(), "nobody needs it")
		s.Close()
	})
}

func TestProgressIsMappedAndExtendsTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{script: script{"tools/call": func(p *peer, m message) error {
			var in struct {
				Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
			}
			json.Unmarshal(m.Params, &in)
			go func() {
				for i := range 5 {
					<-time.After(50 * time.Second)
					p.line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"x":9007199254740993}}`, in.Meta.ProgressToken, i)
				}
				p.result(m, text("slow"))
				p.line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":99}}`, in.Meta.ProgressToken)
			}()
			return nil
		}}}
		s := set(t, spec("raw", f.launch))
		var seen []string
		_, err := call(t.Context(), s, "raw", "echo", `{}`, func(c *gate.Call) {
			c.Progress = func(p json.RawMessage) { seen = append(seen, string(p)) }
		})
		require.NoError(t, err, "a minute without a sign of life is the limit")
		synctest.Wait()
		require.Len(t, seen, 5, "none behind the answer")
		require.Contains(t, seen[0], "9007199254740993")
		s.Close()
	})
}

func TestTimeOuts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ping   func(*peer, message) error
		starts int
	}{
		{"the server lives", func(p *peer, m message) error { p.result(m, `{}`); return nil }, 1},
		{"the server hangs", func(*peer, message) error { return nil }, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cancelled message
				calls := 0
				f := &fake{script: script{
					"ping": tt.ping,
					"tools/call": func(p *peer, m message) error {
						if calls++; calls > 1 {
							p.result(m, text("ok"))
						}
						return nil
					},
					"notifications/cancelled": func(_ *peer, m message) error { cancelled = m; return nil },
				}}
				s := set(t, spec("raw", f.launch))
				start := time.Now()
				_, err := call(t.Context(), s, "raw", "echo", `{}`)
				require.ErrorContains(t, err, "the server raw gave no answer within 1m0s")
				require.Equal(t, time.Minute, time.Since(start))
				<-time.After(10 * time.Second)
				synctest.Wait()
				require.Contains(t, string(cancelled.Params), "requestId")
				_, err = call(t.Context(), s, "raw", "echo", `{}`)
				require.NoError(t, err)
				require.Equal(t, tt.starts, f.count())
				s.Close()
			})
		})
	}
}

// A tool may have its own timeout.
func TestTimeOutsOfTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{script: script{
			"tools/list": func(p *peer, m message) error {
				p.result(m, toolList(okTool, `{"name":"quick","inputSchema":{"type":"object"}}`))
				return nil
			},
			"tools/call": nil, // never answers
		}}
		one := spec("raw", f.launch)
		one.ToolTimeout = func(tool string) time.Duration {
			if tool == "quick" {
				return time.Second
			}
			return time.Hour
		}
		s := set(t, one)
		for tool, want := range map[string]time.Duration{"quick": time.Second, "echo": time.Hour} {
			start := time.Now()
			_, err := call(t.Context(), s, "raw", tool, `{}`)
			require.ErrorContains(t, err, "no answer within "+want.String())
			require.Equal(t, want, time.Since(start))
		}
		s.Close()
	})
}

func TestCancellationReachesTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := make(chan string, 1)
		var id string
		f := &fake{script: script{
			"tools/call":              func(_ *peer, m message) error { id = string(m.ID); return nil },
			"notifications/cancelled": func(_ *peer, m message) error { stopped <- string(m.Params); return nil },
		}}
		s := set(t, spec("raw", f.launch))
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-time.After(time.Second)
			cancel(errors.New("the user stopped it"))
		}()
		_, err := call(ctx, s, "raw", "echo", `{}`)
		require.ErrorIs(t, err, context.Canceled)
		got := <-stopped
		require.Contains(t, got, `"requestId":`+id)
		require.Contains(t, got, "the user stopped it")
		s.Close()
	})
}

func TestAServerThatDoesNotReadDelaysItsCallersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		f := &fake{script: script{"tools/call": func(*peer, message) error { <-block; return errExit }}}
		s := set(t, spec("raw", f.launch), spec("good", (&fake{}).launch))
		errs := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := call(t.Context(), s, "raw", "echo", `{}`)
				errs <- err
			}()
		}
		synctest.Wait()
		_, err := call(t.Context(), s, "good", "echo", `{}`)
		require.NoError(t, err)
		for range 3 {
			require.Error(t, <-errs, "after its minute")
		}
		close(block)
		s.Close()
	})
}

func TestManyCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var specs []aggregator.Spec
		for i := range 10 {
			f := &fake{script: script{"tools/call": func(p *peer, m message) error {
				go func() { // answers out of order
					<-time.After(time.Duration(len(m.ID)%7) * time.Millisecond)
					p.result(m, text(string(m.Params)))
				}()
				return nil
			}}}
			specs = append(specs, spec(fmt.Sprintf("s%d", i), f.launch))
		}
		s := set(t, specs...)
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() { echoes(t, s, i) })
		}
		all.Wait()
		s.Close()
	})
}

func TestManyRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		one := spec("raw", f.launch)
		one.IdleStop = 3 * time.Minute
		s := set(t, one)
		var goroutines int
		var memory int64
		for hour := range 24 {
			switch hour {
			case 3: // all that is kept is there by now
				synctest.Wait()
				goroutines, memory = runtime.NumGoroutine(), heap()
			case 23:
				synctest.Wait()
				require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
				require.Less(t, heap()-memory, int64(4<<20))
			}
			for range 10 {
				_, err := call(t.Context(), s, "raw", "echo", `{}`)
				require.NoError(t, err)
				f.run().kill()
				<-time.After(4 * time.Minute)
			}
			other := one
			other.Digest = fmt.Sprint(hour)
			s.Update([]aggregator.Spec{other})
			s.WaitListed(t.Context(), false)
		}
		s.Close() // the bubble fails when a goroutine is left
		require.Less(t, f.count(), 1000)
	})
}

func TestUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &fake{}, &fake{}
		s := set(t, spec("a", a.launch), spec("b", b.launch))
		s.Update([]aggregator.Spec{spec("b", b.launch), spec("c", (&fake{}).launch)})
		s.WaitListed(t.Context(), false)
		require.Equal(t, []string{"mcp__b__echo", "mcp__c__echo"}, names(s))
		<-a.run().done
		require.Equal(t, 1, b.count(), "what has not changed goes on")
		_, err := call(t.Context(), s, "a", "echo", `{}`)
		require.ErrorContains(t, err, "the server a no longer exists")
		s.Close()
	})
}

func TestAProcessThatIsKilledIsBackWithinASecond(t *testing.T) {
	launch, last := process(t, "orderly")
	s := set(t, spec("raw", launch))
	for range 3 {
		require.NoError(t, last().Kill())
		start := time.Now()
		_, err := call(t.Context(), s, "raw", "echo", `{}`)
		require.NoError(t, err)
		t.Logf("back after %v", time.Since(start))
	}
}

func TestProcessesThatDoNotEndAreKilled(t *testing.T) {
	launch, last := process(t, "deaf")
	s := aggregator.NewDownstreams(aggregator.DownstreamOptions{StateDir: t.TempDir(), Grace: 20 * time.Millisecond})
	s.Update([]aggregator.Spec{spec("raw", launch)})
	for s.Status()[0].State != aggregator.Ready {
		select {
		case <-t.Context().Done():
			t.FailNow()
		case <-time.After(time.Millisecond):
		}
	}
	s.Close()
	require.ErrorIs(t, last().Signal(os.Interrupt), os.ErrProcessDone)
}

func TestALongResult(t *testing.T) {
	launch, _ := process(t, "big")
	s := set(t, spec("raw", launch))
	got, err := call(t.Context(), s, "raw", "echo", `{}`)
	require.NoError(t, err)
	require.Len(t, got, len(text(strings.Repeat("x", 20<<20))))
}

func TestQuestionsGoToTheCallerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers []string
		var mu sync.Mutex
		calls := 0
		f := &fake{script: script{
			"tools/call": func(p *peer, m message) error {
				if calls++; calls%2 == 0 { // ask when two are under way
					p.line(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"secret?"}}`)
				}
				go func() {
					<-time.After(time.Second)
					p.result(m, text("done"))
				}()
				return nil
			},
			"": func(_ *peer, m message) error {
				mu.Lock()
				defer mu.Unlock()
				answers = append(answers, string(m.Result)+string(m.Error))
				return nil
			},
		}}
		s := set(t, spec("raw", f.launch))
		both := func(first, second string) (asked []string) {
			var wg sync.WaitGroup
			for i, caller := range []string{first, second} {
				wg.Go(func() {
					<-time.After(time.Duration(i) * time.Millisecond)
					_, err := call(t.Context(), s, "raw", "echo", `{}`, func(c *gate.Call) {
						c.Caller = caller
						c.Client = func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
							mu.Lock()
							defer mu.Unlock()
							asked = append(asked, caller)
							return json.RawMessage(`{"action":"accept"}`), nil
						}
					})
					require.NoError(t, err)
				})
			}
			wg.Wait()
			return asked
		}
		require.Equal(t, []string{"ann"}, both("ann", "ann"))
		require.Empty(t, both("ann", "bob"), "it could be either's")
		synctest.Wait()
		require.Equal(t, `{"action":"accept"}`, answers[0])
		require.Contains(t, answers[1], "calls of several clients")
		s.Close()
	})
}

func TestAQuestionWithoutACallIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := map[string]string{}
		f := &fake{script: script{
			"notifications/initialized": func(p *peer, _ message) error {
				for _, m := range []string{"elicitation/create", "sampling/createMessage", "roots/list", "ping"} {
					p.line(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":{}}`, m, m)
				}
				return nil
			},
			"": func(_ *peer, m message) error { got[string(m.ID)] = string(m.Result) + string(m.Error); return nil },
		}}
		s := set(t, spec("raw", f.launch))
		synctest.Wait()
		require.Contains(t, got[`"elicitation/create"`], "no call is pending")
		require.Contains(t, got[`"sampling/createMessage"`], "no call is pending")
		require.Equal(t, `{"roots":[{"uri":"file:///w"}]}`, got[`"roots/list"`], "the workspace")
		require.Equal(t, `{}`, got[`"ping"`])
		remove := s.AddClient(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"roots":[]}`), nil
		})
		f.run().kill()
		_, err := call(t.Context(), s, "raw", "echo", `{}`)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, `{"roots":[]}`, got[`"roots/list"`], "of the only client there is")
		remove()
		s.Close()
	})
}

func TestANewSessionRestoresTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []string
		f := &fake{script: script{
			"initialize": func(p *peer, m message) error {
				p.result(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true},"logging":{}}}`)
				return nil
			},
			"resources/list": func(p *peer, m message) error { p.result(m, `{"resources":[{"uri":"raw://a"}]}`); return nil },
			"*": func(_ *peer, m message) error {
				mu.Lock()
				defer mu.Unlock()
				if m.Method == "resources/subscribe" || m.Method == "logging/setLevel" {
					seen = append(seen, m.Method+string(m.Params))
				}
				return nil
			},
			"resources/subscribe":   func(p *peer, m message) error { p.result(m, `{}`); return nil },
			"resources/unsubscribe": func(p *peer, m message) error { p.result(m, `{}`); return nil },
		}}
		s := set(t, spec("raw", f.launch))
		request := func(c *gate.Call) { c.Action.Request = true }
		for range 2 {
			_, err := call(t.Context(), s, "raw", "resources/subscribe", `{"uri":"raw://a"}`, request)
			require.NoError(t, err)
		}
		s.SetLevel("one", "error")
		s.SetLevel("two", "info")
		synctest.Wait()
		seen = nil
		f.run().kill()
		synctest.Wait()
		require.ElementsMatch(t, []string{`resources/subscribe{"uri":"raw://a"}`, `logging/setLevel{"level":"info"}`}, seen)
		require.NoError(t, s.Unsubscribe(t.Context(), "raw://a"))
		seen = nil
		f.run().kill()
		<-time.After(time.Minute)
		synctest.Wait()
		require.Len(t, seen, 2, "one of the two still wants it")
		require.NoError(t, s.Unsubscribe(t.Context(), "raw://a"))
		seen = nil
		f.run().kill()
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{`logging/setLevel{"level":"info"}`}, seen)
		s.Close()
	})
}

func TestHeldServersWaitUntilOneIsNeeded(t *testing.T) {
	for name, need := range map[string]func(*aggregator.Downstreams){
		"begin":  func(s *aggregator.Downstreams) { s.Begin() },
		"settle": func(s *aggregator.Downstreams) { s.WaitListed(context.Background(), false) },
		"a call": func(s *aggregator.Downstreams) {
			s.Run(context.Background(), gate.Call{Action: policy.Action{Server: "raw", Tool: "echo"}}, policy.Profile{})
		},
		"a tool that may come": func(s *aggregator.Downstreams) { s.WaitForTool(context.Background(), "mcp__raw__echo") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				first := aggregator.NewDownstreams(aggregator.DownstreamOptions{StateDir: dir})
				first.Update([]aggregator.Spec{spec("raw", (&fake{}).launch)})
				first.WaitListed(t.Context(), false)
				first.Close()

				f := &fake{}
				s := aggregator.NewDownstreams(aggregator.DownstreamOptions{StateDir: dir, Hold: true})
				s.Update([]aggregator.Spec{spec("raw", f.launch)})
				<-time.After(time.Hour)
				require.Equal(t, []string{"mcp__raw__echo"}, names(s), "from what is saved")
				require.Zero(t, f.count())
				need(s)
				synctest.Wait()
				require.Equal(t, 1, f.count())
				s.Close()
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		s := aggregator.NewDownstreams(aggregator.DownstreamOptions{StateDir: t.TempDir(), Hold: true})
		s.Update([]aggregator.Spec{spec("raw", f.launch)})
		synctest.Wait()
		s.Close()
		require.Zero(t, f.count(), "nobody needed it")
	})
}
