package aggregator

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
	"toolgate/policy"
)

// Tasks are calls whose result is fetched later. The older era has them as
// MCP 2025-11-25 does: the client asks for one with params.task, and tasks/get,
// tasks/result, tasks/list and tasks/cancel are about it. In the newer era they
// are the extension io.modelcontextprotocol/tasks: the server decides, for
// clients that declare it, and tasks/get, tasks/update and tasks/cancel are
// about it. Ids belong to a hop: ours are made up here and known to one caller.
const (
	tasksExtension = "io.modelcontextprotocol/tasks"
	metaRelated    = "io.modelcontextprotocol/related-task"
)

// A task is one task of a server.
type task struct {
	id        string // ours, "" for one that the client knows nothing of
	server    string
	raw       string // the server's
	caller    string
	tool      string // raw name
	stateless bool

	client  policy.ClientFunc // of the caller, for questions between requests
	made    time.Time
	expires time.Time
	done    bool
}

// A taskRegistry holds the tasks of all callers.
type taskRegistry struct {
	mu   sync.Mutex
	list []*task // in the order they were made
}

// Limits of what is remembered.
const (
	maxTasks         = 256            // of one caller; the oldest go first
	keepTask         = 24 * time.Hour // one that says nothing of its end
	keepTaskAfterEnd = time.Minute    // beyond the time that the server promised
)

func (b *taskRegistry) add(t *task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	own := 0
	b.list = slices.DeleteFunc(b.list, func(o *task) bool { return now.After(o.expires) })
	for _, o := range b.list {
		if o.caller == t.caller {
			own++
		}
	}
	for i := 0; own >= maxTasks && i < len(b.list); {
		if b.list[i].caller != t.caller {
			i++
			continue
		}
		b.list = slices.Delete(b.list, i, i+1)
		own--
	}
	b.list = append(b.list, t)
}

func (b *taskRegistry) remove(t *task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = slices.DeleteFunc(b.list, func(o *task) bool { return o == t })
}

// find returns the caller's task, nil when it has none of this id.
func (b *taskRegistry) find(caller, id string, modern bool) *task {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.list {
		if id != "" && t.id == id && t.caller == caller && t.stateless == modern && time.Now().Before(t.expires) {
			return t
		}
	}
	return nil
}

// ofServer returns the task that a server means by raw.
func (b *taskRegistry) ofServer(server, raw string) *task {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.list {
		if t.server == server && t.raw == raw {
			return t
		}
	}
	return nil
}

// ofCaller returns the caller's tasks of the older era, in the order they were made.
func (b *taskRegistry) ofCaller(caller string) []*task {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []*task
	for _, t := range b.list {
		if t.caller == caller && !t.stateless && t.id != "" && time.Now().Before(t.expires) {
			list = append(list, t)
		}
	}
	return list
}

// hasRunning reports whether the server has tasks that are not known to have
// ended: to stop it would end them.
func (b *taskRegistry) hasRunning(server string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.list, func(t *task) bool {
		return t.server == server && !t.done && time.Now().Before(t.expires)
	})
}

// update notes what a server says of a task.
func (b *taskRegistry) update(t *task, o rawjson.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch o.Text("status") {
	case "completed", "failed", "cancelled":
		t.done = true
	}
	t.expires = t.made.Add(keepTask)
	for _, key := range []string{"ttl", "ttlMs"} {
		var ms float64
		if v := o.Get(key); rawjson.Kind(v) != 'n' && json.Unmarshal(v, &ms) == nil && ms >= 0 && ms < float64(keepTask.Milliseconds()) {
			t.expires = t.made.Add(time.Duration(ms)*time.Millisecond + keepTaskAfterEnd)
		}
	}
}

// ServesTasks reports what of tasks some server is known to declare: calls as
// tasks and their cancellation in the older era, the extension in the newer.
func (s *Downstreams) ServesTasks() (calls, cancel, extension bool) {
	for _, d := range s.all() {
		c := d.catalog()
		calls = calls || c.has("tasks", "requests", "tools", "call")
		cancel = cancel || c.has("tasks", "cancel")
		extension = extension || c.has("extensions", tasksExtension)
	}
	return calls, cancel, extension
}

// Kinds of a tool's support for tasks (2025-11-25, execution.taskSupport).
const (
	taskOptional = "optional"
	taskRequired = "required"
)

// taskSupport returns how a tool of a server with this catalogue runs as a
// task, "" for not at all.
func taskSupport(c *Catalog, def rawjson.Object) string {
	if !c.has("tasks", "requests", "tools", "call") {
		return ""
	}
	execution, _ := rawjson.Parse(def.Get("execution"))
	switch support := execution.Text("taskSupport"); support {
	case taskOptional, taskRequired:
		return support
	}
	return ""
}

