// Package telemetry sends a span and metrics for each call to an OpenTelemetry
// receiver, by OTLP over HTTP.
//
//	t, err := telemetry.Start(telemetry.Options{Traces: &telemetry.Exporter{Endpoint: url}})
//	gate.Record = t.Record
//	defer t.Close()
//
// Names are those of the semantic conventions for MCP, and Codex's counters
// beside them. What is sent says which tool was called and what became of it;
// arguments, results and messages are never sent.
//
// The SDK does the batching and counting; what it gives is written as OTLP's
// JSON here, because the SDK's own exporters bring gRPC and weigh seven times
// the SDK itself.
package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"toolgate/policy"
)

// An Exporter is a receiver of one kind of telemetry.
type Exporter struct {
	Endpoint string            // the whole URL that is posted to
	Headers  map[string]string // sent with it
}

// Options say what is sent where.
type Options struct {
	Version     string        // of the program
	Environment string        // "" is not sent
	Traces      *Exporter     // nil: no traces
	Metrics     *Exporter     // nil: no metrics
	Interval    time.Duration // between two exports of metrics; 0 means a minute
	Log         *slog.Logger  // nil: nothing is logged
}

// A Telemetry sends what it is told. Close it. It may be used concurrently.
type Telemetry struct {
	traces  *sdktrace.TracerProvider
	metrics *sdkmetric.MeterProvider
	tracer  trace.Tracer // nil: no traces
	meters  *meters      // nil: no metrics
}

const scope = "toolgate"

// Start begins to send. It does not wait for a receiver: what cannot be sent
// is logged and lost.
func Start(o Options) (*Telemetry, error) {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry", "err", err) }))
	about := []attribute.KeyValue{attribute.String("service.name", scope), attribute.String("service.version", o.Version)}
	if o.Environment != "" {
		about = append(about, attribute.String("deployment.environment.name", o.Environment))
	}
	res := resource.NewSchemaless(about...)
	t := &Telemetry{}
	if o.Traces != nil {
		t.traces = sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(&spanExporter{poster: newPoster(*o.Traces)}))
		t.tracer = t.traces.Tracer(scope, trace.WithInstrumentationVersion(o.Version))
	}
	if o.Metrics != nil {
		reader := sdkmetric.NewPeriodicReader(&metricExporter{poster: newPoster(*o.Metrics)}, sdkmetric.WithInterval(cmp.Or(o.Interval, time.Minute)))
		t.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(reader))
		var err error
		if t.meters, err = newMeters(t.metrics.Meter(scope, metric.WithInstrumentationVersion(o.Version))); err != nil {
			return nil, fmt.Errorf("starting telemetry: %w", errors.Join(err, t.Close()))
		}
	}
	return t, nil
}

// Record sends one call, by and by.
func (t *Telemetry) Record(e policy.Event) {
	if t.tracer != nil {
		t.span(e)
	}
	if t.meters != nil {
		t.meters.count(e)
	}
}

// closeWait is how long the end waits for the receivers.
const closeWait = 3 * time.Second

// Close sends what was not sent yet, for which it does not wait long.
func (t *Telemetry) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	var traces, metrics error
	var ends sync.WaitGroup
	if t.traces != nil {
		ends.Go(func() { traces = t.traces.Shutdown(ctx) })
	}
	if t.metrics != nil {
		ends.Go(func() { metrics = t.metrics.Shutdown(ctx) })
	}
	ends.Wait()
	return errors.Join(traces, metrics)
}

// span sends the call's span: "tools/call {tool}" or the method of another
// request, of the kind server.
func (t *Telemetry) span(e policy.Event) {
	ctx := context.Background()
	if e.TraceParent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": e.TraceParent})
	}
	name := method(e) + " " + toolName(e)
	if e.Action.Request {
		name = e.Tool
	}
	attrs := append(conventions(e),
		attribute.String("toolgate.call.id", e.ID),
		attribute.String("toolgate.caller", e.Caller),
		attribute.String("toolgate.outcome", e.Outcome),
		attribute.String("toolgate.verdict", e.Verdict),
		attribute.String("toolgate.sandbox.mode", e.Profile),
		attribute.String("toolgate.sandbox.level", e.Level),
		attribute.String("toolgate.sandbox.digest", e.ProfileDigest),
		attribute.Int("toolgate.result.bytes", e.Bytes),
		attribute.Float64("toolgate.wait.seconds", e.Waited.Seconds()),
		attribute.Float64("toolgate.run.seconds", e.Running.Seconds()),
	)
	if e.Agent != "" {
		attrs = append(attrs, attribute.String("toolgate.client.name", e.Agent))
	}
	if e.Asked != "" {
		attrs = append(attrs, attribute.String("toolgate.approval", e.Asked), attribute.String("toolgate.approval.by", e.AnsweredBy))
	}
	_, span := t.tracer.Start(ctx, name,
		trace.WithTimestamp(e.Time), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attrs...))
	if errorType(e) != "" {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(e.Time.Add(e.Duration)))
}

