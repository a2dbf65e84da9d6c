// Package gate leads a call through its life: describe, decide, ask, run, widen,
// record. What it needs done it is given as functions.
//
//	g := &gate.Gate{Policy: p, Run: run, Record: record}
//	out, err := g.Call(ctx, gate.Call{Action: action, Arguments: args, Ask: ask})
package gate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"toolgate/internal/relay"
	"toolgate/policy"
)

// An Answer is what a person said. The zero value is no.
type Answer string

const (
	No      Answer = "no"
	Once    Answer = "once"    // this call
	Session Answer = "session" // this call and the same again until the session ends
	Always  Answer = "always"  // this call, and the rule that was offered from now on
)

// A Stage is the point of a call's life at which a person is asked.
type Stage string

const (
	BeforeRun Stage = "before-run"
	Widen     Stage = "widen" // the sandbox has denied a run
	Reach     Stage = "reach" // a command that runs wants to reach a host
)

// A Question is what a person is asked about one call.
type Question struct {
	Stage      Stage
	Action     policy.Action
	Reason     string             // why it is asked
	OnceOnly   bool               // an answer for the session is not offered
	AlwaysRule string             // the rule line that "always" adds, "" when that is not offered
	Denied     *policy.Denial     // what the sandbox refused, at the stage Widen
	Host       *policy.HostTarget // what is to be reached, at the stage Reach
}

// An AskFunc puts a question to a person and returns the answer. An error
// means that nobody answered, whatever the reason, and counts as no; but an
// error that wraps [ErrSuspended] ends the call for now, because the answer
// comes with a later call.
type AskFunc func(context.Context, Question) (Answer, error)

// ErrSuspended is returned by [Gate.Call] when the call waits for an answer
// that the client will bring with a retry.
var ErrSuspended = errors.New("suspended until the client retries with an answer")

// ErrCannotAsk is wrapped by the error of an [AskFunc] that has no way to reach
// a person. Then the waiting list is tried.
var ErrCannotAsk = errors.New("no way to ask the user")

// ErrAutoDeclined is wrapped beside [ErrCannotAsk] when the client has said no by
// itself. Then the question goes on the waiting list, and the call waits no
// longer: nobody is at that client.
var ErrAutoDeclined = errors.New("the client said no by itself")

// A QueuedQuestion is a question on its way to the waiting list. An answer to it
// holds for what Binding stands for and nothing else: the caller, the tool,
// its arguments to the letter, the stage, and the policy.
type QueuedQuestion struct {
	Binding   string
	Caller    string
	Agent     string // the client program
	Workspace string
	Rule      string         // the rule that made it a question
	Profile   policy.Profile // what the call runs under after a yes
	Question  Question
	NoWait    bool // return at once when it is not answered yet
}

// A PendingError is the error for a question that nobody has answered yet.
type PendingError struct{ ID string }

func (w *PendingError) Error() string { return "it waits for approval as " + w.ID }

// An Outcome is what running a call gave.
type Outcome struct {
	Result  json.RawMessage // the CallToolResult as the backend wrote it
	IsError bool
	Denied  *policy.Denial   // set when the sandbox refused something
	Level   string           // sandbox level the run had
	Hosts   []policy.HostUse // hosts that were reached or refused while it ran
}

// A RunFunc runs a call under a profile.
type RunFunc func(context.Context, Call, policy.Profile) (Outcome, error)

