package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
)

// taskBack is a server with tasks. Of the older era it has one tool that runs
// as a task only, of the newer one a tool that it makes a task of for whoever
// takes tasks.
type taskBack struct {
	modern bool
	mu     sync.Mutex
	seen   []string
}

func (b *taskBack) answer(write func(string, ...any), m line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.Method != "" {
		b.seen = append(b.seen, m.Method+" "+string(m.Params))
	}
	result := func(format string, args ...any) {
		write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, fmt.Sprintf(format, args...))
	}
	const task = `"taskId":"theirs","status":%q,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","n":9007199254740993`
	var p struct {
		TaskID string
		Task   json.RawMessage
	}
	json.Unmarshal(m.Params, &p)
	known := p.TaskID == "theirs"
	switch {
	case m.Method == "initialize" && b.modern:
		write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
	case m.Method == "initialize":
		result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"t","version":"1"}}`)
	case m.Method == "server/discover":
		result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
	case m.Method == "tools/list":
		result(`{"tools":[{"name":"slow","inputSchema":{"type":"object","properties":{}},"execution":{"taskSupport":"required"}},{"name":"fast","inputSchema":{"type":"object","properties":{}}}]}`)
	case m.Method == "tools/call" && b.modern && strings.Contains(string(m.Params), `"io.modelcontextprotocol/tasks"`):
		result(`{"resultType":"task",`+task+`,"ttlMs":60000}`, "working")
	case m.Method == "tools/call" && b.modern:
		result(`{"resultType":"complete","content":[]}`)
	case m.Method == "tools/call" && p.Task == nil:
		write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"as a task only"}}`, m.ID)
	case m.Method == "tools/call":
		result(`{"task":{`+task+`,"ttl":60000},"_meta":{"io.modelcontextprotocol/model-immediate-response":"wait"}}`, "working")
	case strings.HasPrefix(m.Method, "tasks/") && !known:
		write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such task"}}`, m.ID)
	case m.Method == "tasks/get" && b.modern:
		result(`{"resultType":"complete",`+task+`,"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?"}}}}`, "input_required")
	case m.Method == "tasks/update":
		result(`{"resultType":"complete"}`)
	case m.Method == "tasks/get":
		result(`{`+task+`}`, "working")
	case m.Method == "tasks/cancel":
		result(`{`+task+`}`, "cancelled")
		write(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{`+task+`}}`, "cancelled")
	case m.Method == "tasks/result":
		// It asks first, and answers when it has been answered.
		write(`{"jsonrpc":"2.0","id":"ask-%s","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"theirs"}}}}`, m.ID)
	case m.Result != nil && strings.HasPrefix(string(m.ID), `"ask-`):
		id := strings.TrimSuffix(strings.TrimPrefix(string(m.ID), `"ask-`), `"`)
		write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"hologram","n":9007199254740993}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"theirs"}}}}`, id)
	}
}

func (b *taskBack) log() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.seen, "\n")
}

func taskID(t *testing.T, res json.RawMessage) string {
	var made struct {
		TaskID string
		Task   struct{ TaskID string }
	}
	require.NoError(t, json.Unmarshal(res, &made))
	id := made.TaskID + made.Task.TaskID
	require.GreaterOrEqual(t, len(id), 20, "one that nobody guesses")
	require.NotContains(t, id, "theirs")
	return id
}

func TestTasksOfTheOlderEra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := &taskBack{}
		f := newFront(t, policy.ApproveAlways, back.answer)
		defer f.close()
		require.Contains(t, f.initialize().Raw, `"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}`)
		f.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		require.Contains(t, f.next().Raw, `"execution":{"taskSupport":"optional"}`, "we run it both ways")

		f.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mcp__raw__slow","arguments":{"n":9007199254740993},"task":{"ttl":5000}}}`)
		made := f.next()
		id := taskID(t, made.Result)
		require.Contains(t, made.Raw, `"n":9007199254740993`)
		require.Contains(t, made.Raw, "model-immediate-response")
		require.Contains(t, back.log(), `"task":{"ttl":5000}`)

		f.send(`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":%q}}`, id)
		require.Contains(t, f.next().Raw, `"taskId":"`+id+`","status":"working"`)
		f.send(`{"jsonrpc":"2.0","id":4,"method":"tasks/list","params":{}}`)
		require.Contains(t, f.next().Raw, `"tasks":[{"taskId":"`+id+`"`)

		f.send(`{"jsonrpc":"2.0","id":5,"method":"tasks/result","params":{"taskId":%q}}`, id)
		asked := f.next()
		require.Equal(t, "elicitation/create", asked.Method)
		require.Contains(t, asked.Raw, `"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}`)
		f.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{}}}`, asked.ID)
		got := f.next()
		require.Contains(t, got.Raw, `"n":9007199254740993`)
		require.Contains(t, got.Raw, `"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}`)

		f.send(`{"jsonrpc":"2.0","id":6,"method":"tasks/cancel","params":{"taskId":%q}}`, id)
		both := f.next().Raw + f.next().Raw
		require.Contains(t, both, `"id":6`)
		require.Contains(t, both, "notifications/tasks/status")
		require.Equal(t, 2, strings.Count(both, `"taskId":"`+id+`","status":"cancelled"`))
		require.NotContains(t, both, "theirs")

		for method, want := range map[string]string{"tasks/get": "-32602", "tasks/result": "-32602", "tasks/cancel": "-32602", "tasks/update": "-32601"} {
			f.send(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{"taskId":"theirs"}}`, method)
			require.Contains(t, f.next().Raw, want, "the server's own id is nobody's here")
		}
		f.send(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"mcp__raw__fast","arguments":{},"task":{}}}`)
		require.Contains(t, f.next().Raw, "-32601", "it does not run as a task")
	})
}

