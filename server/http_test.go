package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
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

// A webClient talks to an endpoint without a network, so that the talk can be
// in a synctest bubble.
type webClient struct {
	t       *testing.T
	e       *server.Endpoint
	session string
}

// An exchange is one HTTP request and the response as it comes in.
type exchange struct {
	t      *testing.T
	cancel context.CancelFunc // the client hangs up
	done   chan struct{}

	mu     sync.Mutex
	header http.Header
	code   int
	body   strings.Builder
	read   int // bytes of the body that next has taken
}

func (x *exchange) Header() http.Header { return x.header }

func (x *exchange) WriteHeader(code int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.code == 0 {
		x.code = code
	}
}

func (x *exchange) Write(b []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.body.Write(b)
}

func (x *exchange) Flush() {}

// status returns the status once the server can go no further.
func (x *exchange) status() int {
	synctest.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.code
}

func (x *exchange) text() string {
	synctest.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.body.String()
}

// ended reports whether the response is complete.
func (x *exchange) ended() bool {
	synctest.Wait()
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// An arrival is an event of a stream.
type arrival struct {
	id string
	line
}

// next returns the next message of the stream.
func (x *exchange) next() arrival {
	x.t.Helper()
	for {
		all := x.text()[x.read:]
		event, _, ok := strings.Cut(all, "\n\n")
		require.True(x.t, ok, "no event, but %d %q", x.status(), all)
		x.read += len(event) + 2
		var a arrival
		for l := range strings.SplitSeq(event, "\n") {
			key, value, _ := strings.Cut(l, ": ")
			switch key {
			case "id":
				a.id = value
			case "data":
				a.Raw = value
			}
		}
		if a.Raw != "" {
			require.NoError(x.t, json.Unmarshal([]byte(a.Raw), &a.line))
			return a
		}
	}
}

// quiet checks that no further message has come.
func (x *exchange) quiet() {
	x.t.Helper()
	require.NotContains(x.t, x.text()[x.read:], "jsonrpc")
}

// do starts a request.
func (c *webClient) do(method, body string, headers ...string) *exchange {
	ctx, cancel := context.WithCancel(context.Background())
	r := httptest.NewRequestWithContext(ctx, method, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	x := &exchange{t: c.t, cancel: cancel, done: make(chan struct{}), header: http.Header{}}
	go func() { // ends with the request
		defer close(x.done)
		c.e.ServeHTTP(x, r)
	}()
	return x
}

func (c *webClient) post(format string, args ...any) *exchange {
	return c.do("POST", fmt.Sprintf(format, args...))
}

// modern posts a request of the stateless era.
func (c *webClient) modern(id int, method, name, params string) *exchange {
	if params != "" {
		params += ","
	}
	headers := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		headers = append(headers, "Mcp-Name", name)
	}
	return c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{%s}}}`, id, method, params, modernCaps), headers...)
}

// initialize opens a session of the older era with a client that can do all.
func (c *webClient) initialize() *webClient {
	c.t.Helper()
	x := c.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}},"clientInfo":{"name":"t","version":"1"}}}`)
	require.Contains(c.t, x.next().Raw, `"protocolVersion":"2025-11-25"`)
	require.True(c.t, x.ended())
	c.session = x.header.Get("Mcp-Session-Id")
	require.NotEmpty(c.t, c.session)
	require.Equal(c.t, http.StatusAccepted, c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`).status())
	return c
}

// web runs f in a bubble with an endpoint of a server that has one behind it.
func web(t *testing.T, o server.EndpointOptions, back func(write func(string, ...any), m line), f func(t *testing.T, c *webClient, set *aggregator.Downstreams)) {
	synctest.Test(t, func(t *testing.T) {
		s, set := newServer(t, policy.ApproveAlways, back, change, look)
		o.Caller = "token:t"
		c := &webClient{t: t, e: s.NewEndpoint(o)}
		defer set.Close()
		defer c.e.Close()
		f(t, c, set)
	})
}

// gated runs f in a bubble with an endpoint of a server with nothing behind
// it, whose calls run is asked to run.
func gated(t *testing.T, o server.EndpointOptions, run gate.RunFunc, f func(t *testing.T, c *webClient, s *server.Server)) {
	synctest.Test(t, func(t *testing.T) {
		pol := &policy.Policy{Approval: policy.Untrusted, Mode: policy.WorkspaceWrite, Workspace: "/w", WritableRoots: []string{"/w"}, Confines: func() bool { return true }}
		s := server.New(server.Options{Version: "1", Catalog: []tools.Tool{change, look}, Gate: &gate.Gate{Policy: pol, Run: run}})
		o.Caller = "token:t"
		c := &webClient{t: t, e: s.NewEndpoint(o)}
		defer c.e.Close()
		f(t, c, s)
	})
}

func ran(context.Context, gate.Call, policy.Profile) (gate.Outcome, error) {
	return gate.Outcome{Result: json.RawMessage(`{"content":[{"type":"text","text":"ran"}],"big":9007199254740993}`)}, nil
}

// untilEnd runs a call until its context ends.
func untilEnd(ctx context.Context, _ gate.Call, _ policy.Profile) (gate.Outcome, error) {
	<-ctx.Done()
	return gate.Outcome{}, ctx.Err()
}

func TestHTTPPassesBytesOn(t *testing.T) {
	var got line
	back := func(write func(string, ...any), m line) {
		if legacyBack(write, m) {
			return
		}
		if m.Method == "tools/call" {
			got = m
			write(`{"jsonrpc":"2.0","id":%s,"result":{"z":9007199254740993,"content":[{"type":"new","a":1.50,"t":"<&>\u003c/\/"}]}}`, m.ID)
		}
	}
	const params = `"name":"mcp__raw__do_it","arguments":{"b":9007199254740993,"a":1.50}`
	web(t, server.EndpointOptions{}, back, func(t *testing.T, c *webClient, _ *aggregator.Downstreams) {
		c.initialize()
		x := c.post(`{"jsonrpc":"2.0","id":9007199254740992,"method":"tools/call","params":{%s,"_meta":{"k":9007199254740993}}}`, params)
		a := x.next()
		require.Contains(t, a.Raw, `{"z":9007199254740993,"content":[{"type":"new","a":1.50,"t":"<&>\u003c/\/"}]}`)
		require.Equal(t, "9007199254740992", string(a.ID))
		require.Contains(t, got.Raw, `"arguments":{"b":9007199254740993,"a":1.50}`)
		require.Contains(t, got.Raw, `"k":9007199254740993`)
		require.True(t, x.ended())
	})
	web(t, server.EndpointOptions{}, back, func(t *testing.T, c *webClient, _ *aggregator.Downstreams) {
		x := c.modern(1, "tools/call", "mcp__raw__do_it", params)
		require.Contains(t, x.text(), `"z":9007199254740993,"content":[{"type":"new","a":1.50,"t":"<&>\u003c/\/"}]`)
		require.Contains(t, got.Raw, `"arguments":{"b":9007199254740993,"a":1.50}`)
		require.True(t, x.ended())
	})
}

func TestHTTPAsksForApproval(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"change","arguments":{"path":"a"}}}`
	for word, want := range map[string]string{"once": `"text":"ran"`, "no": "denied"} {
		gated(t, server.EndpointOptions{}, ran, func(t *testing.T, c *webClient, _ *server.Server) {
			c.initialize()
			x := c.post(call, 1)
			q := x.next()
			require.Equal(t, "elicitation/create", q.Method, "the question comes on the stream of its call")
			require.Contains(t, q.Raw, `A yes for the session also covers, until it ends: all calls of change that do no more than this`)
			<-time.After(time.Second) // to read it
			require.Equal(t, http.StatusAccepted, c.post(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"decision":%q}}}`, q.ID, word).status())
			require.Contains(t, x.next().Raw, want)
			require.True(t, x.ended())
		})
		gated(t, server.EndpointOptions{}, ran, func(t *testing.T, c *webClient, _ *server.Server) {
			x := c.modern(1, "tools/call", "change", `"name":"change","arguments":{"path":"a"}`)
			var res struct {
				State string `json:"requestState"`
			}
			a := x.next()
			require.Contains(t, a.Raw, `"input_required"`)
			require.NoError(t, json.Unmarshal(a.Result, &res))
			<-time.After(time.Second)
			y := c.modern(2, "tools/call", "change", fmt.Sprintf(`"name":"change","arguments":{"path":"a"},"requestState":%q,"inputResponses":{"approval":{"action":"accept","content":{"decision":%q}}}`, res.State, word))
			require.Contains(t, y.next().Raw, want)
		})
	}
}

func TestHTTPServerBehindAsksTheClient(t *testing.T) {
	var call, answer line
	back := func(write func(string, ...any), m line) {
		if legacyBack(write, m) {
			return
		}
		switch {
		case m.Method == "tools/call":
			call = m
			write(`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[],"maxTokens":9007199254740993}}`)
		case string(m.ID) == `"q"`:
			answer = m
			write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, call.ID)
		}
	}
	web(t, server.EndpointOptions{}, back, func(t *testing.T, c *webClient, _ *aggregator.Downstreams) {
		c.initialize()
		own := c.do("GET", "")
		x := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__raw__do_it","arguments":{}}}`)
		q := x.next()
		require.Equal(t, `{"messages":[],"maxTokens":9007199254740993}`, string(q.Params))
		c.post(`{"jsonrpc":"2.0","id":%s,"result":{"role":"assistant","content":{"type":"hologram","n":9007199254740993},"model":"m"}}`, q.ID).status()
		require.Contains(t, answer.Raw, `{"role":"assistant","content":{"type":"hologram","n":9007199254740993},"model":"m"}`)
		require.Contains(t, x.next().Raw, `"content":[]`)
		for own.read = 0; strings.Contains(own.text()[own.read:], "jsonrpc"); {
			require.NotEqual(t, "sampling/createMessage", own.next().Method, "not on two streams")
		}
		own.cancel()
	})
}

