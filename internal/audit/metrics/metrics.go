// Package metrics counts calls, sessions and refusals, in the form that
// Prometheus reads.
//
//	m := metrics.New()
//	gate.Record = m.Record
//	mux.Handle("/metrics", m.Handler())
//
// Names of tools and words of the policy are labels; callers, arguments and
// paths are not: they are many, and nobody else's business.
//
// It is written here, and not taken from Prometheus' own library, since that
// one and what it brings take a third of the time in which every process of
// this program starts, commands in a sandbox included. That library's parser
// reads what this writes in the tests.
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

// Metrics is a set of counters. It may be used concurrently.
type Metrics struct {
	calls    family
	seconds  family
	waited   family
	requests family

	started time.Time
	mu      sync.Mutex // for gauges
	gauges  []gauge
}

// A gauge is a number that is asked for when the metrics are read.
type gauge struct {
	name, help, kind string
	value            func() float64
}

// New returns counters at zero.
func New() *Metrics {
	m := &Metrics{
		calls: family{
			name: "toolgate_calls_total", kind: kindCounter,
			help:   "Calls of tools, by what the policy said and what became of them.",
			labels: []string{"outcome", "server", "tool", "verdict"},
		},
		seconds: family{
			name: "toolgate_call_duration_seconds", kind: kindHistogram,
			help:    "How long calls took, without the time that a person took to answer.",
			labels:  []string{"server", "tool"},
			buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		},
		waited: family{
			name: "toolgate_approval_wait_seconds", kind: kindHistogram,
			help:    "How long calls waited for a person.",
			buckets: []float64{1, 2.5, 5, 10, 20, 30, 60, 120, 300},
		},
		requests: family{
			name: "toolgate_http_refused_total", kind: kindCounter,
			help:   "Requests that were not let in, by the reason.",
			labels: []string{"reason"},
		},
		started: time.Now(),
	}
	m.waited.at(nil) // shown at zero: it has no labels to be known first
	m.gauges = append(m.gauges, m.ofProcess()...)
	return m
}

// Record counts a call. Calls of tools that are not there have no label of
// their own: a client could make up any number of names.
func (m *Metrics) Record(e gate.Event) {
	m.calls.at([]string{e.Outcome, e.Server, e.Tool, e.Verdict}).add(1)
	m.seconds.at([]string{e.Server, e.Tool}).add((e.Duration - e.Waited).Seconds())
	if e.Waited > 0 {
		m.waited.at(nil).add(e.Waited.Seconds())
	}
}

// Refused counts a request that was not let in.
func (m *Metrics) Refused(reason string) { m.requests.at([]string{reason}).add(1) }

// Gauge adds a number that is asked for whenever the metrics are read.
func (m *Metrics) Gauge(name, help string, value func() float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gauges = append(m.gauges, gauge{"toolgate_" + name, help, kindGauge, value})
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var b bytes.Buffer
		m.write(&b)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Write(b.Bytes())
	})
}

func (m *Metrics) write(b *bytes.Buffer) {
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
	writeHead(b, "go_info", "The Go that this was built with.", kindGauge)
	writeSample(b, "go_info", `version="`+escape(runtime.Version())+`"`, 1)
}

// ofProcess returns what is told of this process, under the names that every
// Go program uses.
func (m *Metrics) ofProcess() []gauge {
	memory := func(pick func(*runtime.MemStats) uint64) func() float64 {
		return func() float64 {
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			return float64(pick(&s))
		}
	}
	gauges := []gauge{
		{"go_goroutines", "Goroutines that exist.", kindGauge, func() float64 { return float64(runtime.NumGoroutine()) }},
		{"go_gc_cycles_total", "Collections of garbage so far.", kindCounter, memory(func(s *runtime.MemStats) uint64 { return uint64(s.NumGC) })},
		{"go_memstats_heap_alloc_bytes", "Bytes of the heap in use.", kindGauge, memory(func(s *runtime.MemStats) uint64 { return s.HeapAlloc })},
		{"go_memstats_sys_bytes", "Bytes taken from the system.", kindGauge, memory(func(s *runtime.MemStats) uint64 { return s.Sys })},
		{"process_start_time_seconds", "When the server began, in seconds since 1970.", kindGauge, func() float64 { return float64(m.started.UnixMilli()) / 1000 }},
	}
	return append(gauges, ofSystem()...)
}

// Kinds of metrics, as the format names them.
const (
	kindCounter   = "counter"
	kindGauge     = "gauge"
	kindHistogram = "histogram"
)

// number returns v as the format wants it.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
