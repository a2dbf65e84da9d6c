package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestACallIsSentToAReceiver runs the program with a receiver in its config,
// and with one in the environment.
func TestACallIsSentToAReceiver(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{}
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path] = r.Header.Get("X-Key") + string(body)
	}))
	defer sink.Close()
	for _, tt := range []struct{ name, config, traces string }{
		{"config", `exporter = {otlp-http = {endpoint = "` + sink.URL + `/v1/logs", protocol = "binary", headers = {X-Key = "k-${TEST_KEY}"}}}`, "k-123{"},
		{"environment", `exporter = "otlp-http"`, "{"},
		{"traces alone", `trace_exporter = "otlp-http"`, "{"},
		{"nothing", `exporter = "none"`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clear(got)
			home, ws := t.TempDir(), t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(home, "config.toml"), []byte("[otel]\nenvironment = \"test\"\n"+tt.config+"\n"), 0o600))
			cmd := exec.Command(ownBinary(t), "call", "list_dir", `{"dir_path":"."}`)
			cmd.Dir = ws
			cmd.Env = append(os.Environ(), "TOOLGATE_HOME="+home, "HOME="+home, "TEST_KEY=123", "OTEL_EXPORTER_OTLP_ENDPOINT="+sink.URL)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.True(t, strings.HasPrefix(got["/v1/traces"], tt.traces), "%s", got["/v1/traces"])
			if tt.traces == "" {
				require.Empty(t, got)
				return
			}
			require.Contains(t, got["/v1/traces"], `"tools/call list_dir"`)
			require.Len(t, got, 1, "nothing but traces")
		})
	}
}
