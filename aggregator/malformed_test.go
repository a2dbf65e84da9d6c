package aggregator_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
)

// TestMalformedHandshakes has handshakes that were observed with real servers.
func TestMalformedHandshakes(t *testing.T) {
	reply := func(result string) func(*peer, message) error {
		return func(p *peer, m message) error { p.result(m, result); return nil }
	}
	for _, tt := range []struct {
		name   string
		script script
		fails  string // why it is not running, "" when it is
	}{
		{"it leaves when anything but initialize comes first", func() script {
			var once sync.Once
			return script{"*": func(_ *peer, m message) (err error) {
				once.Do(func() {
					if m.Method != "initialize" {
						err = errExit
					}
				})
				return err
			}}
		}(), ""},
		{"an old revision", script{"initialize": reply(`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"0"}}`)}, ""},
		{"a revision that nobody knows", script{"initialize": reply(`{"protocolVersion":"1.0","capabilities":{}}`)}, ""},
		{"no revision", script{"initialize": reply(`{"capabilities":{}}`)}, "has no protocolVersion"},
		{"no object", script{"initialize": reply(`[]`)}, "not a JSON object"},
		{"no capabilities", script{"initialize": reply(`{"protocolVersion":"2025-11-25"}`)}, ""},
		{"capabilities of a wrong kind", script{"initialize": reply(`{"protocolVersion":"2025-11-25","capabilities":[true],"serverInfo":"me","instructions":7}`)}, ""},
		{"it talks before it answers", script{"initialize": func(p *peer, m message) error {
			p.line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"starting"}}`)
			p.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			p.line(`{"jsonrpc":"2.0","id":1,"method":"ping"}`) // with the id of our own request
			p.result(m, okInit)
			return nil
		}}, ""},
		{"a byte order mark", script{"initialize": func(p *peer, m message) error {
			p.line("\xef\xbb\xbf"+`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, okInit)
			return nil
		}}, ""},
		{"line ends of Windows", script{"initialize": func(p *peer, m message) error {
			p.line(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\r", m.ID, okInit)
			return nil
		}}, ""},
		{"it answers twice", script{"initialize": func(p *peer, m message) error {
			p.result(m, okInit)
			p.result(m, `{"protocolVersion":"2024-11-05"}`)
			return nil
		}}, ""},
		{"it refuses, and is not stateless either", script{"initialize": func(p *peer, m message) error { p.fail(m, -32000, "not today"); return nil }}, "initialize: not today"},
		{"it leaves without a word", script{"initialize": func(*peer, message) error { return errExit }}, "its process exited"},
		{"a list that is none", script{"tools/list": reply(`{"tools":null}`)}, "none"},
		{"a list of a wrong kind", script{"tools/list": reply(`{"tools":{"echo":{}}}`)}, "none"},
		{"a cursor of a wrong kind", script{"tools/list": reply(`{"tools":[` + okTool + `],"nextCursor":7}`)}, ""},
		{"a cursor that is null", script{"tools/list": reply(`{"tools":[` + okTool + `],"nextCursor":null}`)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{script: tt.script}
				s := set(t, spec("raw", f.launch))
				switch tt.fails {
				case "":
					_, err := call(t.Context(), s, "raw", "echo", `{}`)
					require.NoError(t, err)
					require.Equal(t, 1, f.count())
				case "none":
					require.Empty(t, names(s))
					require.Equal(t, aggregator.Ready, s.Status()[0].State)
				default:
					require.Contains(t, s.Status()[0].Error, tt.fails)
				}
				s.Close()
			})
		})
	}
}

