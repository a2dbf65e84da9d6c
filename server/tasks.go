package server

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tasksExtension is the capability of tasks in the stateless era.
const tasksExtension = "io.modelcontextprotocol/tasks"

// servesTasks reports whether some server behind has the tasks of this era.
func (b *behind) servesTasks(modern bool) bool {
	calls, _, extension := b.s.opts.Downstreams.ServesTasks()
	return modern && extension || !modern && calls
}

// taskMethods are the methods about tasks, of both eras. The value says that
// the newer one has it.
var taskMethods = map[string]bool{
	"tasks/get":    true,
	"tasks/update": true,
	"tasks/cancel": true,
	"tasks/result": false,
	"tasks/list":   false,
}

// refuseTask returns why a request about a task is refused before anything is
// looked up: no server has tasks, or the client did not say that it has.
func (b *behind) refuseTask(method string, req mcp.Request, modern bool) error {
	inNewer, is := taskMethods[method]
	switch {
	case !is:
		return nil
	case !b.servesTasks(modern) || modern && !inNewer:
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no server here has " + method}
	case !modern:
		return nil
	}
	if r, ok := req.(interface {
		ClientCapabilities() *mcp.ClientCapabilities
	}); ok && r.ClientCapabilities() != nil {
		if _, declared := r.ClientCapabilities().Extensions[tasksExtension]; declared {
			return nil
		}
	}
	return &jsonrpc.Error{
		Code:    mcp.CodeMissingRequiredClientCapabilities,
		Message: "the client does not declare the extension " + tasksExtension,
		Data:    json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`),
	}
}

func (b *behind) isLegacy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opened && b.legacy
}

// declareTasks returns the result of initialize with the capability tasks,
// which the SDK does not know, when some server behind has it. That of
// listing is our own: we ask about each task.
func (b *behind) declareTasks(res *mcp.InitializeResult) (mcp.Result, error) {
	calls, cancel, _ := b.s.opts.Downstreams.ServesTasks()
	if !calls || res.ProtocolVersion < "2025-11-25" {
		return res, nil
	}
	tasks := map[string]any{
		"list":     struct{}{},
		"requests": map[string]any{"tools": map[string]any{"call": struct{}{}}},
	}
	if cancel {
		tasks["cancel"] = struct{}{}
	}
	capabilities, err := marshal(res.Capabilities)
	if err != nil {
		return nil, err
	}
	if capabilities, err = splice(map[string]any{"tasks": tasks}, capabilities); err != nil {
		return nil, err
	}
	raw, err := marshal(res)
	if err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	all["capabilities"] = capabilities
	raw, err = marshal(all)
	return &rawResult{raw: raw}, err
}

// addTaskMethods makes the SDK take the requests about tasks, which the
// middleware answers. Their params are passed on as they came, see keepRaw.
func addTaskMethods(srv *mcp.Server) {
	for method := range taskMethods {
		handle := func(context.Context, *mcp.ServerSession, *mcp.ParamsBase) (*rawResult, error) {
			return nil, errors.New("bug: " + method + " went past its handler")
		}
		err := mcp.AddReceivingCustomMethod(srv, method, handle)
		if err != nil {
			panic("server: " + err.Error()) // the SDK knows tasks now: this file can go
		}
	}
}
