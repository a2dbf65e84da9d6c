// Package telemetry sends a span for each call to an OpenTelemetry receiver, over
// OTLP/HTTP.
//
//	t := telemetry.Start(telemetry.Options{Endpoint: url})
//	gate.Record = t.Record
//	defer t.Close()
//
// Attribute names follow the semantic conventions for MCP. A span names the tool
// and the outcome of the call; arguments, results and messages are never sent.
// Metrics are Prometheus's: see package metrics.
//
// The SDK batches; this package encodes the batches as OTLP JSON, because the SDK's
// own exporters depend on gRPC and are seven times the size of the SDK.
package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"

	"toolgate/internal/gate"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options configure [Start].
type Options struct {
	Version     string            // of the program
	Environment string            // "" is not sent
	Endpoint    string            // full URL of the receiver
	Headers     map[string]string // of requests to it
	Log         *slog.Logger      // nil: nothing is logged
}

// A Telemetry sends spans. The caller closes it. It may be used concurrently.
type Telemetry struct {
	traces *sdktrace.TracerProvider
	tracer trace.Tracer
}

const scope = "toolgate"

// Start returns a Telemetry. It does not wait for the receiver; spans that cannot
// be sent are logged and dropped.
func Start(o Options) *Telemetry {
	log := cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry", "err", err) }))
	about := []attribute.KeyValue{
		attribute.String("service.name", scope),
		attribute.String("service.version", o.Version),
	}
	if o.Environment != "" {
		about = append(about, attribute.String("deployment.environment.name", o.Environment))
	}
	t := &Telemetry{traces: sdktrace.NewTracerProvider(
		sdktrace.WithResource(resource.NewSchemaless(about...)),
		sdktrace.WithBatcher(&spanExporter{o, &http.Client{Timeout: 10 * time.Second}}),
	)}
	t.tracer = t.traces.Tracer(scope, trace.WithInstrumentationVersion(o.Version))
	return t
}

// closeWait bounds how long Close waits for the receiver.
const closeWait = 3 * time.Second

// Close sends the spans still queued, waiting up to 3 seconds.
func (t *Telemetry) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	return t.traces.Shutdown(ctx)
}

// Record queues the span of one call, of kind server: "tools/call TOOL", or the
// method of another request.
func (t *Telemetry) Record(e gate.Event) {
	ctx := context.Background()
	if e.TraceParent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": e.TraceParent})
	}
	name, attrs := conventions(e)
	attrs = append(attrs,
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
		attrs = append(attrs,
			attribute.String("toolgate.approval", e.Asked),
			attribute.String("toolgate.approval.by", e.AnsweredBy))
	}
	_, span := t.tracer.Start(ctx, name,
		trace.WithTimestamp(e.Time), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attrs...))
	if errorType(e) != "" {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(e.Time.Add(e.Duration)))
}

// conventions returns the name and attributes required by the semantic conventions for MCP.
func conventions(e gate.Event) (name string, attrs []attribute.KeyValue) {
	if e.Action.Request {
		name = e.Tool // the method
		attrs = []attribute.KeyValue{attribute.String("mcp.method.name", e.Tool)}
	} else {
		tool := e.Tool
		if e.Server != "" {
			tool = "mcp__" + e.Server + "__" + e.Tool
		}
		name = "tools/call " + tool
		attrs = []attribute.KeyValue{
			attribute.String("mcp.method.name", "tools/call"),
			attribute.String("gen_ai.operation.name", "execute_tool"),
			attribute.String("gen_ai.tool.name", tool),
		}
	}
	if kind := errorType(e); kind != "" {
		attrs = append(attrs, attribute.String("error.type", kind))
	}
	return name, attrs
}

// errorType returns the error.type attribute: "tool_error" for a result that is an error,
// "" for success or a suspended call, and the outcome otherwise.
func errorType(e gate.Event) string {
	switch e.Outcome {
	case "ok", "suspended":
		return ""
	case "tool-error":
		return "tool_error"
	}
	return e.Outcome
}