// A client that knows nothing of tasks gets the result of the task.
func TestATaskAwaitedForTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := &taskBack{}
		f := newFront(t, policy.ApproveAlways, back.answer)
		defer f.close()
		f.initialize()
		f.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mcp__raw__slow","arguments":{}}}`)
		asked := f.next()
		require.Equal(t, "elicitation/create", asked.Method)
		require.NotContains(t, asked.Raw, "related-task")
		f.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":"cancel"}}`, asked.ID)
		got := f.next()
		require.Contains(t, got.Raw, `"hologram"`)
		require.NotContains(t, got.Raw, "related-task")

		// One that gives up ends the task.
		f.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"mcp__raw__slow","arguments":{}}}`)
		f.next()
		f.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		synctest.Wait()
		require.Contains(t, back.log(), `tasks/cancel {"taskId":"theirs"}`)
		f.send(`{"jsonrpc":"2.0","id":4,"method":"tasks/list"}`)
		for {
			if m := f.next(); string(m.ID) == "4" {
				require.JSONEq(t, `{"tasks":[]}`, string(m.Result))
				break
			}
		}
	})
}

func TestTasksOfTheNewerEra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := &taskBack{modern: true}
		f := newFront(t, policy.ApproveAlways, back.answer)
		defer f.close()
		meta := strings.Replace(modernCaps, `"roots":{}`, `"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}`, 1)
		f.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{%s}}}`, meta)
		require.Contains(t, f.next().Raw, `"extensions":{"io.modelcontextprotocol/tasks":{}}`)
		f.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mcp__raw__fast","arguments":{},"_meta":{%s}}}`, meta)
		made := f.next()
		require.Contains(t, made.Raw, `"resultType":"task"`)
		id := taskID(t, made.Result)
		f.send(`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":%q,"_meta":{%s}}}`, id, meta)
		got := f.next()
		require.Contains(t, got.Raw, `"taskId":"`+id+`"`)
		require.Contains(t, got.Raw, `"inputRequests":{"q":`)
		require.Contains(t, got.Raw, `"resultType":"complete"`)
		f.send(`{"jsonrpc":"2.0","id":4,"method":"tasks/update","params":{"taskId":%q,"inputResponses":{"q":{"action":"accept","n":9007199254740993}},"_meta":{%s}}}`, id, meta)
		require.Contains(t, f.next().Raw, `"resultType":"complete"`)
		require.Contains(t, back.log(), `"inputResponses":{"q":{"action":"accept","n":9007199254740993}}`)
		f.send(`{"jsonrpc":"2.0","id":5,"method":"tasks/result","params":{"taskId":%q,"_meta":{%s}}}`, id, meta)
		require.Contains(t, f.next().Raw, "-32601", "there is none in that era")
		f.send(`{"jsonrpc":"2.0","id":5,"method":"tasks/get","params":{"taskId":%q,"_meta":{%s}}}`, id, modernCaps)
		undeclared := f.next()
		require.Contains(t, undeclared.Raw, "-32021")
		require.Contains(t, undeclared.Raw, `"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)

		// Without the capability the server gives a result.
		f.send(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"mcp__raw__fast","arguments":{},"_meta":{%s}}}`, modernCaps)
		require.Contains(t, f.next().Raw, `"content":[]`)
		// A client of the older era has no part in them.
		require.NotContains(t, f.initialize().Raw, `"tasks"`)
		f.send(`{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"taskId":%q}}`, id)
		require.Contains(t, f.next().Raw, "-32601")
	})
}

func TestNoTasksWhereNoServerHasThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, policy.ApproveAlways, func(write func(string, ...any), m line) { legacyBack(write, m) })
		defer f.close()
		require.NotContains(t, f.initialize().Raw, "tasks")
		f.send(`{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`)
		require.Contains(t, f.next().Raw, "-32601")
	})
}

// The policy decides when the task is made.
func TestATaskIsAskedForFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := &taskBack{}
		f := newFront(t, policy.ApprovePrompt, back.answer)
		defer f.close()
		f.initialize()
		f.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mcp__raw__slow","arguments":{},"task":{}}}`)
		asked := f.next()
		require.Equal(t, "elicitation/create", asked.Method)
		require.NotContains(t, back.log(), "tools/call")
		f.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, asked.ID)
		require.Contains(t, f.next().Raw, "denied")
		require.NotContains(t, back.log(), "tools/call")
	})
}
