package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/policy"
	"toolgate/server"
)

// A logger is a server of the older era that logs at every level while it
// works, and once more when it has answered, but only what it was told to.
type logger struct {
	ask bool // something in the middle

	mu    sync.Mutex
	level string   // that it was told; at first warning, its own choice
	seen  []string // setLevel and requests, in order
	call  line
}

var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

func (l *logger) say(write func(string, ...any), text string) {
	for _, level := range []string{"debug", "info", "error"} {
		if slices.Index(levels, level) >= slices.Index(levels, l.level) {
			write(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"logger":"l","data":{"text":%q,"n":9007199254740993}}}`, level, text)
		}
	}
}

func (l *logger) back(write func(string, ...any), m line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case legacyBack(write, m):
	case m.Method == "logging/setLevel":
		var p struct{ Level string }
		json.Unmarshal(m.Params, &p)
		l.level = p.Level
		l.seen = append(l.seen, p.Level)
		write(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	case string(m.ID) == `"q"`:
		l.say(write, "on")
		write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, l.call.ID)
		l.say(write, "late")
	case m.Method == "tools/call" || m.Method == "prompts/get" || m.Method == "resources/read":
		l.seen = append(l.seen, m.Method)
		l.call = m
		l.say(write, "at work")
		if l.ask {
			write(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":%s}`, question)
			l.say(write, "waiting")
			return
		}
		write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
		l.say(write, "late")
	}
}

func (l *logger) told() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

// logCaps is the _meta of a client that wants log messages at a level.
func logCaps(level string) string {
	if level == "" {
		return modernCaps
	}
	return modernCaps + fmt.Sprintf(`,"io.modelcontextprotocol/logLevel":%q`, level)
}

// messages reads up to the answer, and returns the levels and texts of the log
// messages before it.
func messages(t *testing.T, next func() line) (list []string, answer line) {
	t.Helper()
	for {
		m := next()
		if m.Method == "" {
			return list, m
		}
		require.Equal(t, "notifications/message", m.Method)
		require.Contains(t, m.Raw, `"n":9007199254740993`)
		var p struct {
			Level string
			Data  struct{ Text string }
		}
		require.NoError(t, json.Unmarshal(m.Params, &p))
		list = append(list, p.Level+" "+p.Data.Text)
	}
}

// noMore checks that nothing more comes.
func (f *front) noMore() {
	f.t.Helper()
	<-time.After(time.Second)
	text, ok := f.out.line()
	require.False(f.t, ok, text)
}

func TestLogMessagesGoWithTheirRequest(t *testing.T) {
	for _, r := range []struct{ method, name, params string }{
		{"tools/call", "mcp__raw__do_it", `"name":"mcp__raw__do_it"`},
		{"prompts/get", "mcp__raw__ask_me", `"name":"mcp__raw__ask_me"`},
		{"resources/read", "raw://a", `"uri":"raw://a"`},
		{"tools/call", "read_mcp_resource", `"name":"read_mcp_resource","arguments":{"server":"raw","uri":"raw://a"}`},
	} {
		for level, want := range map[string][]string{
			"":          nil,
			"debug":     {"debug at work", "info at work", "error at work"},
			"info":      {"info at work", "error at work"},
			"error":     {"error at work"},
			"emergency": nil,
		} {
			t.Run(r.method+" "+r.name+" "+level, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := &logger{level: "warning"}
					f := newFront(t, policy.ApproveAlways, l.back, look)
					defer f.close()
					f.send(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{%s}}}`, r.method, r.params, logCaps(level))
					got, answer := messages(t, f.next)
					require.Equal(t, want, got)
					require.NotEmpty(t, answer.Result, answer.Raw)
					f.noMore()
				})
				web(t, server.EndpointOptions{}, (&logger{level: "warning"}).back, func(t *testing.T, c *webClient, _ *aggregator.Downstreams) {
					x := c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{%s}}}`, r.method, r.params, logCaps(level)), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", r.method, "Mcp-Name", r.name)
					got, answer := messages(t, func() line { return x.next().line })
					require.Equal(t, want, got)
					require.NotEmpty(t, answer.Result, answer.Raw)
					<-time.After(time.Second)
					x.quiet()
				})
			})
		}
	}
}

// isLate tells what a server said when it had answered.
func isLate(m string) bool { return strings.HasSuffix(m, " late") }

// The server is told a level for the time of a request that wants more than
// the clients of the older era do.
func TestTheLogLevelIsSetForARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &logger{level: "warning"}
		f := newFront(t, policy.ApproveAlways, l.back)
		defer f.close()
		f.initialize() // what is said while nothing is under way is for this session
		f.send(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`)
		f.next()
		call := func(level string) []string {
			synctest.Wait()
			f.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mcp__raw__do_it","_meta":{%s}}}`, logCaps(level))
			got, _ := messages(t, f.next)
			synctest.Wait()
			return slices.DeleteFunc(got, isLate)
		}
		require.Equal(t, []string{"info at work", "error at work"}, call("info"), "once, though both eras are open")
		require.Equal(t, []string{"error", "info", "tools/call", "error"}, l.told())
		require.Empty(t, call(""), "a request that names no level wants none")
		require.Equal(t, []string{"error", "info", "tools/call", "error", "tools/call"}, l.told())
	})
}

func TestLogMessagesOfRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, policy.ApproveAlways, (&logger{level: "debug", ask: true}).back)
		defer f.close()
		call := func(level, more string) ([]string, line) {
			f.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__raw__do_it","_meta":{%s}%s}}`, logCaps(level), more)
			return messages(t, f.next)
		}
		got, answer := call("info", "")
		require.Equal(t, []string{"info at work", "error at work"}, got[:2])
		for {
			// What it says while it waits may still be of the first round.
			if text, ok := f.out.line(); !ok {
				break
			} else {
				require.Contains(t, text, `"waiting"`)
			}
		}
		got, answer = call("error", fmt.Sprintf(`,"requestState":%q,"inputResponses":{"q1":%s}`, inquiryOf(t, answer).State, answered))
		require.Equal(t, []string{"error on"}, got)
		require.NotEmpty(t, answer.Result)
		f.noMore()
	})
}

// Where it cannot be known whose request a message is about, nobody gets it.
func TestLogMessagesGoToNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waiting []line
		s, set := newServer(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
			switch {
			case legacyBack(write, m):
			case m.Method == "logging/setLevel":
				write(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			case m.Method == "tools/call":
				write(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":{"text":"%d","n":9007199254740993}}}`, len(waiting))
				if waiting = append(waiting, m); len(waiting) == 2 {
					for _, w := range waiting {
						write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, w.ID)
					}
				}
			}
		})
		defer set.Close()
		call := func(caller string) *exchange {
			c := &webClient{t: t, e: s.NewEndpoint(server.EndpointOptions{Caller: caller})}
			t.Cleanup(c.e.Close)
			x := c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__raw__do_it","_meta":{%s}}}`, logCaps("info")), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "mcp__raw__do_it")
			synctest.Wait()
			return x
		}
		one, two := call("token:one"), call("token:two")
		got, _ := messages(t, func() line { return one.next().line })
		require.Equal(t, []string{"error 0"}, got)
		got, _ = messages(t, func() line { return two.next().line })
		require.Empty(t, got)
		require.NotContains(t, one.text()+two.text(), `"text":"1"`)
	})
}
