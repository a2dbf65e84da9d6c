package aggregator

import (
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

// A task is a call whose result is fetched later. In the session-based protocol
// (2025-11-25) the client asks for one with params.task and uses tasks/get,
// tasks/result, tasks/list and tasks/cancel. In the stateless protocol tasks are the
// extension io.modelcontextprotocol/tasks: the server decides, for clients that
// declare it, and the client uses tasks/get, tasks/update and tasks/cancel. The
// clients see task ids of our own, each valid for one caller.
const (
	tasksExtension = "io.modelcontextprotocol/tasks"
	metaRelated    = "io.modelcontextprotocol/related-task"
)

// A task is one task of a server.
type task struct {
	id        string // as the client knows it, "" for one hidden from the client
	server    string
	raw       string // as the server knows it
	caller    string
	tool      string // raw name
	stateless bool

	client  policy.ClientFunc // of the caller, for questions between requests
	made    time.Time
	expires time.Time
	done    bool
}

// A taskRegistry holds the tasks of all callers. The zero value is empty.
type taskRegistry struct {
	mu   sync.Mutex
	list []*task // in order of creation
}

// Limits of the registry.
const (
	maxTasks         = 256            // of one caller; the oldest are dropped first
	keepTask         = 24 * time.Hour // for a task without a ttl
	keepTaskAfterEnd = time.Minute    // beyond the ttl
)

// add adds t, and drops expired tasks and the caller's oldest above maxTasks.
func (b *taskRegistry) add(t *task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.list = slices.DeleteFunc(b.list, func(o *task) bool { return now.After(o.expires) })
	own := 0
	for _, o := range b.list {
		if o.caller == t.caller {
			own++
		}
	}
	for ; own >= maxTasks; own-- {
		i := slices.IndexFunc(b.list, func(o *task) bool { return o.caller == t.caller })
		b.list = slices.Delete(b.list, i, i+1)
	}
	b.list = append(b.list, t)
}

func (b *taskRegistry) remove(t *task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = slices.DeleteFunc(b.list, func(o *task) bool { return o == t })
}

// find returns the oldest task that is as match wants it, nil when there is none.
func (b *taskRegistry) find(match func(*task) bool) *task {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.IndexFunc(b.list, match); i >= 0 {
		return b.list[i]
	}
	return nil
}

// ofServer returns the task with the server's id raw, nil when there is none.
func (b *taskRegistry) ofServer(server, raw string) *task {
	return b.find(func(t *task) bool { return t.server == server && t.raw == raw })
}

// listed returns the caller's tasks of the session-based protocol, in order of
// creation.
func (b *taskRegistry) listed(caller string) []*task {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.list), func(t *task) bool { return !t.isFor(caller, false) })
}

// isFor reports whether the caller may use the task in the protocol that it has.
func (t *task) isFor(caller string, stateless bool) bool {
	return t.id != "" && t.caller == caller && t.stateless == stateless && time.Now().Before(t.expires)
}

// hasRunning reports whether the server has tasks that may still be running, so
// that it must not be stopped.
func (b *taskRegistry) hasRunning(server string) bool {
	running := func(t *task) bool { return t.server == server && !t.done && time.Now().Before(t.expires) }
	return b.find(running) != nil
}

// update records the status and ttl that the server reports for a task.
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
		v := o.Get(key)
		if rawjson.Kind(v) == 'n' || json.Unmarshal(v, &ms) != nil {
			continue
		}
		if ms >= 0 && ms < float64(keepTask.Milliseconds()) {
			t.expires = t.made.Add(time.Duration(ms)*time.Millisecond + keepTaskAfterEnd)
		}
	}
}

// ServesTasks reports what some server is known to declare about tasks: calls as
// tasks and their cancellation (session-based), or the extension (stateless).
func (s *Downstreams) ServesTasks() (calls, cancel, extension bool) {
	for _, d := range s.all() {
		c := d.catalog()
		calls = calls || c.has("tasks", "requests", "tools", "call")
		cancel = cancel || c.has("tasks", "cancel")
		extension = extension || c.has("extensions", tasksExtension)
	}
	return calls, cancel, extension
}

// Values of execution.taskSupport (2025-11-25).
const (
	taskOptional = "optional"
	taskRequired = "required"
)

