package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkHTTPRealCalls: read_file over the loopback, through authentication, gate and a
// confined worker, by 1, 32 and 256 callers at once.
func BenchmarkHTTPRealCalls(b *testing.B) {
	needSandbox(b)
	s := startWeb(b, "[http]\nrate_limit = 1000000\nmax_sessions = 1000\n")
	require.NoError(b, os.WriteFile(filepath.Join(s.ws, "note"), []byte("hello\n"), 0o600))
	for _, callers := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
			defer client.CloseIdleConnections()
			var all []*webCaller
			for range callers {
				c := s.session(webToken)
				defer c.do("DELETE", "/mcp", "")
				all = append(all, c)
			}
			var next atomic.Int64
			took := make([][]time.Duration, callers)
			var wg sync.WaitGroup
			b.ResetTimer()
			began := time.Now()
			for i, c := range all {
				wg.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						at := time.Now()
						if err := c.read(client, n); err != nil {
							b.Error(err)
							return
						}
						took[i] = append(took[i], time.Since(at))
					}
				})
			}
			wg.Wait()
			whole := time.Since(began)
			b.StopTimer()
			each := slices.Concat(took...)
			slices.Sort(each)
			b.ReportMetric(float64(len(each))/whole.Seconds(), "calls/s")
			b.ReportMetric(float64(each[len(each)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(each[len(each)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// read calls read_file without the checks that cost time.
func (c *webCaller) read(client *http.Client, id int64) error {
	r, err := http.NewRequest("POST", c.s.url+"/mcp", strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"read_file","arguments":{"file_path":"note"}}}`, id)))
	if err != nil {
		return err
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + c.token}, "Mcp-Session-Id": {c.session}}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && !strings.Contains(string(body), "hello") {
		err = fmt.Errorf("%s %s", resp.Status, body)
	}
	return err
}

// BenchmarkHTTPIdleMemory reports what the whole process grows by with each
// session that nobody uses.
func BenchmarkHTTPIdleMemory(b *testing.B) {
	s := startWeb(b, "[http]\nrate_limit = 1000000\nmax_sessions = 100000\n")
	const sessions = 1000
	for range 100 {
		s.session(webToken)
	}
	for b.Loop() {
		before := s.resident()
		for range sessions {
			s.session(webToken).do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		}
		b.ReportMetric(float64(s.resident()-before)/sessions, "B/session")
	}
}

// resident returns the memory of the process, in bytes.
func (s *webServer) resident() int {
	s.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Skip("this system does not tell how large a process is")
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(s.t, err)
	return n << 10
}