// TestMalformedAnswers checks that each call ends at once, whatever its result.
func TestMalformedAnswers(t *testing.T) {
	ok := text("ok")
	for _, tt := range []struct {
		name, line string // %[1]s is the id
		want       string
		err        string
		code       int64
	}{
		{name: "both a result and error null", line: `{"jsonrpc":"2.0","id":%[1]s,"result":` + ok + `,"error":null}`, want: ok},
		{name: "twice", line: `{"jsonrpc":"2.0","id":%[1]s,"result":` + ok + `}` + "\n" + `{"jsonrpc":"2.0","id":%[1]s,"result":{}}`, want: ok},
		{name: "neither a result nor an error", line: `{"jsonrpc":"2.0","id":%[1]s}`, err: "not a JSON object"},
		{name: "a number that JSON has not", line: `{"jsonrpc":"2.0","id":%[1]s,"result":{"content":[],"x":NaN}}`, err: "of no use: message is not valid JSON"},
		{name: "half of it", line: `{"jsonrpc":"2.0","id":%[1]s,"result":{"content":[`, err: "of no use: message is not valid JSON"},
		{name: "not UTF-8", line: `{"jsonrpc":"2.0","id":%[1]s,"result":{"content":[{"type":"text","text":"` + "\xff" + `"}]}}`, err: "of no use: message is not valid UTF-8"},
		{name: "nested without an end", line: `{"jsonrpc":"2.0","id":%[1]s,"result":{"content":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}}`, err: "of no use: message nested more than 512 deep"},
		{name: "an error with a code that is a word", line: `{"jsonrpc":"2.0","id":%[1]s,"error":{"code":"E_FAIL","message":"it fails"}}`, err: "it fails", code: -32603},
		{name: "an error with a code that is a fraction", line: `{"jsonrpc":"2.0","id":%[1]s,"error":{"code":-32001.0,"message":"it fails"}}`, err: "it fails", code: -32001},
		{name: "an error without a message", line: `{"jsonrpc":"2.0","id":%[1]s,"error":{"code":-32000,"data":{"n":9007199254740993}}}`, err: "says nothing", code: -32000},
		{name: "an error that is a word", line: `{"jsonrpc":"2.0","id":%[1]s,"error":"oops"}`, err: `says nothing: "oops"`, code: -32603},
		{name: "an error that is true", line: `{"jsonrpc":"2.0","id":%[1]s,"error":true}`, err: "says nothing: true", code: -32603},
		{name: "with white space", line: "  \t" + `{ "id" : %[1]s , "result" : ` + ok + ` } ` + "\r", want: ok},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{script: script{"tools/call": func(p *peer, m message) error {
					p.line("%s", fmt.Sprintf(tt.line, m.ID))
					return nil
				}}}
				s := set(t, spec("raw", f.launch))
				start := time.Now()
				got, err := call(t.Context(), s, "raw", "echo", `{}`)
				require.Zero(t, time.Since(start))
				if tt.err == "" {
					require.NoError(t, err)
					require.Equal(t, tt.want, got)
				} else {
					require.ErrorContains(t, err, tt.err)
				}
				if rpc, is := errors.AsType[*aggregator.RPCError](err); tt.code != 0 {
					require.True(t, is)
					require.Equal(t, tt.code, rpc.Code)
				}
				require.Equal(t, 1, f.count(), "the server goes on")
				s.Close()
			})
		})
	}
}

// TestUnusualExits checks that the next call finds a running server, however the last
// one exited.
func TestUnusualExits(t *testing.T) {
	for _, tt := range []struct {
		name string
		call func(p *peer, m message) error
		lost bool // the call under way
	}{
		{"it answers and leaves", func(p *peer, m message) error { p.result(m, text("bye")); return errExit }, false},
		{"it closes its output and stays", func(p *peer, m message) error {
			p.out.(io.Closer).Close()
			_, err := io.Copy(io.Discard, p.in)
			return err
		}, true},
		{"it closes its input and stays", func(p *peer, m message) error {
			p.result(m, text("deaf now"))
			p.in.(io.Closer).Close()
			<-time.After(time.Second)
			return errExit
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				f.script = script{"tools/call": func(p *peer, m message) error {
					if f.count() == 1 {
						return tt.call(p, m)
					}
					p.result(m, text("again"))
					return nil
				}}
				s := set(t, spec("raw", f.launch))
				_, err := call(t.Context(), s, "raw", "echo", `{}`)
				require.Equal(t, tt.lost, err != nil, "%v", err)
				start := time.Now()
				got, err := call(t.Context(), s, "raw", "echo", `{}`)
				require.NoError(t, err)
				require.Equal(t, text("again"), got)
				require.LessOrEqual(t, time.Since(start), 3*time.Second)
				s.Close()
			})
		})
	}
}

// TestAFloodDelaysNobody has a server that sends too much of everything.
func TestAFloodDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		lists := 0
		errR, errW := io.Pipe()
		f := &fake{script: script{
			"tools/list": func(p *peer, m message) error {
				mu.Lock()
				lists++
				mu.Unlock()
				p.result(m, toolList(okTool))
				return nil
			},
			"tools/call": func(p *peer, m message) error {
				for range 1000 {
					p.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
					p.line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"%s"}}`, strings.Repeat("x", 1000))
					p.line("%s", strings.Repeat("noise ", 1000))
					fmt.Fprintln(errW, strings.Repeat("e", 100_000)) // longer than any line that is logged
				}
				p.result(m, text("ok"))
				return nil
			},
		}}
		s := set(t, spec("raw", func() (*aggregator.Process, error) {
			p, err := f.launch()
			p.Err = errR
			return p, err
		}))
		_, err := call(t.Context(), s, "raw", "echo", `{}`)
		require.NoError(t, err)
		synctest.Wait()
		mu.Lock()
		require.Less(t, lists, 600, "changes that come together are one")
		mu.Unlock()
		errW.Close()
		s.Close()
	})
}

// TestManyCallsOverProcesses makes a thousand concurrent calls to ten real servers, one
// of which is killed meanwhile, and checks that nothing leaks.
func TestManyCallsOverProcesses(t *testing.T) {
	var specs []aggregator.Spec
	var last []func() *os.Process
	for i := range 10 {
		launch, running := process(t, "orderly")
		specs, last = append(specs, spec(fmt.Sprintf("s%d", i), launch)), append(last, running)
	}
	s := set(t, specs...)
	round := func() {
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() { echoes(t, s, i) })
			if i == 500 {
				all.Go(func() { require.NoError(t, last[3]().Kill()) }) // its tool only reads: the call is repeated
			}
		}
		all.Wait()
		_, err := call(t.Context(), s, "s3", "echo", `{}`)
		require.NoError(t, err, "it runs again")
	}
	round()
	before := runtime.NumGoroutine()
	for range 3 {
		round()
	}
	require.Less(t, runtime.NumGoroutine(), before+20)
}