// A Call is one tools/call, or another request to a downstream server, on its
// way through the gate.
type Call struct {
	ID        string // names the call in the log
	Caller    string // whose session it is; approvals belong to it
	Action    policy.Action
	Arguments json.RawMessage
	Ask       AskFunc // reaches the caller's person; nil: nobody can be asked
	AskedVia  string  // how Ask reaches that person, for the record: "client", "terminal"
	Agent     string  // the client program, as it calls itself
	Progress  func(json.RawMessage)

	// Log gets the params of a backend's log messages while the call runs,
	// and reports whether the client has asked for such. Nil drops them.
	Log func(json.RawMessage) bool

	// Meta is the call's _meta as the client sent it, for a downstream
	// server, and Client what reaches the client with that server's own
	// requests; nil: it cannot be reached.
	Meta   json.RawMessage
	Client policy.ClientFunc

	// Task is how the client asks for a task in place of a result, nil when it
	// does not: the params' task of the revision 2025-11-25.
	Task json.RawMessage

	// Rounds says that the client takes the questions of a downstream server
	// in results; Inputs then holds what it brought to an earlier one, and
	// Approved says that a person said yes to this very call then.
	Rounds   bool
	Inputs   json.RawMessage
	Approved bool

	// Limit is the sandbox that the client is held to itself, nil when it
	// says nothing of one.
	Limit *policy.Limit

	// Sent, if set, is to be called in the goroutine that runs the call, when
	// the backend has it and there is nothing to do but to wait.
	Sent func()

	// Denied resumes a call at the stage Widen: it ran before, the sandbox
	// denied it, and Ask has the answer to whether it may run wider.
	Denied *policy.Denial

	// Describe describes the call anew when [Gate.Before] has changed its
	// arguments; without it such a change refuses the call.
	Describe func(json.RawMessage) (policy.Action, error)

	// Notes are a hook's words for the model, to be added to the result.
	Notes []string

	policy *policy.Policy // the gate's, within Limit
}

// traceParent returns the W3C trace context that the client sent, where MCP's
// conventions put it.
func (c Call) traceParent() string {
	if len(c.Meta) == 0 {
		return ""
	}
	var meta map[string]json.RawMessage // a struct would take the name in any case
	var parent string
	if json.Unmarshal(c.Meta, &meta) != nil || json.Unmarshal(meta["traceparent"], &parent) != nil || len(parent) > 64 {
		return ""
	}
	return parent
}

// An Event is the record of one call, whatever became of it.
type Event struct {
	Time        time.Time       `json:"time"`
	ID          string          `json:"id"`
	Caller      string          `json:"caller,omitempty"`
	Agent       string          `json:"agent,omitempty"`       // the client program
	TraceParent string          `json:"traceparent,omitempty"` // of the client, by which traces are put together
	Server      string          `json:"server,omitempty"`
	Tool        string          `json:"tool"`
	Args        json.RawMessage `json:"arguments,omitempty"` // as they were sent
	Rewritten   json.RawMessage `json:"rewritten,omitempty"` // as they ran, when a hook changed them
	Action      policy.Action   `json:"action"`

	Verdict    string    `json:"verdict"`
	Rule       string    `json:"rule,omitempty"` // the rule that decided
	Reason     string    `json:"reason,omitempty"`
	Asked      string    `json:"asked,omitempty"`       // the answer, "" when nobody was asked
	AnsweredBy string    `json:"answered_by,omitempty"` // who gave it: [Call.Asks], "hook", "memory", "nobody"
	AnsweredAt time.Time `json:"answered_at,omitzero"`

	Profile       string           `json:"profile,omitempty"`        // permission profile or sandbox mode of the last run
	ProfileDigest string           `json:"profile_digest,omitempty"` // tells one set of paths from another
	Level         string           `json:"level,omitempty"`          // sandbox level of the last run
	Denied        *policy.Denial   `json:"denied,omitempty"`
	Hosts         []policy.HostUse `json:"hosts,omitempty"` // reached or refused through the proxy, while it ran

	Outcome  string        `json:"outcome"` // "ok", "tool-error", "refused", "suspended", "cancelled", "failed", "invalid"
	Error    string        `json:"error,omitempty"`
	Duration time.Duration `json:"duration_ns"`
	Waited   time.Duration `json:"waited_ns,omitempty"` // of it, for a person
	Running  time.Duration `json:"run_ns,omitempty"`    // of it, in runs
	Bytes    int           `json:"bytes"`               // of the result

	// Prepared is what [Gate.Prepare] made of it, nil for nothing.
	Prepared any `json:"-"`
}

// A RefusedError is the error for a call that did not run because the policy or a
// person said no.
type RefusedError struct {
	Reason string
	Hint   string // what would allow it

	cause error // nil or [ErrUnasked]
}

func (r *RefusedError) Unwrap() error { return r.cause }

// ErrUnasked is the cause of a [RefusedError] for a request that nobody is asked about.
var ErrUnasked = errors.New("nobody is asked about this request")

func (r *RefusedError) Error() string {
	s := "denied: " + r.Reason
	if r.Hint != "" {
		s += "; " + r.Hint
	}
	return s
}