func TestHTTPStreamIsTakenUpAgain(t *testing.T) {
	release := make(chan struct{})
	run := func(context.Context, gate.Call, policy.Profile) (gate.Outcome, error) {
		<-release
		return ran(context.Background(), gate.Call{}, policy.Profile{})
	}
	gated(t, server.EndpointOptions{}, run, func(t *testing.T, c *webClient, _ *server.Server) {
		release = make(chan struct{})
		c.initialize()
		x := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":{}}}`)
		prime, _, ok := strings.Cut(strings.TrimPrefix(x.text(), "id: "), "\n")
		require.True(t, ok, "there is an id to come back with before there is an answer")
		x.cancel()
		require.True(t, x.ended())
		y := c.do("GET", "", "Last-Event-Id", prime)
		y.quiet()
		require.Equal(t, http.StatusConflict, c.do("GET", "", "Last-Event-Id", prime).status(), "one reads it at a time")
		close(release)
		answer := y.next()
		require.Contains(t, answer.Raw, `"text":"ran"`)
		require.True(t, y.ended(), "behind the answer there is nothing")
		require.Contains(t, c.do("GET", "", "Last-Event-Id", prime).next().Raw, `"text":"ran"`, "and once more")
		last := c.do("GET", "", "Last-Event-Id", answer.id)
		last.quiet()
		require.True(t, last.ended())
		for _, id := range []string{"x", "x_1", prime + "9", "_99", strings.Replace(prime, "_1", "_-1", 1), "_", "__"} {
			require.Equal(t, http.StatusBadRequest, c.do("GET", "", "Last-Event-Id", id).status(), "%q: no 404, the session is there", id)
		}
		<-time.After(5 * time.Minute)
		require.Equal(t, http.StatusBadRequest, c.do("GET", "", "Last-Event-Id", prime).status(), "not kept for ever")
	})
}

