package aggregator_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/internal/gate"
)

// everythingEnv names the index.js of @modelcontextprotocol/server-everything,
// which is not part of this repository.
const everythingEnv = "TOOLGATE_EVERYTHING"

// TestServerEverything calls each tool of the reference server like a client with all
// capabilities. Without node or the server it is skipped, or fails if REQUIRE_NODE is
// set.
func TestServerEverything(t *testing.T) {
	node, err := exec.LookPath("node")
	index := os.Getenv(everythingEnv)
	if err != nil || index == "" {
		if os.Getenv("REQUIRE_NODE") != "" {
			t.Fatalf("REQUIRE_NODE is set, and node or %s is missing", everythingEnv)
		}
		t.Skipf("needs node, and %s", everythingEnv)
	}
	s := set(t, spec("everything", func() (*aggregator.Process, error) {
		cmd := exec.Command(node, index)
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, outW, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		cmd.Stdout = outW
		err = cmd.Start()
		outW.Close()
		return &aggregator.Process{In: in, Out: out, Wait: cmd.Wait, Kill: cmd.Process.Kill, Term: func() error { return cmd.Process.Signal(os.Interrupt) }}, err
	}))
	require.GreaterOrEqual(t, len(s.Tools()), 16, "those that a full client sees")
	var mu sync.Mutex
	asked := map[string]bool{}
	client := func(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[method] = true
		return map[string]json.RawMessage{
			"elicitation/create":     json.RawMessage(`{"action":"accept","content":{"name":"Ada"}}`),
			"sampling/createMessage": json.RawMessage(`{"role":"assistant","model":"m","content":{"type":"text","text":"sampled"}}`),
			"roots/list":             json.RawMessage(`{"roots":[{"uri":"file:///r"}]}`),
		}[method], nil
	}
	args := map[string]string{
		"echo": `{"message":"hi"}`, "get-sum": `{"a":1,"b":2}`, "get-annotated-message": `{"messageType":"success"}`,
		"get-resource-reference": `{"resourceType":"Text","resourceId":1}`, "get-structured-content": `{"location":"Chicago"}`,
		"trigger-long-running-operation": `{"duration":0.1,"steps":2}`, "trigger-sampling-request": `{"prompt":"hi"}`,
		"trigger-url-elicitation": `{"url":"https://example.com"}`, "simulate-research-query": `{"topic":"python","ambiguous":true}`, "gzip-file-as-resource": `{"data":"data:text/plain,hello","name":"x.gz"}`,
	}
	for _, tool := range s.Tools() {
		t.Run(tool.Raw, func(t *testing.T) {
			in := args[tool.Raw]
			if in == "" {
				in = `{}`
			}
			got, err := call(t.Context(), s, "everything", tool.Raw, in, func(c *gate.Call) { c.Client = client })
			require.NoError(t, err)
			require.NotContains(t, got, `"isError":true`)
		})
	}
	t.Run("a call as a task", func(t *testing.T) {
		forward := func(method, params string) string {
			got, err := s.Forward(t.Context(), aggregator.Forward{Method: method, Params: json.RawMessage(params), Caller: "me", Client: client})
			require.NoError(t, err)
			return string(got)
		}
		got, err := call(t.Context(), s, "everything", "simulate-research-query", `{"topic":"go","ambiguous":true}`, func(c *gate.Call) {
			c.Client, c.Task = client, json.RawMessage(`{"ttl":60000}`)
		})
		require.NoError(t, err)
		var made struct {
			Task struct{ TaskID, Status string }
		}
		require.NoError(t, json.Unmarshal([]byte(got), &made))
		require.Equal(t, "working", made.Task.Status)
		id := `{"taskId":"` + made.Task.TaskID + `"}`
		require.Contains(t, forward("tasks/get", id), made.Task.TaskID)
		require.Contains(t, forward("tasks/list", `{}`), made.Task.TaskID)
		result := forward("tasks/result", id)
		require.Contains(t, result, "Research Report")
		require.Contains(t, result, `"io.modelcontextprotocol/related-task":{"taskId":"`+made.Task.TaskID+`"}`)
		require.Contains(t, forward("tasks/get", id), `"completed"`)
	})
	require.Equal(t, map[string]bool{"elicitation/create": true, "sampling/createMessage": true, "roots/list": true}, asked)
	require.NotEmpty(t, s.Resources())
	require.NotEmpty(t, s.Templates())
	require.NotEmpty(t, s.Prompts())
}