// A Gate drives calls through their life. Its zero value denies every call.
// It may be used concurrently.
type Gate struct {
	Policy *policy.Policy
	Run    RunFunc
	Record func(Event) // may be nil

	// Prepare, if set, is shown the event of a call while a backend works on
	// it, as it is by then, so that what it makes of it need not be made once
	// the result is there and the client waits: Record finds it in Prepared.
	Prepare func(Event) any

	// Hooks are the user's own programs beside the policy. OnceOnly may be nil,
	// and an error of each ends the call; a *[RefusedError] says why.
	//
	// Before sees the call as it was sent. It may change the arguments: then
	// the call is described and decided by the new ones. After sees what a
	// run gave and may change it. AskHook is asked before a person is, and
	// reports whether it has answered.
	Before  func(context.Context, *Call) error
	After   func(context.Context, Call, *Outcome) error
	AskHook func(context.Context, Call, Question) (answer Answer, answered bool, err error)

	// Queue puts a question on the waiting list and waits a while. Its error
	// is a *[PendingError] when nobody has answered by then: the same call
	// passes when it comes again after a yes. Nil: there is no list.
	Queue func(context.Context, QueuedQuestion) (Answer, error)

	// AskInParallel shows a question elsewhere while the client asks its user, until
	// ctx ends or there is an answer, which it returns. Nil: nowhere.
	AskInParallel func(context.Context, QueuedQuestion) (Answer, error)

	// AddRule adds a line to the user's rules, for the answer always.
	AddRule func(ruleLine string) error

	approvals approvals
	order     turnLock
}

// Call drives one call: decide, ask, run, ask for more where the sandbox
// denied it, record. The description has happened before, it is c.Action.
//
// Its errors are a *[RefusedError], [ErrSuspended], the context's, and the run's.
// Whatever happens, a panic included, one event is recorded.
func (g *Gate) Call(ctx context.Context, c Call) (out Outcome, err error) {
	ev := Event{Time: time.Now(), ID: c.ID, Caller: c.Caller, Agent: c.Agent, TraceParent: c.traceParent(), Server: c.Action.Server, Tool: c.Action.Tool, Args: c.Arguments, Action: c.Action, Verdict: policy.Deny.String()}
	defer func() {
		if p := recover(); p != nil {
			out, err = Outcome{}, fmt.Errorf("bug in toolgate, nothing is known about what was done: %v", p)
		}
		g.record(ev, c, out, err)
	}()

	if err := g.before(ctx, &c, &ev); err != nil {
		return Outcome{}, err
	}
	if c.Limit != nil && c.Limit.Unknown != "" {
		return Outcome{}, &RefusedError{Reason: "the client's own sandbox asks for what cannot be held here: " + c.Limit.Unknown}
	}
	c.policy = g.Policy.Within(c.Limit)
	if c.Action.Arguments == nil {
		c.Action.Arguments = c.Arguments
	}
	if c.policy != nil {
		c.Action = c.Action.In(c.policy.Workspace)
	}
	d := c.policy.Decide(c.Action)
	ev.Action, ev.Verdict, ev.Reason, ev.Rule = c.Action, d.Verdict.String(), d.Reason, d.Rule
	ev.Profile, ev.ProfileDigest = d.Profile.String(), c.Action.ProfileDigest(d)

	if out, err = g.permitAndRun(ctx, c, d, &ev); err != nil {
		return out, err
	}
	return g.after(ctx, c, out)
}

// after shows what a run gave to the hook that may change it. The hook has
// the call's turn: it may well change files.
func (g *Gate) after(ctx context.Context, c Call, out Outcome) (Outcome, error) {
	if g.After == nil {
		return out, nil
	}
	relay.Leave(ctx)
	done, err := g.turn(ctx, c)
	if err != nil {
		return Outcome{}, err
	}
	defer done()
	if err := g.After(ctx, c, &out); err != nil {
		return Outcome{}, err
	}
	return out, nil
}