// conventions are the attributes that MCP's conventions ask for.
func conventions(e policy.Event) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attribute.String("mcp.method.name", method(e)),
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", toolName(e)),
	}
	if e.Action.Request {
		attrs = attrs[:1]
	}
	if kind := errorType(e); kind != "" {
		attrs = append(attrs, attribute.String("error.type", kind))
	}
	return attrs
}

// method is the request that the event is about.
func method(e policy.Event) string {
	if e.Action.Request {
		return e.Tool
	}
	return "tools/call"
}

// toolName is the tool's flat name.
func toolName(e policy.Event) string {
	if e.Server != "" {
		return "mcp__" + e.Server + "__" + e.Tool
	}
	return e.Tool
}

// errorType is "tool_error" for a result that is an error, as the conventions
// say, else the outcome; "" when there was no error. A call that waits for its
// answer is none.
func errorType(e policy.Event) string {
	switch e.Outcome {
	case "ok", "suspended":
		return ""
	case "tool-error":
		return "tool_error"
	}
	return e.Outcome
}

// meters are the counters and histograms.
type meters struct {
	operation    metric.Float64Histogram // MCP's
	calls        metric.Int64Counter     // from here on Codex's
	callTimes    metric.Float64Histogram
	mcpCalls     metric.Int64Counter
	mcpCallTimes metric.Float64Histogram
	approvals    metric.Int64Counter
}

func newMeters(m metric.Meter) (*meters, error) {
	var errs [6]error
	ms := &meters{}
	// The boundaries are the conventions'.
	ms.operation, errs[0] = m.Float64Histogram("mcp.server.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("MCP request duration as observed on the receiver"),
		metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300))
	ms.calls, errs[1] = m.Int64Counter("codex.tool.call", metric.WithDescription("calls of tools"))
	ms.callTimes, errs[2] = m.Float64Histogram("codex.tool.call.duration_ms", metric.WithUnit("ms"))
	ms.mcpCalls, errs[3] = m.Int64Counter("codex.mcp.call", metric.WithDescription("calls of other servers' tools"))
	ms.mcpCallTimes, errs[4] = m.Float64Histogram("codex.mcp.call.duration_ms", metric.WithUnit("ms"))
	ms.approvals, errs[5] = m.Int64Counter("codex.approval.requested", metric.WithDescription("questions to a person"))
	return ms, errors.Join(errs[:]...)
}

func (m *meters) count(e policy.Event) {
	if e.Outcome == "suspended" {
		return // the call comes again with the answer
	}
	ctx := context.Background()
	ms := float64(e.Duration) / float64(time.Millisecond)
	m.operation.Record(ctx, e.Duration.Seconds(), metric.WithAttributes(conventions(e)...))

	success := e.Outcome == "ok"
	tool := metric.WithAttributes(attribute.String("tool", toolName(e)), attribute.Bool("success", success), attribute.String("sandbox", cmp.Or(e.Level, "none")), attribute.String("sandbox_policy", e.Profile))
	m.calls.Add(ctx, 1, tool)
	m.callTimes.Record(ctx, ms, tool)
	if e.Server != "" {
		status := "ok"
		if !success {
			status = "error"
		}
		mcp := metric.WithAttributes(attribute.String("server", e.Server), attribute.String("tool", e.Tool), attribute.String("status", status))
		m.mcpCalls.Add(ctx, 1, mcp)
		m.mcpCallTimes.Record(ctx, ms, mcp)
	}
	if e.Asked != "" && e.AnsweredBy != "memory" {
		yes := e.Asked == string(policy.Once) || e.Asked == string(policy.Session) || e.Asked == string(policy.Always)
		m.approvals.Add(ctx, 1, metric.WithAttributes(attribute.String("tool", toolName(e)), attribute.Bool("approved", yes)))
	}
}
