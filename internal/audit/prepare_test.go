package audit_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/audit"
	"toolgate/internal/gate"
	"toolgate/policy"
)

// TestAPreparedEventIsRecordedAsAnyOther: whatever of it only the end tells,
// and whatever has changed since.
func TestAPreparedEventIsRecordedAsAnyOther(t *testing.T) {
	yes := true
	began := gate.Event{
		Time: time.Now(), ID: "a", Caller: "stdio", Agent: "client <1>", TraceParent: "00-1", Server: "peer", Tool: "echo",
		Args:    json.RawMessage(`{"message":"<hello>","password":"x"}`),
		Action:  policy.Action{Tool: "echo", Server: "peer", Dir: "/w", Downstream: &policy.Downstream{Trusted: true, Claims: policy.Claims{ReadOnly: &yes}}},
		Verdict: "allow", Reason: "so it is", Profile: "read-only", ProfileDigest: "12",
	}
	for name, end := range map[string]func(*gate.Event){
		"ok": func(e *gate.Event) {
			e.Outcome, e.Level, e.Duration, e.Running, e.Bytes = "ok", "full", 123456, 123, 17
		},
		"no level": func(e *gate.Event) { e.Outcome, e.Duration = "tool-error", 1 },
		"waited":   func(e *gate.Event) { e.Outcome, e.Waited, e.Level = "ok", 5, `odd "level"` },
		"an error": func(e *gate.Event) { e.Outcome, e.Error = "failed", "token=abcdefgh12345678 was wrong" },
		"denied":   func(e *gate.Event) { e.Outcome, e.Denied = "ok", &policy.Denial{Op: "write", Path: "/x"} },
		"hosts":    func(e *gate.Event) { e.Outcome, e.Hosts = "ok", []policy.HostUse{{}} },
		"answered": func(e *gate.Event) {
			e.Outcome, e.Asked, e.AnsweredBy, e.AnsweredAt = "ok", "once", "client", time.Now()
		},
		"wider": func(e *gate.Event) { e.Outcome, e.Profile, e.ProfileDigest = "ok", "danger-full-access", "13" },
	} {
		t.Run(name, func(t *testing.T) {
			plain := began
			end(&plain)
			log, dir := openLog(t)
			with := plain
			with.Prepared = log.Prepare(began)
			require.NotNil(t, with.Prepared)
			log.Record(plain)
			log.Record(with)
			require.NoError(t, log.Close())
			b, err := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
			require.NoError(t, err)
			lines := strings.Split(strings.TrimSpace(string(b)), "\n")
			require.Len(t, lines, 2)
			require.Equal(t, lines[0], lines[1])
			require.NotContains(t, lines[0], `"password":"x"`)
		})
	}
}

func openLog(t *testing.T) (*audit.Log, string) {
	t.Helper()
	dir := t.TempDir()
	log, err := audit.Open(dir)
	require.NoError(t, err)
	return log, dir
}

// BenchmarkRecordPrepared is what is left to do of [BenchmarkRecord] once the
// result is there.
func BenchmarkRecordPrepared(b *testing.B) {
	b.ReportAllocs()
	log, err := audit.Open(b.TempDir())
	require.NoError(b, err)
	defer log.Close()
	e := event("1")
	e.Action = policy.Action{Tool: "shell", Command: []string{"bash", "-c", "go test ./... && echo done"}}
	head := e
	for b.Loop() {
		b.StopTimer()
		e.Prepared = log.Prepare(head)
		b.StartTimer()
		log.Record(e)
	}
}