// before leads the call past the hook that may change or refuse it.
func (g *Gate) before(ctx context.Context, c *Call, ev *Event) error {
	if g.Before == nil {
		return nil
	}
	relay.Leave(ctx)
	sent := bytes.Clone(c.Arguments)
	if err := g.Before(ctx, c); err != nil {
		ev.Reason = "a hook refused it"
		return err
	}
	if bytes.Equal(sent, c.Arguments) {
		return nil
	}
	ev.Rewritten = c.Arguments
	if c.Describe == nil {
		return &RefusedError{Reason: "a hook changed the arguments, and this call cannot be described anew"}
	}
	action, err := c.Describe(c.Arguments)
	if err != nil {
		return &RefusedError{Reason: "a hook changed the arguments, and they do not fit any more: " + err.Error()}
	}
	if action.Tool != c.Action.Tool || action.Server != c.Action.Server {
		return &RefusedError{Reason: "a hook turned the call into one of another tool"}
	}
	c.Action = action
	return nil
}

// permitAndRun asks where it must, runs the call, and asks for a wider run
// where the sandbox denied it.
func (g *Gate) permitAndRun(ctx context.Context, c Call, d policy.Decision, ev *Event) (out Outcome, err error) {
	if c.Denied == nil {
		if err := g.approve(ctx, c, d, ev); err != nil {
			return Outcome{}, err
		}
		out, err = g.run(ctx, c, d.Profile, ev)
		if err != nil || out.Denied == nil {
			return out, err
		}
	} else {
		out.Denied = c.Denied
	}
	return g.widen(ctx, c, d, out, ev)
}

// approve returns nil when the call may run as decided.
func (g *Gate) approve(ctx context.Context, c Call, d policy.Decision, ev *Event) error {
	switch d.Verdict {
	case policy.Allow:
		return nil
	case policy.Ask:
		return g.ask(ctx, c, Question{Stage: BeforeRun, Action: c.Action, Reason: d.Reason, OnceOnly: d.OnceOnly, AlwaysRule: d.AlwaysRule}, d, ev)
	}
	return &RefusedError{Reason: d.Reason, Hint: d.Hint}
}

func (g *Gate) ask(ctx context.Context, c Call, q Question, d policy.Decision, ev *Event) error {
	if c.Approved || !q.OnceOnly && g.approvals.covers(c.Caller, d.Keys) {
		ev.answered("remembered", "memory")
		return nil
	}
	if c.Action.Unasked {
		return &RefusedError{Reason: q.Reason + ", and nobody is asked about " + c.Action.Tool, Hint: d.Hint, cause: ErrUnasked}
	}
	relay.Leave(ctx)
	if answered, err := g.askHook(ctx, c, q, ev); answered || err != nil {
		return err
	}
	asked := time.Now()
	answer, err := g.askPerson(ctx, c, q, d, ev)
	ev.Waited += time.Since(asked)
	if errors.Is(err, ErrSuspended) {
		return err
	}
	if waits, ok := errors.AsType[*PendingError](err); ok {
		ev.answered("nobody", "nobody")
		return &RefusedError{
			Reason: q.Reason + ", and " + waits.Error(),
			Hint:   fmt.Sprintf("tell the user to run `toolgate approvals approve %s`, then send the same call again", waits.ID),
		}
	}
	if err != nil {
		ev.answered("nobody", "nobody")
		why := ", and nobody could be asked"
		if err != ErrCannotAsk {
			why += " (" + err.Error() + ")"
		}
		return &RefusedError{Reason: q.Reason + why, Hint: d.Hint}
	}
	return g.apply(answer, c, q, d, ev)
}

// askPerson asks through the client, and where that cannot be, through the
// waiting list.
func (g *Gate) askPerson(ctx context.Context, c Call, q Question, d policy.Decision, ev *Event) (Answer, error) {
	w := QueuedQuestion{
		Binding:   g.binding(c, q),
		Caller:    c.Caller,
		Agent:     c.Agent,
		Workspace: c.policy.WorkspaceDir(),
		Rule:      d.Rule,
		Profile:   d.Profile,
		Question:  q,
	}
	answer, by, err := No, "", ErrCannotAsk
	if c.Ask != nil {
		answer, by, err = g.askClient(ctx, c, q, w)
	}
	if g.Queue != nil && errors.Is(err, ErrCannotAsk) {
		w.NoWait = errors.Is(err, ErrAutoDeclined)
		by = "waiting list"
		answer, err = g.Queue(ctx, w)
	}
	if err == nil {
		ev.answered(string(answer), by)
	}
	return answer, err
}

