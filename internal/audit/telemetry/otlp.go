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
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// A spanExporter posts spans to a receiver as OTLP JSON.
type spanExporter struct {
	to     Options
	client *http.Client
}

// A batch is sent at most tries times, with a pause of retryWait that doubles.
const (
	tries     = 3
	retryWait = 500 * time.Millisecond
)

// post sends one message. It retries on the status codes that OTLP calls retryable.
func (x *spanExporter) post(ctx context.Context, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("writing telemetry: %w", err)
	}
	wait := retryWait
	for try := 1; ; try++ {
		again, err := x.postOnce(ctx, body)
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

func (x *spanExporter) postOnce(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.to.Endpoint, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("sending telemetry: %w", err)
	}
	for k, v := range x.to.Headers {
		req.Header.Set(k, v)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := x.client.Do(req)
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
	return again, fmt.Errorf("sending telemetry to %s: %s", x.to.Endpoint, res.Status)
}

func (x *spanExporter) Shutdown(context.Context) error {
	x.client.CloseIdleConnections()
	return nil
}

// object is a JSON object of OTLP. In OTLP's JSON, ids are hex, enumerations
// are numbers, and 64-bit numbers are strings.
type object = map[string]any

func (x *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	list := make([]object, len(spans))
	for i, s := range spans {
		list[i] = spanObject(s)
	}
	// All are of our one resource and scope.
	from := spans[0].InstrumentationScope()
	scope := object{"name": from.Name, "version": from.Version}
	return x.post(ctx, object{"resourceSpans": []object{{
		"resource":   object{"attributes": attributeList(spans[0].Resource().Attributes())},
		"scopeSpans": []object{{"scope": scope, "spans": list}},
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

func attributeList(attrs []attribute.KeyValue) []object {
	list := make([]object, len(attrs))
	for i, a := range attrs {
		list[i] = object{"key": string(a.Key), "value": valueObject(a.Value)}
	}
	return list
}

func valueObject(v attribute.Value) object {
	switch v.Type() {
	case attribute.INT64:
		return object{"intValue": strconv.FormatInt(v.AsInt64(), 10)}
	case attribute.FLOAT64:
		return object{"doubleValue": v.AsFloat64()}
	}
	return object{"stringValue": v.String()}
}

func nano(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
