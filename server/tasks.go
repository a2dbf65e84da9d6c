package server

import (
	"context"
	"encoding/json"
	"toolgate/aggregator"
	"toolgate/internal/rawjson"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tasksExtension is the capability of tasks in the stateless protocol.
const tasksExtension = "io.modelcontextprotocol/tasks"

// servesTasks reports whether some server has the tasks of this kind of protocol.
func (b *bridge) servesTasks(stateless bool) bool {
	calls, _, extension := b.conn.s.opts.Downstreams.ServesTasks()
	return stateless && extension || !stateless && calls
}

// taskMethods are the methods about tasks. The value says whether the stateless
// protocol has it.
var taskMethods = map[string]bool{
	"tasks/get":    true,
	"tasks/update": true,
	"tasks/cancel": true,
	"tasks/result": false,
	"tasks/list":   false,
}

// refuseTask returns why a request about a task is refused before anything is
// looked up: no server has tasks, or the client does not declare them.
func (r *request) refuseTask() error {
	stateless, is := taskMethods[r.method]
	switch {
	case !is:
		return nil
	case !r.conn.bridge.servesTasks(r.stateless) || r.stateless && !stateless:
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no server here has " + r.method}
	case !r.stateless:
		return nil
	}
	if _, declared := r.caps.Extensions[tasksExtension]; declared {
		return nil
	}
	return &jsonrpc.Error{
		Code:    mcp.CodeMissingRequiredClientCapabilities,
		Message: "the client does not declare the extension " + tasksExtension,
		Data:    json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`),
	}
}

// forwardTask sends a request about a task to the server that runs the task.
func (r *request) forwardTask(ctx context.Context) (json.RawMessage, error) {
	f := aggregator.Forward{
		Method:    r.method,
		Params:    r.raw,
		Caller:    r.conn.caller,
		Stateless: r.stateless,
		Log:       r.log(ctx),
	}
	if !r.stateless {
		f.Client = r.ask
	}
	return r.conn.s.opts.Downstreams.Forward(ctx, f)
}

// declareTasks returns the result of initialize with the capability tasks,
// which the SDK does not know, if some downstream server has it. We list tasks
// ourselves: see [aggregator.Downstreams.Forward].
func (b *bridge) declareTasks(res *mcp.InitializeResult) (mcp.Result, error) {
	calls, cancel, _ := b.conn.s.opts.Downstreams.ServesTasks()
	if !calls || res.ProtocolVersion < "2025-11-25" {
		return res, nil
	}
	tasks := rawjson.Object{}
	if cancel {
		tasks.Set("cancel", json.RawMessage("{}"))
	}
	tasks.Set("list", json.RawMessage("{}"))
	tasks.Set("requests", json.RawMessage(`{"tools":{"call":{}}}`))
	raw, err := marshal(res)
	if err != nil {
		return nil, err
	}
	all, _ := rawjson.Parse(raw)
	capabilities, _ := rawjson.Parse(all.Get("capabilities"))
	capabilities.Set("tasks", tasks.Bytes())
	all.Set("capabilities", capabilities.Bytes())
	return &rawResult{raw: all.Bytes()}, nil
}

// A rawResult is a result that the SDK writes as it is.
type rawResult struct {
	mcp.ResultBase
	raw json.RawMessage
}

func (r *rawResult) MarshalJSON() ([]byte, error) { return r.raw, nil }
