// Taskserver is an MCP server of 2026-07-28 over HTTP with the tasks extension
// and the tools that the conformance suite's scenarios of it ask for.
//
//	go run ./.ci/taskserver 127.0.0.1:18481
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

type object = map[string]any

const extension = "io.modelcontextprotocol/tasks"

// A job is a tool that runs as a task: it asks its questions or waits, and ends.
type job struct {
	asks     object        // questions, by key
	wait     time.Duration // in addition to the argument "seconds"
	says     string        // in the result
	isError  bool
	ends     string // its last status
	required bool   // the client must know tasks
}

var jobs = map[string]job{
	"confirm_delete":      {ends: "completed", says: "deleted", asks: object{"confirm": question("Delete?", "confirm")}},
	"failing_job":         {ends: "completed", says: "the job failed", wait: time.Second, isError: true, required: true},
	"multi_input":         {ends: "completed", says: "got", asks: object{"one": question("One?", "a"), "two": question("Two?", "b")}},
	"protocol_error_job":  {ends: "failed", wait: 300 * time.Millisecond},
	"slow_compute":        {ends: "completed", says: "computed"},
	"test_tool_with_task": {ends: "completed", says: "hello", required: true},
}

type task struct {
	job
	id        string
	made      time.Time
	status    string
	arguments object
	open      object // questions without an answer
	answers   object
}

var (
	mu    sync.Mutex
	tasks = map[string]*task{}
)

func start(j job, r request) *task {
	t := &task{
		job:       j,
		id:        fmt.Sprintf("t-%d", time.Now().UnixNano()),
		made:      time.Now(),
		status:    "working",
		arguments: r.Params.Arguments,
		open:      maps.Clone(j.asks),
		answers:   object{},
	}
	maps.Copy(t.answers, r.Params.InputResponses)
	tasks[t.id] = t
	if len(t.open) > 0 {
		t.status = "input_required"
		return t
	}
	seconds, _ := t.arguments["seconds"].(float64)
	time.AfterFunc(j.wait+time.Duration(seconds*float64(time.Second)), func() {
		mu.Lock()
		defer mu.Unlock()
		t.end(t.ends)
	})
	return t
}

// end ends a task that has not ended.
func (t *task) end(status string) {
	if t.status == "working" || t.status == "input_required" {
		t.status = status
	}
}

// head returns what a client gets of a task that has just started.
func (t *task) head() object {
	return object{
		"resultType": "task", "taskId": t.id, "status": "working", "ttlMs": 600_000, "pollIntervalMs": 200,
		"createdAt": t.made.UTC().Format(time.RFC3339), "lastUpdatedAt": time.Now().UTC().Format(time.RFC3339),
	}
}

// view returns the result of tasks/get.
func (t *task) view() object {
	v := t.head()
	v["resultType"], v["status"] = "complete", t.status
	switch t.status {
	case "completed":
		v["result"] = content(fmt.Sprintf("%s %v %v", t.says, t.arguments, t.answers), t.isError)
	case "failed":
		v["error"] = object{"code": -32603, "message": "internal error"}
	case "input_required":
		v["inputRequests"] = t.open
	}
	return v
}

func content(text string, isError bool) object {
	return object{"content": []object{{"type": "text", "text": text}}, "isError": isError}
}

// complete returns the result of a call that is no task.
func complete(text string) object {
	v := content(text, false)
	v["resultType"] = "complete"
	return v
}

func question(message, field string) object {
	return object{"method": "elicitation/create", "params": object{
		"mode": "form", "message": message,
		"requestedSchema": object{
			"type": "object", "properties": object{field: object{"type": "string"}}, "required": []string{field},
		},
	}}
}

var missing = object{
	"code": -32021, "message": "Missing required client capability",
	"data": object{"requiredCapabilities": object{"extensions": object{extension: object{}}}},
}

