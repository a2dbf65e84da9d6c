package aggregator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/internal/gate"
	"toolgate/policy"
)

// A web is an HTTP server that answers with any bytes, valid or not.
type web struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string // method and MCP headers of each request
}

func newWeb(t *testing.T, handle func(http.ResponseWriter, *http.Request, message)) *web {
	w := &web{}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body) // an empty body is one, too
		m := message{Raw: string(b)}
		json.Unmarshal(b, &m)
		w.mu.Lock()
		w.seen = append(w.seen, fmt.Sprintf("%s %s session=%s version=%s method=%s name=%s", r.Method, m.Method, r.Header.Get("Mcp-Session-Id"), r.Header.Get("MCP-Protocol-Version"), r.Header.Get("Mcp-Method"), r.Header.Get("Mcp-Name")))
		w.mu.Unlock()
		handle(rw, r, m)
	}))
	t.Cleanup(w.Server.Close)
	return w
}

func (w *web) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.seen, "\n")
}

func answerJSON(w http.ResponseWriter, m message, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// sessionBased answers like a well-behaved session-based server. It returns false for
// requests that the test must answer.
func sessionBased(w http.ResponseWriter, r *http.Request, m message, session string) bool {
	switch {
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.Method == http.MethodDelete:
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", session)
		answerJSON(w, m, okInit)
	case m.Method == "server/discover":
		http.Error(w, "Bad Request: no session", http.StatusBadRequest)
	case r.Header.Get("Mcp-Session-Id") != session:
		http.Error(w, "no such session", http.StatusNotFound)
	case m.Method == "tools/list":
		answerJSON(w, m, toolList(okTool))
	case len(m.ID) == 0 || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
	default:
		return false
	}
	return true
}

func webSpec(w *web) aggregator.Spec {
	s := spec("web", nil)
	s.HTTP = &aggregator.HTTP{URL: w.URL}
	return s
}

func TestHTTPSessionBased(t *testing.T) {
	result := `{"z":1,"content":[{"type":"hologram"}],"n":9007199254740993}`
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if !sessionBased(w, r, m, "s1") {
			answerJSON(w, m, result)
		}
	})
	s := set(t, webSpec(w))
	got, err := call(t.Context(), s, "web", "echo", `{}`)
	require.NoError(t, err)
	require.Equal(t, result, got)
	s.Close()
	require.Contains(t, w.log(), "POST tools/call session=s1 version=2025-11-25 method= name=")
	require.Contains(t, w.log(), "DELETE  session=s1", "the session is ended")
}

// TestMessagesInAnotherCase: over HTTP as over stdio, names are those of the protocol, and
// nothing takes their place.
func TestMessagesInAnotherCase(t *testing.T) {
	ok := text("ok")
	for _, tt := range []struct{ name, body, want string }{
		{"beside the result", `{"jsonrpc":"2.0","id":%[1]s,"result":` + ok + `,"Result":{},"RESULT":{},"ID":7,"Error":{"code":1,"message":"x"}}`, ok},
		{"in place of it", `{"jsonrpc":"2.0","id":%[1]s,"Result":` + ok + `}`, ""},
		{"in an error", `{"jsonrpc":"2.0","id":%[1]s,"error":{"code":-1,"Code":-2,"message":"real","Message":"other"}}`, "real"},
	} {
		for _, kind := range []string{"application/json", "text/event-stream", "stdio"} {
			t.Run(tt.name+"/"+kind, func(t *testing.T) {
				w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
					if sessionBased(w, r, m, "s1") {
						return
					}
					w.Header().Set("Content-Type", kind)
					if kind == "text/event-stream" {
						io.WriteString(w, "data: ")
					}
					fmt.Fprintf(w, tt.body+"\n\n", m.ID)
				})
				one := webSpec(w)
				if kind == "stdio" {
					f := &fake{script: script{"tools/call": func(p *peer, m message) error {
						p.line(tt.body, m.ID)
						return nil
					}}}
					one = spec("web", f.launch)
				}
				s := set(t, one)
				defer s.Close()
				got, err := call(t.Context(), s, "web", "echo", `{}`)
				if err != nil {
					got = err.Error()
				}
				if tt.want == "" {
					require.ErrorContains(t, err, "not a JSON object")
				} else {
					require.Equal(t, tt.want, got)
				}
				if rpc, is := errors.AsType[*aggregator.RPCError](err); is {
					require.EqualValues(t, -1, rpc.Code)
				}
			})
		}
	}
}

