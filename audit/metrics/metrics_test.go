package metrics_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/audit/metrics"
	"toolgate/policy"
)

func TestMetrics(t *testing.T) {
	m := metrics.New()
	m.Gauge("http_sessions", "Sessions.", func() float64 { return 7 })
	m.Record(policy.Event{Tool: "shell", Verdict: "allow", Outcome: "ok", Duration: 3 * time.Millisecond, Caller: "token:alice", Args: []byte(`{"command":"secret"}`)})
	m.Record(policy.Event{Tool: "shell", Verdict: "ask", Outcome: "refused", Duration: 61 * time.Second, Waited: 60 * time.Second})
	m.Record(policy.Event{Tool: "search", Server: "git", Verdict: "allow", Outcome: "tool-error"})
	m.Refused("no-token")
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, w.Code)
	for _, line := range []string{
		`toolgate_calls_total{outcome="ok",server="",tool="shell",verdict="allow"} 1`,
		`toolgate_calls_total{outcome="refused",server="",tool="shell",verdict="ask"} 1`,
		`toolgate_calls_total{outcome="tool-error",server="git",tool="search",verdict="allow"} 1`,
		`toolgate_call_duration_seconds_bucket{server="",tool="shell",le="0.005"} 1`,
		`toolgate_call_duration_seconds_bucket{server="",tool="shell",le="1"} 2`, // without the minute that a person took
		`toolgate_approval_wait_seconds_bucket{le="60"} 1`,
		`toolgate_http_refused_total{reason="no-token"} 1`,
		"toolgate_http_sessions 7",
		"go_goroutines ",
	} {
		require.Contains(t, w.Body.String(), line)
	}
	require.NotContains(t, w.Body.String(), "alice")
	require.NotContains(t, w.Body.String(), "secret")
}
