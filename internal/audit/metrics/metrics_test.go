package metrics_test

import (
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"toolgate/internal/gate"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"toolgate/internal/audit/metrics"
)

// read returns the metrics as Prometheus' own parser reads them.
func read(t *testing.T, m *metrics.Metrics) (string, map[string]*dto.MetricFamily) {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, w.Code)
	require.Equal(t, string(expfmt.NewFormat(expfmt.TypeTextPlain)), w.Header().Get("Content-Type"))
	text := w.Body.String()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err, text)
	return text, families
}

func TestMetrics(t *testing.T) {
	m := metrics.New()
	m.Gauge("http_sessions", "Sessions.", func() float64 { return 7 })
	m.Record(gate.Event{Tool: "shell", Verdict: "allow", Outcome: "ok", Duration: 3 * time.Millisecond, Caller: "token:alice", Args: []byte(`{"command":"secret"}`)})
	m.Record(gate.Event{Tool: "shell", Verdict: "ask", Outcome: "refused", Duration: 61 * time.Second, Waited: 60 * time.Second})
	m.Record(gate.Event{Tool: "search", Server: "git", Verdict: "allow", Outcome: "tool-error"})
	m.Refused("no-token")
	text, families := read(t, m)
	for _, line := range []string{
		`toolgate_calls_total{outcome="ok",server="",tool="shell",verdict="allow"} 1`,
		`toolgate_calls_total{outcome="refused",server="",tool="shell",verdict="ask"} 1`,
		`toolgate_calls_total{outcome="tool-error",server="git",tool="search",verdict="allow"} 1`,
		`toolgate_call_duration_seconds_bucket{server="",tool="shell",le="0.0025"} 0`,
		`toolgate_call_duration_seconds_bucket{server="",tool="shell",le="0.005"} 1`,
		`toolgate_call_duration_seconds_bucket{server="",tool="shell",le="1"} 2`, // without the minute that a person took
		`toolgate_call_duration_seconds_bucket{server="",tool="shell",le="+Inf"} 2`,
		`toolgate_call_duration_seconds_sum{server="",tool="shell"} 1.003`,
		`toolgate_call_duration_seconds_count{server="",tool="shell"} 2`,
		`toolgate_approval_wait_seconds_bucket{le="30"} 0`,
		`toolgate_approval_wait_seconds_bucket{le="60"} 1`, // a bound is below itself
		`toolgate_http_refused_total{reason="no-token"} 1`,
		"toolgate_http_sessions 7",
		"go_goroutines ",
	} {
		require.Contains(t, text, line)
	}
	require.NotContains(t, text, "alice")
	require.NotContains(t, text, "secret")

	require.Equal(t, dto.MetricType_COUNTER, families["toolgate_calls_total"].GetType())
	require.Equal(t, dto.MetricType_HISTOGRAM, families["toolgate_call_duration_seconds"].GetType())
	require.Equal(t, dto.MetricType_GAUGE, families["toolgate_http_sessions"].GetType())
	require.Len(t, families["toolgate_call_duration_seconds"].Metric, 2)
	for name, f := range families {
		require.NotEmpty(t, f.GetHelp(), name)
	}
}

func TestMetricsOfTheProcess(t *testing.T) {
	_, families := read(t, metrics.New())
	names := []string{"go_goroutines", "go_memstats_heap_alloc_bytes", "go_memstats_sys_bytes", "process_start_time_seconds"}
	if runtime.GOOS == "linux" {
		names = append(names, "process_resident_memory_bytes", "process_open_fds", "process_max_fds")
		require.GreaterOrEqual(t, families["process_cpu_seconds_total"].Metric[0].GetCounter().GetValue(), 0.0)
	}
	for _, name := range names {
		require.Positive(t, families[name].Metric[0].GetGauge().GetValue(), name)
	}
	started := families["process_start_time_seconds"].Metric[0].GetGauge().GetValue()
	require.InDelta(t, time.Now().Unix(), started, 3600)
}

// What servers and rules name themselves must not break the page.
func TestMetricsOfOddNames(t *testing.T) {
	names := []string{"a\"b", `back\slash`, "new\nline", "bad\xffbyte", "ümläut", "}", `",le="1`, ""}
	m := metrics.New()
	for _, name := range names {
		m.Record(gate.Event{Server: name, Tool: name, Verdict: "allow", Outcome: "ok"})
		m.Refused(name)
	}
	_, families := read(t, m)
	var got []string
	for _, one := range families["toolgate_http_refused_total"].Metric {
		require.Equal(t, 1.0, one.GetCounter().GetValue())
		got = append(got, one.Label[0].GetValue())
	}
	for i := range names {
		names[i] = strings.ToValidUTF8(names[i], "\uFFFD")
	}
	require.ElementsMatch(t, names, got)
}

func TestMetricsConcurrently(t *testing.T) {
	m := metrics.New()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				m.Record(gate.Event{Tool: "shell", Verdict: "allow", Outcome: "ok", Duration: time.Millisecond, Waited: time.Microsecond})
				m.Refused("busy")
				m.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
			}
		})
	}
	all.Wait()
	text, _ := read(t, m)
	require.Contains(t, text, `toolgate_calls_total{outcome="ok",server="",tool="shell",verdict="allow"} 1600`)
	require.Contains(t, text, `toolgate_call_duration_seconds_count{server="",tool="shell"} 1600`)
	require.Contains(t, text, `toolgate_approval_wait_seconds_count 1600`)
}