// withTask returns the request of a call with what it says of a task. awaited
// is set when we make a task of it, because the server takes nothing else,
// and the client is to get the result.
func (s *Downstreams) withTask(d *Downstream, t *Tool, c gate.Call, body rawjson.Object) (with rawjson.Object, awaited bool, err error) {
	switch asked := len(c.Task) > 0 && !c.Rounds; {
	case asked && t.tasks == "":
		return nil, false, &RPCError{Code: -32601, Message: "the tool " + t.Name + " does not run as a task; call it without task"}
	case asked:
		return append(body, rawjson.Field{Key: "task", Value: c.Task}), false, nil
	case t.tasks == taskRequired && !d.spec.Verbatim:
		return append(body, rawjson.Field{Key: "task", Value: json.RawMessage("{}")}), true, nil
	}
	return body, false, nil
}

// created notes the task that a call's result announces, and returns the
// result with our id. A result that announces none is returned as it is, with
// a nil task.
func (s *Downstreams) created(d *Downstream, t *Tool, c gate.Call, res json.RawMessage, hidden bool) (json.RawMessage, *task) {
	if !bytes.Contains(res, []byte(`"taskId"`)) {
		return res, nil
	}
	o, err := rawjson.Parse(res)
	if err != nil {
		return res, nil
	}
	inner, modern := rawjson.Object(nil), o.Text("resultType") == "task"
	if modern {
		inner = slices.Clone(o)
	} else if inner, err = rawjson.Parse(o.Get("task")); err != nil || o.Get("content") != nil {
		return res, nil
	}
	raw := inner.Text("taskId")
	if raw == "" {
		return res, nil
	}
	k := &task{server: d.spec.Name, raw: raw, caller: c.Caller, tool: t.Raw, stateless: modern, client: c.Client, made: time.Now()}
	if !hidden {
		k.id = rand.Text()
	}
	s.tasks.update(k, inner)
	s.tasks.add(k)
	inner.Set("taskId", rawjson.Quote(k.id))
	if modern {
		return inner.Bytes(), k
	}
	o.Set("task", inner.Bytes())
	return o.Bytes(), k
}

// awaitTask returns the result of a task that the client knows nothing of. When
// the client gives up, so does the task.
func (s *Downstreams) awaitTask(ctx context.Context, d *Downstream, k *task, c gate.Call, timeout time.Duration) (json.RawMessage, error) {
	defer s.tasks.remove(k)
	r := &request{method: "tasks/result", body: rawjson.Object{{Key: "taskId", Value: rawjson.Quote(k.raw)}}, caller: c.Caller, client: c.Client, task: k.raw}
	res, err := d.do(ctx, r, timeout, true)
	if _, late := errors.AsType[*TimeoutError](err); late || ctx.Err() != nil {
		go func() { // ends with the answer, at the latest after a while
			ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
			defer cancel()
			if _, err := d.do(ctx, &request{method: "tasks/cancel", body: rawjson.Object{{Key: "taskId", Value: rawjson.Quote(k.raw)}}}, 0, false); err != nil {
				d.log.Debug("task not cancelled", "err", err)
			}
		}()
	}
	return relatedAs(res, ""), err
}

// relatedAs returns res with id as the task that its _meta names, or with none
// for "".
func relatedAs(res json.RawMessage, id string) json.RawMessage {
	if !bytes.Contains(res, []byte(metaRelated)) {
		return res
	}
	o, err := rawjson.Parse(res)
	if err != nil {
		return res
	}
	meta, err := rawjson.Parse(o.Get("_meta"))
	if err != nil || meta.Get(metaRelated) == nil {
		return res
	}
	if id != "" {
		meta.Set(metaRelated, rawjson.Object{{Key: "taskId", Value: rawjson.Quote(id)}}.Bytes())
	} else {
		meta.Delete(metaRelated)
	}
	if o.Set("_meta", meta.Bytes()); len(meta) == 0 {
		o.Delete("_meta")
	}
	return o.Bytes()
}

// relatedTo returns the server's id of the task that a message's _meta names.
func relatedTo(params json.RawMessage) string {
	if !bytes.Contains(params, []byte(metaRelated)) {
		return ""
	}
	o, _ := rawjson.Parse(params)
	meta, _ := rawjson.Parse(o.Get("_meta"))
	related, _ := rawjson.Parse(meta.Get(metaRelated))
	return related.Text("taskId")
}

// errUnknownTask is the same for a task of another caller and for one that
// never was.
var errUnknownTask = &RPCError{Code: -32602, Message: "unknown task: it is not yours, has expired, or was never made"}

// taskMethods are the methods about tasks, by whether the newer era has them.
var taskMethods = map[bool][]string{
	false: {"tasks/get", "tasks/result", "tasks/cancel", "tasks/list"},
	true:  {"tasks/get", "tasks/update", "tasks/cancel"},
}

// forwardTask passes a request about a task on to its server.
func (s *Downstreams) forwardTask(ctx context.Context, f Forward, r *request) (json.RawMessage, error) {
	if !slices.Contains(taskMethods[f.Rounds], f.Method) {
		return nil, &RPCError{Code: -32601, Message: f.Method + " is not supported"}
	}
	if f.Method == "tasks/list" {
		return s.listTasks(ctx, f, r.body.Text("cursor"))
	}
	k := s.tasks.find(f.Caller, r.body.Text("taskId"), f.Rounds)
	if k == nil {
		return nil, errUnknownTask
	}
	if f.Client != nil {
		s.tasks.mu.Lock()
		k.client = f.Client // the newest connection of its caller
		s.tasks.mu.Unlock()
	}
	return s.askTask(ctx, k, r)
}