// apply does what the answer says.
func (g *Gate) apply(answer Answer, c Call, q Question, d policy.Decision, ev *Event) error {
	switch {
	case answer == Once:
		return nil
	case answer == Session && !q.OnceOnly:
		g.approvals.remember(c.Caller, d.Keys)
		return nil
	case answer == Always && q.AlwaysRule != "" && g.AddRule != nil:
		if err := g.AddRule(q.AlwaysRule); err != nil {
			ev.Error = "the rule could not be kept: " + err.Error()
		}
		g.approvals.remember(c.Caller, d.Keys)
		return nil
	}
	if q.Stage == Widen {
		g.approvals.refuse(c.Caller, d.Keys)
	}
	return &RefusedError{
		Reason: "the user said no",
		Hint:   "do not try it again in another way; go on without it or ask the user",
	}
}

// binding names what a late answer holds for.
func (g *Gate) binding(c Call, q Question) string {
	h := sha256.New()
	about := []any{c.Caller, c.Action.Server, c.Action.Tool, c.Action.Dir, q.Stage, c.policy.CurrentVersion()}
	if q.Host != nil {
		about = append(about, q.Host)
	}
	b, _ := json.Marshal(about) // strings marshal
	h.Write(b)
	h.Write(c.Arguments)
	return hex.EncodeToString(h.Sum(nil))
}

// askHook lets the hook answer, before a person is bothered.
func (g *Gate) askHook(ctx context.Context, c Call, q Question, ev *Event) (answered bool, err error) {
	if g.AskHook == nil {
		return false, nil
	}
	answer, answered, err := g.AskHook(ctx, c, q)
	switch {
	case err != nil:
		ev.answered(string(No), "hook")
		return true, err
	case !answered:
		return false, nil
	}
	ev.answered(string(answer), "hook")
	if answer != Once { // a program says it about this call alone
		return true, &RefusedError{Reason: "a hook said no", Hint: "do not try it again in another way"}
	}
	return true, nil
}

func (ev *Event) answered(answer, by string) {
	ev.Asked, ev.AnsweredBy, ev.AnsweredAt = answer, by, time.Now()
}

// run runs the call in its turn: calls that only read run side by side,
// others one at a time.
func (g *Gate) run(ctx context.Context, c Call, f policy.Profile, ev *Event) (Outcome, error) {
	if g.Run == nil {
		return Outcome{}, &RefusedError{Reason: "nothing is there to run it"}
	}
	done, err := g.turn(ctx, c)
	if err != nil {
		return Outcome{}, err
	}
	defer done()
	began := time.Now()
	defer func() { ev.Running += time.Since(began) }()
	if g.Prepare != nil {
		c.Sent = func() { ev.Prepared = g.Prepare(*ev) }
	}
	return g.Run(ctx, c, f)
}

// turn waits for the call's turn in the workspace. Another server's call
// needs none: it is not the workspace's work, and it may wait for a person. Nor
// does one that goes on with a session: the command runs anyway, and to wait
// for it must hold up nobody.
func (g *Gate) turn(ctx context.Context, c Call) (done func(), err error) {
	if c.Action.Server != "" || c.Action.Session != "" {
		return func() {}, nil
	}
	relay.Leave(ctx)
	return g.order.enter(ctx, c.Action.ReadOnly)
}

// widen asks whether a call that the sandbox denied may run outside it. Under
// on-request that is the model's to ask for, with sandbox_permissions, and
// under never nobody is asked: then the denied result is the answer.
func (g *Gate) widen(ctx context.Context, c Call, d policy.Decision, out Outcome, ev *Event) (Outcome, error) {
	ev.Denied = out.Denied
	if !c.policy.Widens() || d.Profile.Mode == policy.DangerFullAccess || c.Action.Server != "" || out.Denied.Final {
		return out, nil
	}
	d.Profile = policy.NoSandbox
	d.Keys = policy.Keys(c.Action, d.Profile)
	if g.approvals.refused(c.Caller, d.Keys) {
		return out, nil // never twice for the same
	}
	q := Question{Stage: Widen, Action: c.Action, Reason: "it ran in the sandbox and was " + out.Denied.Error(), Denied: out.Denied}
	if err := g.ask(ctx, c, q, d, ev); err != nil {
		if _, no := errors.AsType[*RefusedError](err); no && len(out.Result) > 0 {
			return out, nil // what the sandboxed run gave is still worth having
		}
		return Outcome{}, err
	}
	ev.Profile, ev.ProfileDigest = d.Profile.String(), d.Profile.Digest()
	return g.run(ctx, c, d.Profile, ev)
}