// TestEscapedIsError: a name that is written with escapes is the same name.
func TestEscapedIsError(t *testing.T) {
	for result, want := range map[string]bool{
		`{"content":[],"isError":true}`:                      true,
		`{"content":[],"is\u0045rror":true}`:                 true,
		`{"content":[],"IsError":true}`:                      false,
		`{"content":[],"isError":false,"ISERROR":true}`:      false,
		`{"content":[{"type":"text","text":"\u001b"}]}`:      false,
		`{"content":[{"type":"text","text":"\"isError\""}]}`: false,
	} {
		f := &fake{script: script{"tools/call": func(p *peer, m message) error { p.result(m, result); return nil }}}
		s := set(t, spec("raw", f.launch))
		out, err := s.Run(t.Context(), gate.Call{Action: policy.Action{Server: "raw", Tool: "echo"}}, policy.Profile{})
		require.NoError(t, err)
		require.Equal(t, want, out.IsError, result)
		s.Close()
	}
}

func TestHTTPStateless(t *testing.T) {
	var meta atomic.Value
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		switch m.Method {
		case "server/discover":
			answerJSON(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new"}}}`)
		case "tools/list":
			answerJSON(w, m, `{"resultType":"complete","ttlMs":3600000,"tools":[{"name":"é"}]}`)
		case "tools/call":
			meta.Store(m.Raw)
			answerJSON(w, m, `{"resultType":"complete","content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new"}}}`)
		default:
			http.Error(w, "", http.StatusNotFound)
		}
	})
	s := set(t, webSpec(w))
	got, err := call(t.Context(), s, "web", "é", `{}`, func(c *gate.Call) { c.Stateless = true })
	require.NoError(t, err)
	require.Contains(t, got, `"resultType":"complete"`)
	require.Contains(t, w.log(), "POST tools/call session= version=2026-07-28 method=tools/call name==?base64?w6k=?=")
	require.Contains(t, meta.Load(), `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`)
	require.Contains(t, meta.Load(), `"io.modelcontextprotocol/clientCapabilities":{`)
	require.NotContains(t, w.log(), "initialize")
}

func TestHTTPReopensALostSession(t *testing.T) {
	var session atomic.Value
	session.Store("s1")
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if !sessionBased(w, r, m, session.Load().(string)) {
			answerJSON(w, m, text("ok"))
		}
	})
	s := set(t, webSpec(w))
	session.Store("s2")
	_, err := call(t.Context(), s, "web", "echo", `{}`)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(w.log(), "POST initialize"))
}

func TestHTTPStreams(t *testing.T) {
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "e1" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\ndata: \"result\":%s}\n\n", "4", text("resumed"))
			return
		}
		if sessionBased(w, r, m, "s1") {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		var in struct {
			Arguments struct{ Cut bool }
			Meta      struct{ ProgressToken json.RawMessage } `json:"_meta"`
		}
		json.Unmarshal(m.Params, &in)
		fmt.Fprintf(w, ": comment\nretry: 1\nid: e1\ndata:\n\ndata: not json\r\n\r\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":1}}\n\n", in.Meta.ProgressToken)
		if in.Arguments.Cut {
			require.Equal(t, "4", string(m.ID))
			return
		}
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", m.ID, text("streamed"))
	})
	s := set(t, webSpec(w))
	var progress atomic.Int32
	got, err := call(t.Context(), s, "web", "echo", `{}`, func(c *gate.Call) { c.Progress = func(json.RawMessage) { progress.Add(1) } })
	require.NoError(t, err)
	require.Equal(t, text("streamed"), got)
	require.Equal(t, int32(1), progress.Load())
	got, err = call(t.Context(), s, "web", "echo", `{"cut":true}`)
	require.NoError(t, err)
	require.Equal(t, text("resumed"), got)
}

// No request is sent before the server's own stream is open: messages sent earlier are
// lost, and the conformance suite's server answers on the latest stream.
func TestHTTPListensBeforeTheFirstRequest(t *testing.T) {
	asked := make(chan struct{})
	var early atomic.Bool
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if r.Method == http.MethodGet {
			select {
			case <-asked:
				early.Store(true)
			case <-time.After(50 * time.Millisecond):
			}
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		if m.Method == "tools/list" {
			close(asked)
		}
		sessionBased(w, r, m, "s1")
	})
	s := set(t, webSpec(w))
	require.False(t, early.Load())
	s.Close()
}