type request struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name           string
		Arguments      object
		TaskID         string
		InputResponses object
		RequestState   string
		Meta           struct {
			Capabilities struct{ Extensions object } `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	}
}

func call(r request, declared bool) (result, fault object) {
	name := r.Params.Name
	j, isJob := jobs[name]
	switch {
	case name == "greet":
		return complete(fmt.Sprintf("Hello, %v!", r.Params.Arguments["name"])), nil
	case !isJob:
		return nil, object{"code": -32602, "message": "unknown tool"}
	case !declared && j.required:
		return nil, missing
	case !declared:
		return complete("computed at once"), nil
	case name == "test_tool_with_task" && r.Params.InputResponses == nil:
		asks := object{"user_name": question("Who?", "user_name")}
		return object{"resultType": "input_required", "inputRequests": asks, "requestState": "s"}, nil
	}
	return start(j, r).head(), nil
}

func about(r request, declared bool) (result, fault object) {
	t := tasks[r.Params.TaskID]
	switch {
	case !declared:
		return nil, missing
	case t == nil:
		return nil, object{"code": -32602, "message": "unknown task"}
	}
	switch r.Method {
	case "tasks/get":
		return t.view(), nil
	case "tasks/update":
		for key, a := range r.Params.InputResponses {
			if t.open[key] == nil {
				continue
			}
			delete(t.open, key)
			t.answers[key] = a
			if len(t.open) == 0 {
				t.end(t.ends)
			}
		}
	case "tasks/cancel":
		t.end("cancelled")
	}
	return object{"resultType": "complete"}, nil
}

func serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var r request
	if err != nil || req.Method != http.MethodPost || json.Unmarshal(body, &r) != nil {
		http.Error(w, "no", http.StatusMethodNotAllowed)
		return
	}
	mu.Lock()
	defer mu.Unlock()
	_, declared := r.Params.Meta.Capabilities.Extensions[extension]
	var result, fault object
	if wrong := wrongHeader(req, r); wrong != "" {
		fault = object{"code": -32020, "message": wrong}
	} else {
		switch r.Method {
		case "server/discover":
			result = object{
				"resultType": "complete", "supportedVersions": []string{"2026-07-28"}, "ttlMs": 0, "cacheScope": "private",
				"capabilities": object{"tools": object{}, "extensions": object{extension: object{}}},
				"_meta":        object{"io.modelcontextprotocol/serverInfo": object{"name": "taskserver", "version": "1"}},
			}
		case "tools/list":
			var list []object
			for _, name := range append(slices.Sorted(maps.Keys(jobs)), "greet") {
				list = append(list, object{"name": name, "inputSchema": object{"type": "object", "properties": object{}}})
			}
			result = object{"resultType": "complete", "tools": list, "ttlMs": 60_000, "cacheScope": "private"}
		case "tools/call":
			result, fault = call(r, declared)
		case "tasks/get", "tasks/update", "tasks/cancel":
			result, fault = about(r, declared)
		default:
			fault = object{"code": -32601, "message": "no such method"}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	out := object{"jsonrpc": "2.0", "id": r.ID, "result": result}
	if fault != nil {
		delete(out, "result")
		out["error"] = fault
		status := http.StatusBadRequest
		if fault["code"] == -32601 {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
	}
	json.NewEncoder(w).Encode(out)
}

// wrongHeader returns what is wrong with the headers of a request that has a
// name in them.
func wrongHeader(req *http.Request, r request) string {
	method, name := req.Header.Get("Mcp-Method"), req.Header.Get("Mcp-Name")
	named := []string{"tools/call", "tasks/get", "tasks/update", "tasks/cancel"}
	switch {
	case !slices.Contains(named, r.Method):
		return ""
	case method != r.Method:
		return "Mcp-Method is " + method
	case name != cmp.Or(r.Params.Name, r.Params.TaskID):
		return "Mcp-Name is " + name
	}
	return ""
}

func main() {
	http.HandleFunc("/mcp", serve)
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
