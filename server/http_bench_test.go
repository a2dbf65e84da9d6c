package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"toolgate/internal/gate"
	"toolgate/policy"
	"toolgate/server"
	"toolgate/tools"
)

// webEndpoint serves an endpoint whose calls cost nothing to run.
func webEndpoint(tb testing.TB, o server.EndpointOptions) (url string, e *server.Endpoint) {
	pol := &policy.Policy{Approval: policy.OnRequest, Mode: policy.WorkspaceWrite, Workspace: "/w", WritableRoots: []string{"/w"}, Confines: func() bool { return true }}
	s := server.New(server.Options{Version: "1", Catalog: []tools.Tool{change, look}, Gate: &gate.Gate{Policy: pol, Run: ran}})
	o.Caller = "token:t"
	e = s.NewEndpoint(o)
	web := httptest.NewServer(e)
	tb.Cleanup(func() {
		e.Close()
		web.Close()
	})
	return web.URL, e
}

// bareSDK serves a tool by the SDK alone.
func bareSDK(tb testing.TB, stateless bool) string {
	srv := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	srv.AddTool(look.MCP(), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "ran"}}}, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, &mcp.StreamableHTTPOptions{Stateless: stateless, Logger: slog.New(slog.DiscardHandler)}))
	tb.Cleanup(web.Close)
	return web.URL
}

// A loader makes calls as one client would.
type loader struct {
	client  *http.Client
	url     string
	session string
}

func (l *loader) do(body string, headers ...string) (http.Header, error) {
	r, err := http.NewRequest("POST", l.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if l.session != "" {
		r.Header.Set("Mcp-Session-Id", l.session)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := l.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode > 202 || strings.HasPrefix(body, `{"jsonrpc":"2.0","id"`) && !bytes.Contains(b, []byte(`"result"`))) {
		err = fmt.Errorf("%s %s", resp.Status, b)
	}
	return resp.Header, err
}

func (l *loader) open() error {
	h, err := l.do(greeting)
	if err != nil {
		return err
	}
	l.session = h.Get("Mcp-Session-Id")
	_, err = l.do(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return err
}

func (l *loader) call(id int64, modern bool) error {
	if modern {
		_, err := l.do(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"look","arguments":{},"_meta":{%s}}}`, id, modernCaps), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "look")
		return err
	}
	_, err := l.do(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"look","arguments":{}}}`, id))
	return err
}

// BenchmarkHTTPCalls: whole calls over the loopback by 1, 32 and 256 callers at
// once, by us with the gate and by the SDK alone with nothing.
func BenchmarkHTTPCalls(b *testing.B) {
	for _, era := range []string{"session", "stateless"} {
		for _, callers := range []int{1, 32, 256} {
			for _, who := range []string{"toolgate", "sdk"} {
				b.Run(fmt.Sprintf("%s/callers=%d/%s", era, callers, who), func(b *testing.B) {
					modern := era == "stateless"
					url := ""
					if who == "sdk" {
						url = bareSDK(b, modern)
					} else {
						url, _ = webEndpoint(b, server.EndpointOptions{MaxSessions: 1000})
					}
					client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers, MaxConnsPerHost: callers}}
					defer client.CloseIdleConnections()
					loaders := make([]*loader, callers)
					for i := range loaders {
						loaders[i] = &loader{client: client, url: url}
						if !modern {
							require.NoError(b, loaders[i].open())
						}
						require.NoError(b, loaders[i].call(1, modern))
					}
					b.ReportAllocs()
					load(b, loaders, modern)
				})
			}
		}
	}
}

// load shares b.N calls among the loaders.
func load(b *testing.B, loaders []*loader, modern bool) {
	var next atomic.Int64
	took := make([][]time.Duration, len(loaders))
	var wg sync.WaitGroup
	b.ResetTimer()
	began := time.Now()
	for i, l := range loaders {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				at := time.Now()
				if err := l.call(n+1, modern); err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(at))
			}
		})
	}
	wg.Wait()
	all := time.Since(began)
	b.StopTimer()
	each := slices.Concat(took...)
	slices.Sort(each)
	b.ReportMetric(float64(len(each))/all.Seconds(), "calls/s")
	b.ReportMetric(float64(each[len(each)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(each[len(each)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkHTTPIdleSession reports the memory of a session that nobody uses.
func BenchmarkHTTPIdleSession(b *testing.B) {
	url, e := webEndpoint(b, server.EndpointOptions{MaxSessions: 1 << 20})
	client := &http.Client{}
	const sessions = 500
	open := func() {
		l := &loader{client: client, url: url}
		require.NoError(b, l.open())
		_, err := l.do(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		require.NoError(b, err)
	}
	open()
	inUse := func() uint64 {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	for b.Loop() {
		before, had := inUse(), e.Sessions()
		for range sessions {
			open()
		}
		b.ReportMetric(float64(inUse()-before)/float64(e.Sessions()-had), "B/session")
	}
}