// An answer on the standalone stream is accepted, as other clients do.
func TestHTTPAnswersOnAnotherStream(t *testing.T) {
	answer := make(chan string)
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			for {
				select {
				case a := <-answer:
					fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n\ndata: %s\n\ndata: %s\n\n", a, a)
					w.(http.Flusher).Flush()
				case <-r.Context().Done():
					return
				}
			}
		}
		if sessionBased(w, r, m, "s1") {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		if strings.Contains(m.Raw, "bad") {
			answer <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no"}}`, m.ID)
		} else {
			answer <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, text("elsewhere"))
		}
		<-r.Context().Done()
	})
	s := set(t, webSpec(w))
	got, err := call(t.Context(), s, "web", "echo", `{}`)
	require.NoError(t, err)
	require.Equal(t, text("elsewhere"), got)
	_, err = call(t.Context(), s, "web", "echo", `{"bad":1}`)
	refused, ok := errors.AsType[*aggregator.RPCError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "no", refused.Message)
	require.NotContains(t, w.log(), "notifications/cancelled")
	s.Close()
}

func TestHTTPCutAnswers(t *testing.T) {
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if sessionBased(w, r, m, "s1") {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"half")
	})
	s := set(t, webSpec(w))
	_, err := call(t.Context(), s, "web", "echo", `{}`)
	require.ErrorContains(t, err, "the server web ended while it worked on this")
	require.Equal(t, 1, strings.Count(w.log(), "tools/call"), "it may have done something")
	require.Equal(t, aggregator.Ready, s.Status()[0].State, "other calls go on")
}

func TestHTTPRetriesBusyServers(t *testing.T) {
	var busy atomic.Int32
	busy.Store(2)
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if m.Method == "tools/call" && busy.Add(-1) >= 0 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		if !sessionBased(w, r, m, "s1") {
			answerJSON(w, m, text("ok"))
		}
	})
	s := set(t, webSpec(w))
	_, err := call(t.Context(), s, "web", "echo", `{}`)
	require.NoError(t, err)
	busy.Store(100)
	_, err = call(t.Context(), s, "web", "echo", `{}`)
	require.ErrorContains(t, err, "429")
}

// An unreasonably long retry delay is an error at once.
func TestHTTPLimitsRetryDelays(t *testing.T) {
	for _, after := range []string{"3600", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), "soon", ""} {
		w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
			if m.Method == "tools/call" {
				w.Header().Set("Retry-After", after)
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			sessionBased(w, r, m, "s1")
		})
		s := set(t, webSpec(w))
		_, err := call(t.Context(), s, "web", "echo", `{}`)
		require.ErrorContains(t, err, "503", after)
		require.Equal(t, 1, strings.Count(w.log(), "tools/call"), after)
	}
	var busy atomic.Bool
	busy.Store(true)
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if m.Method == "tools/call" && busy.CompareAndSwap(true, false) {
			w.Header().Set("Retry-After", time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		if !sessionBased(w, r, m, "s1") {
			answerJSON(w, m, text("ok"))
		}
	})
	_, err := call(t.Context(), set(t, webSpec(w)), "web", "echo", `{}`)
	require.NoError(t, err, "a date in the past is now")
}

// A server that forgets each session at once gets one new session, not an endless
// series.
func TestHTTPGivesUpOnSessionsLostAtOnce(t *testing.T) {
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if m.Method == "tools/call" {
			http.Error(w, "no such session", http.StatusNotFound)
			return
		}
		sessionBased(w, r, m, "s1")
	})
	s := set(t, webSpec(w))
	_, err := call(t.Context(), s, "web", "echo", `{}`)
	require.ErrorContains(t, err, "does not know the session")
	require.Equal(t, 2, strings.Count(w.log(), "tools/call"))
}