// askTask sends a request about a task and returns the answer with our id.
func (s *Downstreams) askTask(ctx context.Context, k *task, r *request) (json.RawMessage, error) {
	d, err := s.server(k.server)
	if err != nil {
		return nil, errUnknownTask
	}
	r.body = slices.Clone(r.body)
	r.body.Set("taskId", rawjson.Quote(k.raw))
	r.task = k.raw
	timeout := d.spec.requestTimeout()
	if r.method == "tasks/result" {
		timeout = 0 // it waits for the task, for as long as the client does
	}
	res, err := d.do(ctx, r, timeout, r.method != "tasks/update")
	if rpc, ok := errors.AsType[*RPCError](err); ok && rpc.Code == -32602 && r.method == "tasks/get" {
		s.tasks.remove(k)
	}
	if err != nil {
		return nil, err
	}
	if r.method == "tasks/result" {
		s.tasks.mu.Lock()
		k.done = true
		s.tasks.mu.Unlock()
		if d.spec.Limit != nil {
			res = limitResult(res, d.spec.Limit(k.tool))
		}
		return relatedAs(res, k.id), nil
	}
	o, err := rawjson.Parse(res)
	if err != nil {
		return res, nil
	}
	if o.Get("status") != nil {
		s.tasks.update(k, o)
	}
	if o.Get("taskId") != nil {
		o.Set("taskId", rawjson.Quote(k.id))
		res = o.Bytes()
	}
	return res, nil
}

// maxTaskPage is how many tasks one answer lists.
const maxTaskPage = 50

// listTasks asks the servers about a caller's tasks. A list of the server's
// own would name those of other callers.
func (s *Downstreams) listTasks(ctx context.Context, f Forward, cursor string) (json.RawMessage, error) {
	own := s.tasks.ofCaller(f.Caller)
	if cursor != "" {
		i := slices.IndexFunc(own, func(k *task) bool { return k.id == cursor })
		if i < 0 {
			return nil, &RPCError{Code: -32602, Message: "unknown cursor; list without one"}
		}
		own = own[i+1:]
	}
	next := ""
	if len(own) > maxTaskPage {
		own = own[:maxTaskPage]
		next = own[maxTaskPage-1].id
	}
	found := make([]json.RawMessage, len(own))
	var all sync.WaitGroup
	for i, k := range own {
		all.Go(func() { // ends with the answer
			if res, err := s.askTask(ctx, k, &request{method: "tasks/get", caller: f.Caller}); err == nil {
				found[i] = res
			}
		})
	}
	all.Wait()
	found = slices.DeleteFunc(found, func(b json.RawMessage) bool { return b == nil })
	res := rawjson.Object{{Key: "tasks", Value: rawjson.Array(found)}}
	if next != "" {
		res = append(res, rawjson.Field{Key: "nextCursor", Value: rawjson.Quote(next)})
	}
	return res.Bytes(), nil
}

// causeInTask returns the request that a server's own request within a task
// belongs to, and its params with the id that the client knows.
func (s *session) causeInTask(params json.RawMessage) (*request, json.RawMessage) {
	raw := relatedTo(params)
	if raw == "" {
		return nil, params
	}
	k := s.d.set.tasks.ofServer(s.d.spec.Name, raw)
	if k == nil {
		return nil, params
	}
	params = relatedAs(params, k.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.pending {
		if r.task == raw && r.client != nil {
			return r, params // it waits, and its clock stands still meanwhile
		}
	}
	s.d.set.tasks.mu.Lock()
	defer s.d.set.tasks.mu.Unlock()
	return &request{caller: k.caller, client: k.client}, params
}

// onTaskStatus tells the caller of a task what its server says of it.
func (s *session) onTaskStatus(method string, params json.RawMessage) {
	o, err := rawjson.Parse(params)
	if err != nil {
		return
	}
	k := s.d.set.tasks.ofServer(s.d.spec.Name, o.Text("taskId"))
	if k == nil {
		return
	}
	s.d.set.tasks.update(k, o)
	if k.id == "" {
		return
	}
	o.Set("taskId", rawjson.Quote(k.id))
	s.d.set.notice(Notice{Server: s.d.spec.Name, Method: method, Params: relatedAs(o.Bytes(), k.id), Callers: []string{k.caller}})
}

// publishTaskSupport states how a tool runs here: one that its server runs as
// a task only, we run both ways.
func publishTaskSupport(def *rawjson.Object, support string) {
	if support != taskRequired {
		return
	}
	execution, err := rawjson.Parse(def.Get("execution"))
	if err != nil {
		return
	}
	execution.Set("taskSupport", rawjson.Quote(taskOptional))
	def.Set("execution", execution.Bytes())
}