// taskSupport returns the task support of a tool of a server with catalog c, "" for
// none. Unless verbatim, it changes the definition of a tool that its server runs only
// as a task to one that may also run without, see addTask.
func taskSupport(c *Catalog, def *rawjson.Object, verbatim bool) string {
	execution, _ := rawjson.Parse(def.Get("execution"))
	support := execution.Text("taskSupport")
	if support != taskOptional && support != taskRequired || !c.has("tasks", "requests", "tools", "call") {
		return ""
	}
	if support == taskRequired && !verbatim {
		execution.Set("taskSupport", rawjson.Quote(taskOptional))
		def.Set("execution", execution.Bytes())
	}
	return support
}

// addTask gives r, a call of t, its task parameter. awaited is set if the tool runs
// only as a task but the client did not ask for one: then we create the task and wait
// for its result.
func (d *Downstream) addTask(r *request, t *Tool) (awaited bool, err error) {
	switch asked := len(r.Task) > 0 && !r.Stateless; {
	case asked && t.tasks == "":
		msg := "the tool " + t.Name + " does not run as a task; call it without task"
		return false, &RPCError{Code: -32601, Message: msg}
	case asked:
		r.body = append(r.body, rawjson.Field{Key: "task", Value: r.Task})
	case t.tasks == taskRequired && !d.spec.Verbatim:
		r.body = append(r.body, rawjson.Field{Key: "task", Value: json.RawMessage("{}")})
		return true, nil
	}
	return false, nil
}

// created registers the task that a call's result announces and returns the result
// with our id for it. A task that is hidden from the client gets no id. If the
// result announces no task, it is returned unchanged with a nil task.
func (d *Downstream) created(t *Tool, r *request, res json.RawMessage, hidden bool) (json.RawMessage, *task) {
	if !rawjson.Mentions(res, "taskId") {
		return res, nil
	}
	o, err := rawjson.Parse(res)
	if err != nil {
		return res, nil
	}
	inner, stateless := rawjson.Object(nil), o.Text("resultType") == "task"
	if stateless {
		inner = slices.Clone(o)
	} else if inner, err = rawjson.Parse(o.Get("task")); err != nil || o.Get("content") != nil {
		return res, nil
	}
	raw := inner.Text("taskId")
	if raw == "" {
		return res, nil
	}
	k := &task{
		server:    d.spec.Name,
		raw:       raw,
		caller:    r.Caller,
		tool:      t.Raw,
		stateless: stateless,
		client:    r.Client,
		made:      time.Now(),
	}
	if !hidden {
		k.id = rand.Text()
	}
	d.set.tasks.update(k, inner)
	d.set.tasks.add(k)
	inner.Set("taskId", rawjson.Quote(k.id))
	if stateless {
		return inner.Bytes(), k
	}
	o.Set("task", inner.Bytes())
	return o.Bytes(), k
}

// awaitTask returns the result of a task of call that is hidden from the client. If
// the client gives up or the timeout passes, it cancels the task.
func (d *Downstream) awaitTask(ctx context.Context, k *task, call *request) (json.RawMessage, error) {
	defer d.set.tasks.remove(k)
	body := rawjson.Object{{Key: "taskId", Value: rawjson.Quote(k.raw)}}
	res, err := d.do(ctx, &request{
		Call:       gate.Call{Caller: call.Caller, Client: call.Client},
		method:     "tasks/result",
		body:       body,
		task:       k.raw,
		timeout:    call.timeout,
		repeatable: true,
	})
	if _, late := errors.AsType[*timeoutError](err); late || ctx.Err() != nil {
		go func() { // ends with the answer, at the latest after ten seconds
			ctx, cancel := context.WithTimeout(d.set.ctx, 10*time.Second)
			defer cancel()
			if _, err := d.do(ctx, &request{method: "tasks/cancel", body: body}); err != nil {
				d.log.Debug("cancelling the task failed", "err", err)
			}
		}()
	}
	return relatedAs(res, ""), err
}

