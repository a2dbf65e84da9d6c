package aggregator_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/internal/gate"
)

// tasking returns a server with tasks whose ids are numbers.
func tasking() script {
	made := 0
	state := func(m message) string {
		var p struct{ TaskID string }
		json.Unmarshal(m.Params, &p)
		return fmt.Sprintf(`{"taskId":%q,"status":"working","ttl":3600000}`, p.TaskID)
	}
	return script{
		"initialize": func(p *peer, m message) error {
			p.result(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"t","version":"1"}}`)
			return nil
		},
		"tools/list": func(p *peer, m message) error {
			p.result(m, `{"tools":[{"name":"slow","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}`)
			return nil
		},
		"tools/call": func(p *peer, m message) error {
			made++
			p.result(m, fmt.Sprintf(`{"task":{"taskId":"%d","status":"working","ttl":3600000}}`, made))
			return nil
		},
		"tasks/get": func(p *peer, m message) error { p.result(m, state(m)); return nil },
	}
}

func makeTask(t *testing.T, s *aggregator.Downstreams, caller string) string {
	t.Helper()
	got, err := call(t.Context(), s, "raw", "slow", `{}`, func(c *gate.Call) { c.Caller, c.Task = caller, json.RawMessage(`{}`) })
	require.NoError(t, err)
	var made struct{ Task struct{ TaskID string } }
	require.NoError(t, json.Unmarshal([]byte(got), &made))
	return made.Task.TaskID
}

func forward(t *testing.T, s *aggregator.Downstreams, caller, method, params string) (string, error) {
	got, err := s.Forward(t.Context(), aggregator.Forward{Method: method, Params: json.RawMessage(params), Caller: caller})
	return string(got), err
}

func TestATaskIsItsCallersOwn(t *testing.T) {
	f := &fake{script: tasking()}
	s := set(t, spec("raw", f.launch))
	mine, yours := makeTask(t, s, "me"), makeTask(t, s, "you")
	require.NotEqual(t, mine, yours)
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
		for _, id := range []string{mine, "1", "", "none"} {
			_, err := forward(t, s, "you", method, `{"taskId":"`+id+`"}`)
			rpc, ok := errors.AsType[*aggregator.RPCError](err)
			require.True(t, ok)
			require.Equal(t, int64(-32602), rpc.Code)
			require.Contains(t, rpc.Message, "unknown task", "the same for each")
		}
	}
	got, err := forward(t, s, "you", "tasks/list", `{}`)
	require.NoError(t, err)
	require.Contains(t, got, yours)
	require.NotContains(t, got, mine)
	got, err = forward(t, s, "me", "tasks/get", `{"taskId":"`+mine+`"}`)
	require.NoError(t, err)
	require.Contains(t, got, mine)
}

func TestTasksArePagedAndBounded(t *testing.T) {
	f := &fake{script: tasking()}
	s := set(t, spec("raw", f.launch))
	var first, last string
	for i := range 300 {
		last = makeTask(t, s, "me")
		if i == 0 {
			first = last
		}
	}
	_, err := forward(t, s, "me", "tasks/get", `{"taskId":"`+first+`"}`)
	require.ErrorContains(t, err, "unknown task", "the oldest goes first")
	seen := 0
	for params := `{}`; ; {
		got, err := forward(t, s, "me", "tasks/list", params)
		require.NoError(t, err)
		var page struct {
			Tasks      []struct{ TaskID string }
			NextCursor string
		}
		require.NoError(t, json.Unmarshal([]byte(got), &page))
		seen += len(page.Tasks)
		if page.NextCursor == "" {
			require.Equal(t, last, page.Tasks[len(page.Tasks)-1].TaskID)
			break
		}
		params = `{"cursor":"` + page.NextCursor + `"}`
	}
	require.Equal(t, 256, seen)
	_, err = forward(t, s, "me", "tasks/list", `{"cursor":"x"}`)
	require.ErrorContains(t, err, "cursor")
}

// A server with a running task is not idle, and one with an expired task is.
func TestATaskKeepsItsServerRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{script: tasking()}
		one := spec("raw", f.launch)
		one.IdleStop = time.Minute
		s := set(t, one)
		id := makeTask(t, s, "me")
		<-time.After(30 * time.Minute)
		require.Equal(t, aggregator.Ready, s.Status()[0].State)
		_, err := forward(t, s, "me", "tasks/get", `{"taskId":"`+id+`"}`)
		require.NoError(t, err)
		require.Equal(t, 1, f.count())
		<-time.After(2 * time.Hour)
		require.Equal(t, aggregator.Stopped, s.Status()[0].State)
		_, err = forward(t, s, "me", "tasks/get", `{"taskId":"`+id+`"}`)
		require.ErrorContains(t, err, "expired")
		s.Close()
	})
}