// What is kept for clients that come back has an end.
func TestHTTPKeepsOnlySoMuch(t *testing.T) {
	large := json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}`)
	run := func(context.Context, gate.Call, policy.Profile) (gate.Outcome, error) {
		return gate.Outcome{Result: large}, nil
	}
	gated(t, server.EndpointOptions{}, run, func(t *testing.T, c *webClient, _ *server.Server) {
		c.initialize()
		var primes []string
		for i := range 8 {
			x := c.post(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"look","arguments":{}}}`, i)
			require.Len(t, x.next().Raw, len(large)+len(`{"jsonrpc":"2.0","id":1,"result":}`))
			prime, _, _ := strings.Cut(strings.TrimPrefix(x.text(), "id: "), "\n")
			primes = append(primes, prime)
		}
		for i, prime := range primes {
			x := c.do("GET", "", "Last-Event-Id", prime)
			if i < 5 {
				require.Equal(t, http.StatusBadRequest, x.status(), "%d", i)
				continue
			}
			require.Contains(t, x.next().Raw, `"result"`)
		}
	})
}

func TestHTTPSessions(t *testing.T) {
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	t.Run("another caller's is like none", func(t *testing.T) {
		gated(t, server.EndpointOptions{}, ran, func(t *testing.T, c *webClient, s *server.Server) {
			c.initialize()
			other := &webClient{t: t, e: s.NewEndpoint(server.EndpointOptions{Caller: "token:other"})}
			defer other.e.Close()
			for _, m := range []string{"POST", "GET", "DELETE"} {
				theirs, none := other.do(m, list, "Mcp-Session-Id", c.session), other.do(m, list, "Mcp-Session-Id", "NOSUCHSESSION")
				require.Equal(t, http.StatusNotFound, theirs.status())
				require.Equal(t, none.status(), theirs.status())
				require.Equal(t, none.text(), theirs.text())
				require.Equal(t, none.header, theirs.header)
			}
			require.Contains(t, c.post(list).next().Raw, `"tools"`, "and it lives on")
		})
	})
	t.Run("the client ends it", func(t *testing.T) {
		gated(t, server.EndpointOptions{}, ran, func(t *testing.T, c *webClient, _ *server.Server) {
			c.initialize()
			require.Equal(t, http.StatusNoContent, c.do("DELETE", "").status())
			require.Equal(t, http.StatusNotFound, c.post(list).status())
			require.Equal(t, 0, c.e.Sessions())
		})
	})
	t.Run("idle", func(t *testing.T) {
		gated(t, server.EndpointOptions{SessionTTL: time.Minute}, ran, func(t *testing.T, c *webClient, _ *server.Server) {
			c.initialize()
			<-time.After(50 * time.Second)
			require.Contains(t, c.post(list).next().Raw, `"tools"`)
			<-time.After(50 * time.Second)
			require.Equal(t, 1, c.e.Sessions())
			own := c.do("GET", "")
			<-time.After(10 * time.Minute)
			require.Equal(t, 1, c.e.Sessions(), "somebody listens")
			require.Contains(t, own.text(), ": alive", "and is told that we live")
			own.cancel()
			<-time.After(2 * time.Minute)
			require.Equal(t, 0, c.e.Sessions())
			require.Equal(t, http.StatusNotFound, c.post(list).status())
		})
	})
	t.Run("too many", func(t *testing.T) {
		gated(t, server.EndpointOptions{MaxSessions: 2}, ran, func(t *testing.T, c *webClient, _ *server.Server) {
			first, second := *c, *c
			first.initialize()
			<-time.After(time.Second)
			second.initialize()
			<-time.After(time.Second)
			stream := second.do("GET", "")
			stream.quiet()
			third := *c
			third.initialize()
			require.Equal(t, http.StatusNotFound, first.post(list).status(), "the one unused for longest makes room")
			busy := third.do("GET", "")
			busy.quiet()
			refused := c.post(greeting)
			require.Equal(t, http.StatusTooManyRequests, refused.status())
			require.NotEmpty(t, refused.header.Get("Retry-After"))
			stream.cancel()
			busy.cancel()
		})
	})
	t.Run("begins with initialize", func(t *testing.T) {
		gated(t, server.EndpointOptions{}, ran, func(t *testing.T, c *webClient, _ *server.Server) {
			require.Equal(t, http.StatusBadRequest, c.post(list).status())
			bad := c.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7}}`)
			require.Contains(t, bad.next().Raw, `"error"`)
			require.Equal(t, 0, c.e.Sessions())
		})
	})
}

const greeting = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func TestHTTPCancel(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"look","arguments":{}}}`
	var running sync.WaitGroup
	run := func(ctx context.Context, c gate.Call, f policy.Profile) (gate.Outcome, error) {
		running.Add(1)
		defer running.Done()
		return untilEnd(ctx, c, f)
	}
	isRunning := func() bool {
		synctest.Wait()
		done := make(chan struct{})
		go func() { running.Wait(); close(done) }()
		synctest.Wait()
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
	t.Run("by a notification", func(t *testing.T) {
		gated(t, server.EndpointOptions{}, run, func(t *testing.T, c *webClient, _ *server.Server) {
			c.initialize()
			c.post(call)
			require.True(t, isRunning())
			c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
			require.False(t, isRunning())
		})
	})
	t.Run("not by hanging up in a session", func(t *testing.T) {
		gated(t, server.EndpointOptions{}, run, func(t *testing.T, c *webClient, _ *server.Server) {
			c.initialize()
			c.post(call).cancel()
			require.True(t, isRunning(), "the client can come back")
			c.do("DELETE", "")
			require.False(t, isRunning(), "now it cannot")
		})
	})
	t.Run("by hanging up without a session", func(t *testing.T) {
		gated(t, server.EndpointOptions{}, run, func(t *testing.T, c *webClient, _ *server.Server) {
			x := c.modern(1, "tools/call", "look", `"name":"look","arguments":{}`)
			require.True(t, isRunning())
			x.cancel()
			require.False(t, isRunning())
		})
	})
}

func TestHTTPRefusesWhatIsNoMessage(t *testing.T) {
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for name, tt := range map[string]struct {
		method, body string
		headers      []string
		status       int
		text         string
	}{
		"too long":          {"POST", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 2000) + `"}`, nil, 413, "longer than 1000 bytes"},
		"empty":             {"POST", ``, nil, 400, "there is no message"},
		"no JSON":           {"POST", `{"id":5,`, nil, 400, `"code":-32700`},
		"no UTF-8":          {"POST", "{\"id\":5,\"a\":\"\xff\"}", nil, 400, `"id":5`},
		"a batch":           {"POST", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, nil, 400, "batches"},
		"no JSON-RPC":       {"POST", `{"id":5}`, nil, 400, "JSON-RPC"},
		"a form":            {"POST", `a=1`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, ""},
		"plain text":        {"POST", greeting, []string{"Content-Type", "text/plain"}, 415, ""},
		"accepts too few":   {"POST", greeting, []string{"Accept", "application/json"}, 406, ""},
		"unknown revision":  {"POST", greeting, []string{"Mcp-Protocol-Version", "1999-01-01"}, 400, "2025-11-25"},
		"another method":    {"PUT", greeting, nil, 405, ""},
		"GET, newer era":    {"GET", "", []string{"Mcp-Protocol-Version", "2026-07-28"}, 405, ""},
		"GET, no session":   {"GET", "", nil, 400, "Mcp-Session-Id"},
		"DELETE no session": {"DELETE", "", nil, 400, "Mcp-Session-Id"},
	} {
		t.Run(name, func(t *testing.T) {
			gated(t, server.EndpointOptions{MaxBody: 1000}, ran, func(t *testing.T, c *webClient, _ *server.Server) {
				x := c.do(tt.method, tt.body, tt.headers...)
				require.Equal(t, tt.status, x.status(), x.text())
				require.Contains(t, x.text(), tt.text)
				require.True(t, x.ended())
				require.Equal(t, 0, c.e.Sessions())
			})
		})
	}
	gated(t, server.EndpointOptions{}, ran, func(t *testing.T, c *webClient, _ *server.Server) {
		x := c.post(`{"jsonrpc":"2.0","id":41,"method":"ping","params":%s}`, deep)
		require.Equal(t, 400, x.status())
		require.Contains(t, x.text(), "nested more than 512 deep")
		require.Contains(t, x.text(), `"id":41`)
	})
}

// What we put beside a request cannot be put there by a client.
func TestHTTPDropsOurOwnHeaders(t *testing.T) {
	var got line
	back := func(write func(string, ...any), m line) {
		if !legacyBack(write, m) && m.Method == "tools/call" {
			got = m
			write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
		}
	}
	web(t, server.EndpointOptions{}, back, func(t *testing.T, c *webClient, _ *aggregator.Downstreams) {
		c.initialize()
		x := c.do("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__raw__do_it","arguments":{}}}`, "Toolgate-Meta", `{"forged":1}`, "Toolgate-Params", `{"forged":2}`)
		x.next()
		require.NotEmpty(t, got.Raw)
		require.NotContains(t, got.Raw, "forged")
	})
}

func TestHTTPNewsReachesBothEras(t *testing.T) {
	web(t, server.EndpointOptions{}, func(write func(string, ...any), m line) { legacyBack(write, m) }, func(t *testing.T, c *webClient, set *aggregator.Downstreams) {
		newer := &webClient{t: t, e: c.e}
		listen := newer.modern(3, "subscriptions/listen", "", `"notifications":{"toolsListChanged":true}`)
		require.Contains(t, listen.next().Raw, "notifications/subscriptions/acknowledged")
		c.initialize()
		own := c.do("GET", "")
		set.Update(nil) // its tools are gone
		<-time.After(time.Second)
		require.Contains(t, own.text(), "notifications/tools/list_changed")
		require.Contains(t, listen.text(), "notifications/tools/list_changed")
		own.cancel()
		listen.cancel()
		require.True(t, listen.ended())
	})
}

func TestHTTPDrain(t *testing.T) {
	release := make(chan struct{})
	run := func(context.Context, gate.Call, policy.Profile) (gate.Outcome, error) {
		<-release
		return ran(context.Background(), gate.Call{}, policy.Profile{})
	}
	gated(t, server.EndpointOptions{}, run, func(t *testing.T, c *webClient, _ *server.Server) {
		release = make(chan struct{})
		newer := &webClient{t: t, e: c.e}
		c.initialize()
		own := c.do("GET", "")
		listen := newer.modern(3, "subscriptions/listen", "", `"notifications":{}`)
		x := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":{}}}`)
		y := newer.modern(1, "tools/call", "look", `"name":"look","arguments":{}`)
		synctest.Wait()
		drained := make(chan error, 1)
		go func() { drained <- c.e.Drain(context.Background()) }()
		synctest.Wait()
		require.Empty(t, drained)
		require.Equal(t, http.StatusServiceUnavailable, c.post(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`).status())
		require.Equal(t, http.StatusServiceUnavailable, newer.modern(4, "tools/list", "", "").status())
		close(release)
		require.Contains(t, x.next().Raw, `"text":"ran"`)
		require.Contains(t, y.next().Raw, `"text":"ran"`)
		require.NoError(t, <-drained)
		require.False(t, own.ended())
		c.e.Close()
		require.True(t, own.ended())
		require.True(t, listen.ended())
	})
	gated(t, server.EndpointOptions{}, untilEnd, func(t *testing.T, c *webClient, _ *server.Server) {
		c.initialize()
		x := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":{}}}`)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.ErrorIs(t, c.e.Drain(ctx), context.DeadlineExceeded)
		c.e.Close()
		require.True(t, x.ended())
	})
}

func TestHTTPProgressGoesWithItsCall(t *testing.T) {
	back := func(write func(string, ...any), m line) {
		if legacyBack(write, m) || m.Method != "tools/call" {
			return
		}
		var p struct {
			Meta struct {
				Token json.RawMessage `json:"progressToken"`
			} `json:"_meta"`
		}
		json.Unmarshal(m.Params, &p)
		write(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"x":9007199254740993}}`, p.Meta.Token)
		write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
	}
	web(t, server.EndpointOptions{}, back, func(t *testing.T, c *webClient, _ *aggregator.Downstreams) {
		c.initialize()
		x := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__raw__do_it","arguments":{},"_meta":{"progressToken":"mine"}}}`)
		p := x.next()
		require.Equal(t, "notifications/progress", p.Method)
		require.Contains(t, p.Raw, `"mine"`)
		require.Contains(t, p.Raw, `"x":9007199254740993`)
		require.Equal(t, "1", string(x.next().ID))
	})
	web(t, server.EndpointOptions{}, back, func(t *testing.T, c *webClient, _ *aggregator.Downstreams) {
		x := c.do("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__raw__do_it","arguments":{},"_meta":{"progressToken":"mine",`+modernCaps+`}}}`, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "mcp__raw__do_it")
		require.Equal(t, "notifications/progress", x.next().Method)
		require.Equal(t, "1", string(x.next().ID))
	})
}

func TestHTTPCancelsIDsOfEveryForm(t *testing.T) {
	for _, id := range []string{`7`, `"a<b"`, `"\u0061"`, `1.0`, `1e2`} {
		gated(t, server.EndpointOptions{}, untilEnd, func(t *testing.T, c *webClient, _ *server.Server) {
			c.initialize()
			x := c.post(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"look","arguments":{}}}`, id)
			require.False(t, x.ended(), id)
			c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
			require.True(t, x.ended(), id)
			require.NotContains(t, x.text(), `"id"`, "the stream ends without an answer")
			last := regexp.MustCompile(`id: (\S+)`).FindStringSubmatch(x.text())
			require.Len(t, last, 2)
			require.Equal(t, http.StatusBadRequest, c.do("GET", "", "Last-Event-Id", last[1]).status(), "nor can it be taken up again")
		})
	}
}

// A response is not written to after its answer: it is somebody else's then.
func TestHTTPSendsNothingAfterTheAnswer(t *testing.T) {
	var call gate.Call
	run := func(ctx context.Context, c gate.Call, f policy.Profile) (gate.Outcome, error) {
		call = c
		c.Progress(json.RawMessage(`{"progress":1}`))
		return ran(ctx, c, f)
	}
	gated(t, server.EndpointOptions{}, run, func(t *testing.T, c *webClient, _ *server.Server) {
		meta := modernCaps + `,"progressToken":"p","io.modelcontextprotocol/logLevel":"debug"`
		x := c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","_meta":{%s}}}`, meta),
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "look")
		require.Equal(t, "notifications/progress", x.next().Method)
		require.NotEmpty(t, x.next().Result)
		require.True(t, x.ended())
		call.Progress(json.RawMessage(`{"progress":2}`))
		call.Log(json.RawMessage(`{"level":"error","data":1}`))
		x.quiet()
	})
}
