// Package metrics counts calls, sessions and rejected requests, and serves the counts in
// the Prometheus text format.
//
//	m := metrics.New()
//	gate.Record = m.Record
//	mux.Handle("/metrics", m.Handler())
//
// Labels are names of tools and terms of the policy. Callers, arguments and paths are not
// labels, because they are private and unbounded.
//
// The package does not use Prometheus's client library, which with its dependencies
// takes a third of the start-up time of every toolgate process, including sandboxed
// commands. The tests parse the output with Prometheus's parser.
package metrics

import (
	"bytes"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"toolgate/internal/gate"
)

// Metrics is a set of metrics. It may be used concurrently.
type Metrics struct {
	calls    family
	seconds  family
	waited   family
	requests family

	started time.Time
	mu      sync.Mutex // protects gauges
	gauges  []gauge
}

// A gauge is a metric that is computed when the metrics are read.
type gauge struct {
	name, help, kind string
	value            func() float64
}

// New returns metrics with all counters at zero.
func New() *Metrics {
	m := &Metrics{
		calls: family{
			name: "toolgate_calls_total", kind: kindCounter,
			help:   "Tool calls by verdict of the policy and outcome.",
			labels: []string{"outcome", "server", "tool", "verdict"},
		},
		seconds: family{
			name: "toolgate_call_duration_seconds", kind: kindHistogram,
			help:    "Duration of calls, without the wait for approval.",
			labels:  []string{"server", "tool"},
			buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		},
		waited: family{
			name: "toolgate_approval_wait_seconds", kind: kindHistogram,
			help:    "Time that calls waited for approval.",
			buckets: []float64{1, 2.5, 5, 10, 20, 30, 60, 120, 300},
		},
		requests: family{
			name: "toolgate_http_refused_total", kind: kindCounter,
			help:   "Rejected HTTP requests by reason.",
			labels: []string{"reason"},
		},
		started: time.Now(),
	}
	m.waited.get() // has no labels, so it is shown from the start
	m.gauges = append(m.gauges, m.processGauges()...)
	return m
}

// Record counts a call. A call of an unknown tool has no label of its own, because a
// client could invent any number of names.
func (m *Metrics) Record(e gate.Event) {
	m.calls.add(1, e.Outcome, e.Server, e.Tool, e.Verdict)
	m.seconds.add((e.Duration - e.Waited).Seconds(), e.Server, e.Tool)
	if e.Waited > 0 {
		m.waited.add(e.Waited.Seconds())
	}
}

// Refused counts a rejected HTTP request.
func (m *Metrics) Refused(reason string) { m.requests.add(1, reason) }

// Gauge adds a gauge, named toolgate_NAME, that is computed when the metrics are read.
func (m *Metrics) Gauge(name, help string, value func() float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gauges = append(m.gauges, gauge{"toolgate_" + name, help, kindGauge, value})
}

// Handler returns a handler that serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b := &bytes.Buffer{}
		for _, f := range []*family{&m.calls, &m.seconds, &m.waited, &m.requests} {
			f.write(b)
		}
		m.mu.Lock()
		gauges := m.gauges
		m.mu.Unlock()
		for _, g := range gauges {
			writeHead(b, g.name, g.help, g.kind)
			writeSample(b, g.name, "", g.value())
		}
		writeHead(b, "go_info", "Version of Go that the program was built with.", kindGauge)
		writeSample(b, "go_info", `version="`+escape(runtime.Version())+`"`, 1)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Write(b.Bytes())
	})
}

// processGauges returns the standard metrics of a Go process.
func (m *Metrics) processGauges() []gauge {
	memory := func(pick func(*runtime.MemStats) uint64) func() float64 {
		return func() float64 {
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			return float64(pick(&s))
		}
	}
	gauges := []gauge{
		{"go_goroutines", "Number of goroutines.", kindGauge,
			func() float64 { return float64(runtime.NumGoroutine()) }},
		{"go_gc_cycles_total", "Completed garbage collections.", kindCounter,
			memory(func(s *runtime.MemStats) uint64 { return uint64(s.NumGC) })},
		{"go_memstats_heap_alloc_bytes", "Heap bytes in use.", kindGauge,
			memory(func(s *runtime.MemStats) uint64 { return s.HeapAlloc })},
		{"go_memstats_sys_bytes", "Bytes obtained from the system.", kindGauge,
			memory(func(s *runtime.MemStats) uint64 { return s.Sys })},
		{"process_start_time_seconds", "Start time of the server, in seconds since 1970.", kindGauge,
			func() float64 { return float64(m.started.UnixMilli()) / 1000 }},
	}
	return append(gauges, systemGauges()...)
}

// Metric types in the exposition format.
const (
	kindCounter   = "counter"
	kindGauge     = "gauge"
	kindHistogram = "histogram"
)

// formatFloat returns v in the exposition format.
func formatFloat(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
