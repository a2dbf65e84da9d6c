package telemetry_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/gate"

	collecttrace "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"

	common "go.opentelemetry.io/proto/slim/otlp/common/v1"

	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"toolgate/internal/audit/telemetry"
	"toolgate/policy"
)

// A sink is an OTLP receiver. It reads messages by the protocol's own
// definitions, and unknown fields are faults.
type sink struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	busy    int // answers "unavailable" so often
	posts   int
	bodies  []string
	headers http.Header
	spans   []*tracepb.ResourceSpans
}

func newSink(t *testing.T) *sink {
	s := &sink{t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		var m collecttrace.ExportTraceServiceRequest
		if s.take(w, r, func(b []byte) error { return protojson.Unmarshal(b, &m) }) {
			s.spans = append(s.spans, m.ResourceSpans...)
		}
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *sink) take(w http.ResponseWriter, r *http.Request, parse func([]byte) error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts++
	if s.posts <= s.busy {
		w.WriteHeader(http.StatusServiceUnavailable)
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = parse(body)
	}
	if err != nil || r.Header.Get("Content-Type") != "application/json" {
		s.t.Errorf("a receiver would not take this: %v\n%s", err, body)
		w.WriteHeader(http.StatusBadRequest)
		return false
	}
	s.bodies, s.headers = append(s.bodies, string(body)), r.Header
	return true
}

func (s *sink) start(o telemetry.Options) *telemetry.Telemetry {
	h := map[string]string{"X-Key": "k"}
	o.Version, o.Environment = "1.2.3", "staging"
	o.Endpoint, o.Headers = s.URL+"/v1/traces", h
	return telemetry.Start(o)
}

func plain(list []*common.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range list {
		switch v := kv.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			m[kv.Key] = v.StringValue
		case *common.AnyValue_BoolValue:
			m[kv.Key] = v.BoolValue
		case *common.AnyValue_IntValue:
			m[kv.Key] = v.IntValue
		case *common.AnyValue_DoubleValue:
			m[kv.Key] = v.DoubleValue
		}
	}
	return m
}

