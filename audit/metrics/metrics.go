// Package metrics counts calls, sessions and refusals, in the form that
// Prometheus reads.
//
//	m := metrics.New()
//	gate.Record = m.Record
//	mux.Handle("/metrics", m.Handler())
//
// Names of tools and words of the policy are labels; callers, arguments and
// paths are not: they are many, and nobody else's business.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"toolgate/policy"
)

// Metrics is a set of counters. It may be used concurrently.
type Metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	waited   prometheus.Histogram
	requests *prometheus.CounterVec
}

// New returns counters at zero.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "toolgate_calls_total",
			Help: "Calls of tools, by what the policy said and what became of them.",
		}, []string{"server", "tool", "verdict", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "toolgate_call_duration_seconds",
			Help:    "How long calls took, without the time that a person took to answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"server", "tool"}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "toolgate_approval_wait_seconds",
			Help:    "How long calls waited for a person.",
			Buckets: []float64{1, 2.5, 5, 10, 20, 30, 60, 120, 300},
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "toolgate_http_refused_total",
			Help: "Requests that were not let in, by the reason.",
		}, []string{"reason"}),
	}
	m.registry.MustRegister(m.calls, m.seconds, m.waited, m.requests, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Record counts a call. Calls of tools that are not there have no label of
// their own: a client could make up any number of names.
func (m *Metrics) Record(e policy.Event) {
	m.calls.WithLabelValues(e.Server, e.Tool, e.Verdict, e.Outcome).Inc()
	m.seconds.WithLabelValues(e.Server, e.Tool).Observe((e.Duration - e.Waited).Seconds())
	if e.Waited > 0 {
		m.waited.Observe(e.Waited.Seconds())
	}
}

// Refused counts a request that was not let in.
func (m *Metrics) Refused(reason string) { m.requests.WithLabelValues(reason).Inc() }

// Gauge adds a number that is asked for whenever the metrics are read.
func (m *Metrics) Gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "toolgate_" + name, Help: help}, value))
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