func TestHTTPRefusals(t *testing.T) {
	t.Run("no token is not tried again", func(t *testing.T) {
		w := newWeb(t, func(w http.ResponseWriter, _ *http.Request, _ message) {
			http.Error(w, "who are you", http.StatusUnauthorized)
		})
		s := set(t, webSpec(w))
		st := s.Status()[0]
		require.Equal(t, aggregator.Failed, st.State)
		require.Contains(t, st.Error, "401 Unauthorized: who are you")
		require.Equal(t, 1, strings.Count(w.log(), "POST"))
	})
	t.Run("a JSON-RPC error under an HTTP error", func(t *testing.T) {
		w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
			if !sessionBased(w, r, m, "s1") {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"m","data":{"a":1}}}`, m.ID)
			}
		})
		s := set(t, webSpec(w))
		_, err := call(t.Context(), s, "web", "echo", `{}`)
		rpc, ok := errors.AsType[*aggregator.RPCError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, int64(-32020), rpc.Code)
	})
	t.Run("HTML", func(t *testing.T) {
		w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
			if !sessionBased(w, r, m, "s1") {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, "<html>")
			}
		})
		s := set(t, webSpec(w))
		_, err := call(t.Context(), s, "web", "echo", `{}`)
		require.ErrorContains(t, err, "neither JSON nor an event stream")
	})
	t.Run("another host gets no headers", func(t *testing.T) {
		var leaked atomic.Bool
		other := newWeb(t, func(_ http.ResponseWriter, r *http.Request, _ message) { leaked.Store(true) })
		w := newWeb(t, func(w http.ResponseWriter, r *http.Request, _ message) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		})
		one := webSpec(w)
		one.HTTP = &aggregator.HTTP{URL: w.URL, Header: func() (http.Header, error) { return http.Header{"X-Key": {"secret"}}, nil }}
		s := set(t, one)
		require.Contains(t, s.Status()[0].Error, "another host")
		require.False(t, leaked.Load())
	})
	t.Run("nobody is there", func(t *testing.T) {
		w := newWeb(t, func(http.ResponseWriter, *http.Request, message) {})
		w.Close()
		s := set(t, webSpec(w))
		require.Equal(t, aggregator.Backoff, s.Status()[0].State)
	})
}

func TestHTTPCancellation(t *testing.T) {
	told := make(chan string, 1)
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if m.Method == "notifications/cancelled" {
			told <- string(m.Params)
		}
		if !sessionBased(w, r, m, "s1") {
			<-r.Context().Done()
		}
	})
	s := set(t, webSpec(w))
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(errors.New("enough")) })
	_, err := call(ctx, s, "web", "echo", `{}`)
	require.ErrorIs(t, err, context.Canceled)
	require.Contains(t, <-told, "enough")
}

// The transport of 2024-11-05: one stream, and a URL to post to.
func TestHTTPWithSSE(t *testing.T) {
	events := make(chan string, 10)
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request, m message) {
		switch {
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: endpoint\ndata: /messages?session=1\n\n")
			w.(http.Flusher).Flush()
			for {
				select {
				case e := <-events:
					fmt.Fprintf(w, "event: message\ndata: %s\n\n", e)
					w.(http.Flusher).Flush()
				case <-r.Context().Done():
					return
				}
			}
		case r.URL.Path != "/messages":
			http.Error(w, "", http.StatusMethodNotAllowed)
		default:
			w.WriteHeader(http.StatusAccepted)
			result := map[string]string{"initialize": okInit, "tools/list": toolList(okTool), "tools/call": text("over SSE")}[m.Method]
			if result != "" {
				events <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
			}
		}
	})
	s := set(t, webSpec(w))
	got, err := call(t.Context(), s, "web", "echo", `{}`)
	require.NoError(t, err)
	require.Equal(t, text("over SSE"), got)
	s.Close()
	w.CloseClientConnections()
}

// Most Go servers are built with the SDK.
func TestHTTPWithTheSDK(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		t.Run(fmt.Sprintf("stateless=%v", stateless), func(t *testing.T) {
			srv := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
			mcp.AddTool(srv, &mcp.Tool{Name: "add"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct{ A, B int }) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(in.A + in.B)}}}, nil, nil
			})
			ts := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
			defer ts.Close()
			one := spec("sdk", nil)
			one.HTTP = &aggregator.HTTP{URL: ts.URL}
			s := set(t, one)
			got, err := call(t.Context(), s, "sdk", "add", `{"A":1,"B":2}`)
			require.NoError(t, err)
			require.Contains(t, got, `"text":"3"`)
			require.Equal(t, map[bool]string{false: "2025-11-25", true: "2026-07-28"}[stateless], s.Status()[0].Server)
			s.Close()
			ts.CloseClientConnections()
		})
	}
}
