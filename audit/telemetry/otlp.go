package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// A poster posts OTLP's JSON to one receiver.
type poster struct {
	to     Exporter
	client *http.Client
}

func newPoster(e Exporter) *poster {
	return &poster{to: e, client: &http.Client{Timeout: 10 * time.Second}}
}

// tries is how often a batch is sent; retryWait is the first pause between.
const (
	tries     = 3
	retryWait = 500 * time.Millisecond
)

// post sends one message; it tries again where the protocol says that this is
// of use.
func (p *poster) post(ctx context.Context, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("writing telemetry: %w", err)
	}
	wait := retryWait
	for try := 1; ; try++ {
		again, err := p.postOnce(ctx, body)
		if err == nil || !again || try == tries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
		wait *= 2
	}
}

func (p *poster) postOnce(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.to.Endpoint, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("sending telemetry: %w", err)
	}
	for k, v := range p.to.Headers {
		req.Header.Set(k, v)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := p.client.Do(req)
	if err != nil {
		return true, fmt.Errorf("sending telemetry: %w", err)
	}
	defer res.Body.Close()
	io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection is kept
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return false, nil
	}
	return again, fmt.Errorf("sending telemetry to %s: %s", p.to.Endpoint, res.Status)
}

func (p *poster) Shutdown(context.Context) error {
	p.client.CloseIdleConnections()
	return nil
}

// object is a JSON object of OTLP. In OTLP's JSON, ids are hex, enumerations
// are numbers, and 64-bit numbers are strings.
type object = map[string]any

type spanExporter struct{ *poster }

func (x *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	list := make([]object, len(spans))
	for i, s := range spans {
		list[i] = spanObject(s)
	}
	first := spans[0] // all are of our one scope
	return x.post(ctx, object{"resourceSpans": []object{{
		"resource":   resourceObject(first.Resource()),
		"scopeSpans": []object{{"scope": scopeObject(first.InstrumentationScope()), "spans": list}},
	}}})
}

func spanObject(s sdktrace.ReadOnlySpan) object {
	o := object{
		"traceId":           s.SpanContext().TraceID().String(),
		"spanId":            s.SpanContext().SpanID().String(),
		"flags":             uint32(s.SpanContext().TraceFlags()),
		"name":              s.Name(),
		"kind":              int(s.SpanKind()), // the numbers are OTLP's
		"startTimeUnixNano": nano(s.StartTime()),
		"endTimeUnixNano":   nano(s.EndTime()),
		"attributes":        attributeList(s.Attributes()),
	}
	if s.Parent().SpanID().IsValid() {
		o["parentSpanId"] = s.Parent().SpanID().String()
	}
	if s.Status().Code == codes.Error {
		const statusError = 2
		o["status"] = object{"code": statusError}
	}
	return o
}

type metricExporter struct{ *poster }

func (*metricExporter) Temporality(sdkmetric.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}

func (*metricExporter) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}

func (*metricExporter) ForceFlush(context.Context) error { return nil }

func (x *metricExporter) Export(ctx context.Context, rm *metricdata.ResourceMetrics) error {
	var scopes []object
	for _, s := range rm.ScopeMetrics {
		var list []object
		for _, m := range s.Metrics {
			o, err := metricObject(m)
			if err != nil {
				return err
			}
			list = append(list, o)
		}
		scopes = append(scopes, object{"scope": scopeObject(s.Scope), "metrics": list})
	}
	if len(scopes) == 0 {
		return nil
	}
	return x.post(ctx, object{"resourceMetrics": []object{{"resource": resourceObject(rm.Resource), "scopeMetrics": scopes}}})
}

// metricObject writes the two kinds of metrics that there are here.
func metricObject(m metricdata.Metrics) (object, error) {
	o := object{"name": m.Name, "description": m.Description, "unit": m.Unit}
	const cumulative = 2
	var points []object
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			points = append(points, object{
				"attributes": attributeList(p.Attributes.ToSlice()), "startTimeUnixNano": nano(p.StartTime), "timeUnixNano": nano(p.Time),
				"asInt": strconv.FormatInt(p.Value, 10),
			})
		}
		o["sum"] = object{"dataPoints": points, "aggregationTemporality": cumulative, "isMonotonic": data.IsMonotonic}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			point := object{
				"attributes": attributeList(p.Attributes.ToSlice()), "startTimeUnixNano": nano(p.StartTime), "timeUnixNano": nano(p.Time),
				"count": decimal(p.Count), "sum": p.Sum, "explicitBounds": p.Bounds, "bucketCounts": decimals(p.BucketCounts),
			}
			if v, ok := p.Min.Value(); ok {
				point["min"] = v
			}
			if v, ok := p.Max.Value(); ok {
				point["max"] = v
			}
			points = append(points, point)
		}
		o["histogram"] = object{"dataPoints": points, "aggregationTemporality": cumulative}
	default:
		return nil, fmt.Errorf("bug: no way to send a %T", data)
	}
	return o, nil
}

func resourceObject(r *resource.Resource) object {
	return object{"attributes": attributeList(r.Attributes())}
}

func scopeObject(s instrumentation.Scope) object {
	return object{"name": s.Name, "version": s.Version}
}

func attributeList(attrs []attribute.KeyValue) []object {
	list := make([]object, len(attrs))
	for i, a := range attrs {
		list[i] = object{"key": string(a.Key), "value": valueObject(a.Value)}
	}
	return list
}

func valueObject(v attribute.Value) object {
	switch v.Type() {
	case attribute.BOOL:
		return object{"boolValue": v.AsBool()}
	case attribute.INT64:
		return object{"intValue": strconv.FormatInt(v.AsInt64(), 10)}
	case attribute.FLOAT64:
		return object{"doubleValue": v.AsFloat64()}
	}
	return object{"stringValue": v.String()}
}

func nano(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func decimals(list []uint64) []string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = decimal(n)
	}
	return out
}