// TestACallReachesTheReceiver leads calls through a gate and reads what a
// receiver got.
func TestACallReachesTheReceiver(t *testing.T) {
	s := newSink(t)
	tel := s.start(telemetry.Options{})
	var events []gate.Event
	g := &gate.Gate{
		Policy: &policy.Policy{Approval: policy.OnRequest, Mode: policy.WorkspaceWrite, Workspace: "/w", Confines: func() bool { return true }},
		Run: func(_ context.Context, c gate.Call, _ policy.Profile) (gate.Outcome, error) {
			return gate.Outcome{Result: json.RawMessage(`{}`), IsError: c.Action.Server != "", Level: "full"}, nil
		},
		Record: func(e gate.Event) { events = append(events, e); tel.Record(e) },
	}
	yes := func(context.Context, gate.Question) (gate.Answer, error) { return gate.Once, nil }
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	_, err := g.Call(t.Context(), gate.Call{
		ID: "a", Caller: "stdio", Agent: "codex", Ask: yes, AskedVia: "client", Meta: json.RawMessage(`{"traceparent":"` + parent + `"}`), Arguments: json.RawMessage(`{"command":["secret-command"]}`),
		Action: policy.Action{Tool: "shell", Command: []string{"secret-command"}, Permissions: policy.RequireEscalated},
	})
	require.NoError(t, err)
	_, err = g.Call(t.Context(), gate.Call{ID: "b", Action: policy.Action{Server: "git", Tool: "log", Downstream: &policy.Downstream{Approval: policy.ApproveAlways}}})
	require.NoError(t, err)
	_, err = g.Call(t.Context(), gate.Call{ID: "c", Action: policy.Action{Tool: "apply_patch", Writes: []string{"/etc/passwd"}}})
	require.Error(t, err)
	no := func(context.Context, gate.Question) (gate.Answer, error) { return gate.No, nil }
	_, err = g.Call(t.Context(), gate.Call{ID: "d", Action: policy.Action{Tool: "apply_patch", Writes: []string{"/etc/passwd"}}, Ask: no})
	require.Error(t, err)
	require.NoError(t, tel.Close())

	require.Equal(t, "k", s.headers.Get("X-Key"))
	require.Len(t, s.spans, 1)
	require.Equal(t, map[string]any{"service.name": "toolgate", "service.version": "1.2.3", "deployment.environment.name": "staging"}, plain(s.spans[0].Resource.Attributes))
	spans := s.spans[0].ScopeSpans[0].Spans
	require.Len(t, spans, 4)

	first, attrs := spans[0], plain(spans[0].Attributes)
	require.Equal(t, "tools/call shell", first.Name)
	require.Equal(t, tracepb.Span_SPAN_KIND_SERVER, first.Kind)
	require.Equal(t, tracepb.Status_STATUS_CODE_UNSET, first.GetStatus().GetCode())
	require.Equal(t, "tools/call", attrs["mcp.method.name"])
	require.Equal(t, "execute_tool", attrs["gen_ai.operation.name"])
	require.Equal(t, "shell", attrs["gen_ai.tool.name"])
	require.Equal(t, "once", attrs["toolgate.approval"])
	require.Equal(t, "client", attrs["toolgate.approval.by"])
	require.Equal(t, "codex", attrs["toolgate.client.name"])
	require.NotContains(t, attrs, "error.type")
	require.Equal(t, uint64(events[0].Time.UnixNano()), first.StartTimeUnixNano)
	require.Equal(t, uint64(events[0].Time.Add(events[0].Duration).UnixNano()), first.EndTimeUnixNano)
	var ids struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct{ TraceID, SpanID, ParentSpanID string }
			}
		}
	}
	for _, b := range s.bodies {
		require.NotContains(t, b, "secret-command", "arguments stay here")
		require.NoError(t, json.Unmarshal([]byte(b), &ids))
	}
	id := ids.ResourceSpans[0].ScopeSpans[0].Spans[0]
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", id.TraceID, "the client's trace goes on")
	require.Equal(t, "b7ad6b7169203331", id.ParentSpanID)
	require.Len(t, id.SpanID, 16)
	require.Empty(t, ids.ResourceSpans[0].ScopeSpans[0].Spans[1].ParentSpanID)

	require.Equal(t, "tool_error", plain(spans[1].Attributes)["error.type"])
	require.Equal(t, "mcp__git__log", plain(spans[1].Attributes)["gen_ai.tool.name"])
	require.Equal(t, tracepb.Status_STATUS_CODE_ERROR, spans[1].Status.Code)
	require.Equal(t, "refused", plain(spans[2].Attributes)["error.type"])
	require.Equal(t, "refused", plain(spans[3].Attributes)["error.type"])
}

func TestABusyReceiverIsTriedAgain(t *testing.T) {
	s := newSink(t)
	s.busy = 1
	tel := telemetry.Start(telemetry.Options{Endpoint: s.URL + "/v1/traces"})
	tel.Record(gate.Event{Time: time.Now(), Tool: "x", Outcome: "ok"})
	require.NoError(t, tel.Close())
	require.Equal(t, 2, s.posts)
	require.Len(t, s.spans, 1)
}

func TestAReceiverThatIsNotThereHoldsUpNothing(t *testing.T) {
	s := newSink(t)
	s.Close()
	tel := s.start(telemetry.Options{})
	for range 5_000 { // more than are kept
		tel.Record(gate.Event{Time: time.Now(), Tool: "x", Outcome: "ok"})
	}
	require.Error(t, tel.Close())
}

func BenchmarkRecord(b *testing.B) {
	b.ReportAllocs()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	tel := telemetry.Start(telemetry.Options{Endpoint: srv.URL})
	defer tel.Close()
	e := gate.Event{Time: time.Now(), ID: "1", Tool: "shell", Outcome: "ok", Duration: time.Second}
	for b.Loop() {
		tel.Record(e)
	}
}