// relatedAs returns res with id as the related task in its _meta; "" removes it.
func relatedAs(res json.RawMessage, id string) json.RawMessage {
	if !rawjson.Mentions(res, metaRelated) {
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
	o.SetObject("_meta", meta)
	return o.Bytes()
}

// relatedTo returns the id of the related task in the _meta of a message, "" when
// there is none.
func relatedTo(params json.RawMessage) string {
	if !rawjson.Mentions(params, metaRelated) {
		return ""
	}
	o, _ := rawjson.Parse(params)
	meta, _ := rawjson.Parse(o.Get("_meta"))
	related, _ := rawjson.Parse(meta.Get(metaRelated))
	return related.Text("taskId")
}

// errUnknownTask does not reveal whether the task belongs to another caller or never
// existed.
var errUnknownTask = &RPCError{Code: -32602, Message: "unknown task: it has expired or does not exist"}

// taskMethods are the methods for tasks, keyed by whether the protocol is stateless.
var taskMethods = map[bool][]string{
	false: {"tasks/get", "tasks/result", "tasks/cancel", "tasks/list"},
	true:  {"tasks/get", "tasks/update", "tasks/cancel"},
}

// A Forward is a client's request about a task.
type Forward struct {
	Method    string
	Params    json.RawMessage // as the client sent them
	Caller    string
	Client    policy.ClientFunc
	Stateless bool                       // the client speaks protocol version 2026-07-28
	Log       func(json.RawMessage) bool // see [gate.Call]
}

// Forward sends a request about a task to the server that runs the task, and
// returns the result. It skips the gate, which the call that created the task has
// passed. A JSON-RPC error of the server is returned as an [*RPCError].
func (s *Downstreams) Forward(ctx context.Context, f Forward) (json.RawMessage, error) {
	body, err := rawjson.Parse(f.Params)
	if err != nil {
		return nil, &RPCError{Code: -32602, Message: "params is " + err.Error()}
	}
	if !slices.Contains(taskMethods[f.Stateless], f.Method) {
		return nil, &RPCError{Code: -32601, Message: f.Method + " is not supported"}
	}
	if f.Method == "tasks/list" {
		return s.listTasks(ctx, f.Caller, body.Text("cursor"))
	}
	id := body.Text("taskId")
	k := s.tasks.find(func(t *task) bool { return t.isFor(f.Caller, f.Stateless) && t.id == id })
	if k == nil {
		return nil, errUnknownTask
	}
	if f.Client != nil {
		s.tasks.mu.Lock()
		k.client = f.Client // the caller's latest connection
		s.tasks.mu.Unlock()
	}
	meta, _ := rawjson.Parse(body.Get("_meta"))
	body.Delete("_meta")
	return s.askTask(ctx, k, &request{
		Call:   gate.Call{Caller: f.Caller, Client: f.Client, Stateless: f.Stateless, Log: f.Log},
		method: f.Method,
		body:   body,
		meta:   meta,
	})
}

// askTask sends a request about a task and returns the result with our id for it.
func (s *Downstreams) askTask(ctx context.Context, k *task, r *request) (json.RawMessage, error) {
	d, err := s.server(k.server)
	if err != nil {
		return nil, errUnknownTask
	}
	r.body.Set("taskId", rawjson.Quote(k.raw))
	r.task = k.raw
	r.repeatable = r.method != "tasks/update"
	if r.method != "tasks/result" { // which waits for the task as long as the client does
		r.timeout = d.spec.timeout("")
	}
	res, err := d.do(ctx, r)
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

// maxTaskPage is the number of tasks on one page of tasks/list.
const maxTaskPage = 50

// listTasks returns a page of the caller's tasks. It asks for each task, because a
// server's own list would include the tasks of other callers.
func (s *Downstreams) listTasks(ctx context.Context, caller, cursor string) (json.RawMessage, error) {
	own := s.tasks.listed(caller)
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
			r := &request{Call: gate.Call{Caller: caller}, method: "tasks/get"}
			if res, err := s.askTask(ctx, k, r); err == nil {
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

// causeInTask returns the request to which a server's request within a task belongs,
// nil if its params name no task, and the params with our id for the task.
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
		if r.task == raw && r.Client != nil {
			return r, params // it waits for the task, and its clock is stopped meanwhile
		}
	}
	s.d.set.tasks.mu.Lock()
	defer s.d.set.tasks.mu.Unlock()
	return &request{Call: gate.Call{Caller: k.caller, Client: k.client}}, params
}

// onTaskStatus forwards a server's status notification to the caller of the task.
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
	s.d.set.notice(Notice{
		Server:  s.d.spec.Name,
		Method:  method,
		Params:  relatedAs(o.Bytes(), k.id),
		Callers: []string{k.caller},
	})
}