// Invalid records a call whose arguments no tool could describe. It did
// nothing.
func (g *Gate) Invalid(c Call, why error) {
	if g.Record != nil {
		g.Record(Event{Time: time.Now(), ID: c.ID, Caller: c.Caller, Agent: c.Agent, Server: c.Action.Server, Tool: c.Action.Tool, Args: c.Arguments, Action: c.Action, Verdict: policy.Deny.String(), Outcome: "invalid", Error: why.Error()})
	}
}

func (g *Gate) record(ev Event, c Call, out Outcome, err error) {
	if g.Record == nil {
		return
	}
	ev.Duration = time.Since(ev.Time)
	ev.Bytes = len(out.Result)
	ev.Level = out.Level
	ev.Hosts = out.Hosts
	switch {
	case err == nil && out.IsError:
		ev.Outcome = "tool-error"
	case err == nil:
		ev.Outcome = "ok"
	case errors.Is(err, ErrSuspended):
		ev.Outcome = "suspended"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		ev.Outcome = "cancelled"
	default:
		ev.Outcome = "failed"
		if _, ok := errors.AsType[*RefusedError](err); ok {
			ev.Outcome = "refused"
		}
		ev.Error = err.Error()
	}
	g.Record(ev)
}

// approvals remembers what callers were told for their session.
type approvals struct {
	mu    sync.Mutex
	given map[string]map[string]bool // caller → key
	not   map[string]map[string]bool // the same for a wider run that was refused
}

func (a *approvals) refuse(caller string, keys []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	setKeys(&a.not, caller, keys)
}

func (a *approvals) refused(caller string, keys []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return hasKeys(a.not, caller, keys)
}

// A SessionApproval is a yes that holds for a caller's session.
type SessionApproval struct {
	Caller string `json:"caller"`
	Key    string `json:"key"` // what it covers: its kind, and its parts as JSON
}

// Remembered returns what callers need not be asked again until their session
// ends.
func (g *Gate) Remembered() []SessionApproval {
	g.approvals.mu.Lock()
	defer g.approvals.mu.Unlock()
	var list []SessionApproval
	for caller, keys := range g.approvals.given {
		for k := range keys {
			list = append(list, SessionApproval{caller, k})
		}
	}
	slices.SortFunc(list, func(a, b SessionApproval) int {
		return cmp.Or(cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.Key, b.Key))
	})
	return list
}

// Forget takes such a yes back, and reports whether there was one.
func (g *Gate) Forget(m SessionApproval) bool {
	g.approvals.mu.Lock()
	defer g.approvals.mu.Unlock()
	there := g.approvals.given[m.Caller][m.Key]
	delete(g.approvals.given[m.Caller], m.Key)
	return there
}

func (a *approvals) covers(caller string, keys []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return hasKeys(a.given, caller, keys)
}

func (a *approvals) remember(caller string, keys []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	setKeys(&a.given, caller, keys)
}

func setKeys(m *map[string]map[string]bool, caller string, keys []string) {
	if *m == nil {
		*m = map[string]map[string]bool{}
	}
	if (*m)[caller] == nil {
		(*m)[caller] = map[string]bool{}
	}
	for _, k := range keys {
		(*m)[caller][k] = true
	}
}

func hasKeys(m map[string]map[string]bool, caller string, keys []string) bool {
	for _, k := range keys {
		if !m[caller][k] {
			return false
		}
	}
	return len(keys) > 0
}

// turnLock is a fair read/write lock that can be given up while waiting: calls
// that only read share it, another has it alone.
type turnLock struct {
	once sync.Once
	sem  *semaphore.Weighted
}

const maxParallel = 1 << 10 // calls at once

func (o *turnLock) enter(ctx context.Context, readOnly bool) (leave func(), err error) {
	o.once.Do(func() { o.sem = semaphore.NewWeighted(maxParallel) })
	n := int64(maxParallel)
	if readOnly {
		n = 1
	}
	if err := o.sem.Acquire(ctx, n); err != nil {
		return nil, err
	}
	return func() { o.sem.Release(n) }, nil
}
