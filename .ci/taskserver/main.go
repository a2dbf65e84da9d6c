// Taskserver is an MCP server of 2026-07-28 over HTTP with the tasks extension
// and the tools that the conformance suite's scenarios of it ask for.
//
//	go run ./.ci/taskserver 127.0.0.1:18481
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"time"
)

type object = map[string]any

const extension = "io.modelcontextprotocol/tasks"

type task struct {
	id       string
	made     time.Time
	status   string
	result   object
	err      object
	requests object        // open questions
	answers  chan object   // what a client brings
	cancel   chan struct{} // closed by tasks/cancel
	once     sync.Once
}

var (
	mu    sync.Mutex
	tasks = map[string]*task{}
)

func (t *task) view() object {
	v := object{"taskId": t.id, "status": t.status, "createdAt": t.made.UTC().Format(time.RFC3339), "lastUpdatedAt": time.Now().UTC().Format(time.RFC3339), "ttlMs": 600_000, "pollIntervalMs": 200}
	switch {
	case t.status == "completed":
		v["result"] = t.result
	case t.status == "failed":
		v["error"] = t.err
	case t.status == "input_required":
		v["inputRequests"] = t.requests
	}
	return v
}

func (t *task) set(status string, result, err object) {
	mu.Lock()
	defer mu.Unlock()
	if t.status == "working" || t.status == "input_required" {
		t.status, t.result, t.err = status, result, err
	}
}

// ask waits for the answers to all questions.
func (t *task) ask(requests object) object {
	mu.Lock()
	t.status, t.requests = "input_required", requests
	mu.Unlock()
	all := object{}
	for {
		select {
		case given := <-t.answers:
			mu.Lock()
			open := object{}
			for key, q := range t.requests {
				if a, ok := given[key]; ok {
					all[key] = a
				} else {
					open[key] = q
				}
			}
			t.requests = open
			done := len(open) == 0
			if done {
				t.status = "working"
			}
			mu.Unlock()
			if done {
				return all
			}
		case <-t.cancel:
			return all
		}
	}
}

func start(run func(*task)) *task {
	t := &task{id: fmt.Sprintf("t-%d", time.Now().UnixNano()), made: time.Now(), status: "working", answers: make(chan object), cancel: make(chan struct{})}
	mu.Lock()
	tasks[t.id] = t
	mu.Unlock()
	go run(t)
	return t
}

func text(s string) object {
	return object{"resultType": "complete", "content": []object{{"type": "text", "text": s}}}
}

func plain(s string, isError bool) object {
	return object{"content": []object{{"type": "text", "text": s}}, "isError": isError}
}

func question(message, field string) object {
	return object{"method": "elicitation/create", "params": object{"mode": "form", "message": message, "requestedSchema": object{"type": "object", "properties": object{field: object{"type": "string"}}, "required": []string{field}}}}
}

var missing = object{"code": -32021, "message": "Missing required client capability", "data": object{"requiredCapabilities": object{"extensions": object{extension: object{}}}}}

type request struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name           string
		Arguments      map[string]any
		TaskID         string
		InputResponses object
		RequestState   string
		Meta           struct {
			Capabilities struct{ Extensions map[string]any } `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	}
}

func call(r request, declared bool) (result, fault object) {
	sleep := func(t *task, d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-t.cancel:
			return false
		}
	}
	work := map[string]func(*task){
		"slow_compute": func(t *task) {
			n, _ := r.Params.Arguments["seconds"].(float64)
			if sleep(t, time.Duration(n*float64(time.Second))) {
				t.set("completed", plain(fmt.Sprintf("computed %v", r.Params.Arguments["label"]), false), nil)
			}
		},
		"failing_job": func(t *task) {
			if sleep(t, time.Second) {
				t.set("completed", plain("the job failed", true), nil)
			}
		},
		"protocol_error_job": func(t *task) {
			if sleep(t, 300*time.Millisecond) {
				t.set("failed", nil, object{"code": -32603, "message": "internal error"})
			}
		},
		"confirm_delete": func(t *task) {
			a := t.ask(object{"confirm": question("Delete?", "confirm")})
			b, _ := json.Marshal(a)
			t.set("completed", plain("deleted "+string(b), false), nil)
		},
		"multi_input": func(t *task) {
			a := t.ask(object{"one": question("One?", "a"), "two": question("Two?", "b")})
			b, _ := json.Marshal(a)
			t.set("completed", plain("got "+string(b), false), nil)
		},
		"test_tool_with_task": func(t *task) {
			b, _ := json.Marshal(r.Params.InputResponses)
			t.set("completed", plain("hello "+string(b), false), nil)
		},
	}
	switch name := r.Params.Name; {
	case name == "greet":
		return text(fmt.Sprintf("Hello, %v!", r.Params.Arguments["name"])), nil
	case work[name] == nil:
		return nil, object{"code": -32602, "message": "unknown tool"}
	case !declared && (name == "failing_job" || name == "test_tool_with_task"):
		return nil, missing
	case !declared:
		return text("computed at once"), nil
	case name == "test_tool_with_task" && r.Params.InputResponses == nil:
		return object{"resultType": "input_required", "inputRequests": object{"user_name": question("Who?", "user_name")}, "requestState": "s"}, nil
	default:
		v := start(work[name]).view()
		v["resultType"], v["status"] = "task", "working"
		for _, key := range []string{"result", "error", "inputRequests"} {
			delete(v, key)
		}
		return v, nil
	}
}

func about(r request, declared bool) (result, fault object) {
	if !declared {
		return nil, missing
	}
	mu.Lock()
	t := tasks[r.Params.TaskID]
	mu.Unlock()
	if t == nil {
		return nil, object{"code": -32602, "message": "unknown task"}
	}
	switch r.Method {
	case "tasks/get":
		mu.Lock()
		defer mu.Unlock()
		v := t.view()
		v["resultType"] = "complete"
		return v, nil
	case "tasks/update":
		select {
		case t.answers <- r.Params.InputResponses:
		case <-time.After(100 * time.Millisecond): // nobody asks any more
		}
		time.Sleep(20 * time.Millisecond) // until the task has taken it
	case "tasks/cancel":
		t.set("cancelled", nil, nil)
		t.once.Do(func() { close(t.cancel) })
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
	_, declared := r.Params.Meta.Capabilities.Extensions[extension]
	var result, fault object
	if wrong := wrongHeader(req, r); wrong != "" {
		fault = object{"code": -32020, "message": wrong}
	} else {
		switch r.Method {
		case "server/discover":
			result = object{"resultType": "complete", "supportedVersions": []string{"2026-07-28"}, "capabilities": object{"tools": object{}, "extensions": object{extension: object{}}}, "ttlMs": 0, "cacheScope": "private", "_meta": object{"io.modelcontextprotocol/serverInfo": object{"name": "taskserver", "version": "1"}}}
		case "tools/list":
			var list []object
			for _, name := range []string{"confirm_delete", "failing_job", "greet", "multi_input", "protocol_error_job", "slow_compute", "test_tool_with_task"} {
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
	name := r.Params.Name
	switch r.Method {
	case "tools/call":
	case "tasks/get", "tasks/update", "tasks/cancel":
		name = r.Params.TaskID
	default:
		return ""
	}
	if m := req.Header.Get("Mcp-Method"); m != r.Method {
		return "Mcp-Method is " + m
	}
	if n := req.Header.Get("Mcp-Name"); n != name {
		return "Mcp-Name is " + n
	}
	return ""
}

func main() {
	http.HandleFunc("/mcp", serve)
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
