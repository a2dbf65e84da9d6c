package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// An Answer is what a person said. The zero value is no.
type Answer string

const (
	No      Answer = "no"
	Once    Answer = "once"    // this call
	Session Answer = "session" // this call and the same again until the session ends
)

// A Stage is the point of a call's life at which a person is asked.
type Stage string

const (
	BeforeRun Stage = "before-run"
	Widen     Stage = "widen" // the sandbox has denied a run
)

// A Question is what a person is asked about one call.
type Question struct {
	Stage  Stage
	Action Action
	Reason string  // why it is asked
	Each   bool    // an answer for the session is not offered
	Denied *Denial // what the sandbox refused, at the stage Widen
}

// An AskFunc puts a question to a person and returns the answer. An error
// means that nobody answered, whatever the reason, and counts as no; but an
// error that wraps [ErrSuspended] ends the call for now, because the answer
// comes with a later call.
type AskFunc func(context.Context, Question) (Answer, error)

// ErrSuspended is returned by [Gate.Call] when the call waits for an answer
// that the client will bring with a retry.
var ErrSuspended = errors.New("suspended until the client retries with an answer")

// An Outcome is what running a call gave.
type Outcome struct {
	Result  json.RawMessage // the CallToolResult as the backend wrote it
	IsError bool
	Denied  *Denial // set when the sandbox refused something
	Level   string  // sandbox level the run had
}

// A Denial says that the sandbox, and not a file's own permissions, refused
// something.
type Denial struct {
	Op   string `json:"op"`             // "write", "read", "network"
	Path string `json:"path,omitempty"` // what was refused, as the caller named it
	Why  string `json:"why,omitempty"`  // such as "it is outside the writable roots"
}

func (d *Denial) Error() string {
	s := "denied by the sandbox: " + d.Op
	if d.Path != "" {
		s += " " + d.Path
	}
	if d.Why != "" {
		s += ": " + d.Why
	}
	return s
}

// DeniedKey is the _meta key under which a worker tells the gate of a
// [Denial]. The gate takes it out again.
const DeniedKey = "toolgate/denied"

// A RunFunc runs a call under a profile.
type RunFunc func(context.Context, Call, Profile) (Outcome, error)

// A Call is one tools/call on its way through the gate.
type Call struct {
	ID        string // names the call in the log
	Caller    string // whose session it is; approvals belong to it
	Action    Action
	Arguments json.RawMessage
	Ask       AskFunc // reaches the caller's person; nil: nobody can be asked
	Progress  func(json.RawMessage)

	// Meta is the call's _meta as the client sent it, for a downstream
	// server, and Client what reaches the client with that server's own
	// requests; nil: it cannot be reached.
	Meta   json.RawMessage
	Client ClientFunc

	// Denied resumes a call at the stage Widen: it ran before, the sandbox
	// denied it, and Ask has the answer to whether it may run wider.
	Denied *Denial
}

// An Event is the record of one call, whatever became of it.
type Event struct {
	Time     time.Time       `json:"time"`
	ID       string          `json:"id"`
	Caller   string          `json:"caller,omitempty"`
	Server   string          `json:"server,omitempty"`
	Tool     string          `json:"tool"`
	Action   Action          `json:"action"`
	Args     json.RawMessage `json:"arguments,omitempty"`
	Verdict  string          `json:"verdict"`
	Reason   string          `json:"reason,omitempty"`
	Asked    string          `json:"asked,omitempty"` // the answer, "" when nobody was asked
	Profile  string          `json:"profile,omitempty"`
	Level    string          `json:"level,omitempty"` // sandbox level of the last run
	Denied   *Denial         `json:"denied,omitempty"`
	Outcome  string          `json:"outcome"` // "ok", "tool-error", "refused", "suspended", "cancelled", "failed"
	Error    string          `json:"error,omitempty"`
	Duration time.Duration   `json:"duration_ns"`
	Bytes    int             `json:"bytes"` // of the result
}

// A Refused is the error for a call that did not run because the policy or a
// person said no.
type Refused struct {
	Reason string
	Hint   string // what would allow it
}

func (r *Refused) Error() string {
	s := "denied: " + r.Reason
	if r.Hint != "" {
		s += "; " + r.Hint
	}
	return s
}

// A Gate drives calls through their life. Its zero value denies every call.
// It may be used concurrently.
type Gate struct {
	Policy *Policy
	Run    RunFunc
	Record func(Event) // may be nil

	approvals approvals
	order     order
}

// Call drives one call: decide, ask, run, ask for more where the sandbox
// denied it, record. The description has happened before, it is c.Action.
//
// Its errors are a *[Refused], [ErrSuspended], the context's, and the run's.
// Whatever happens, a panic included, one event is recorded.
func (g *Gate) Call(ctx context.Context, c Call) (out Outcome, err error) {
	ev := Event{Time: time.Now(), ID: c.ID, Caller: c.Caller, Server: c.Action.Server, Tool: c.Action.Tool, Args: c.Arguments, Verdict: Deny.String()}
	defer func() {
		if p := recover(); p != nil {
			out, err = Outcome{}, fmt.Errorf("bug in toolgate, nothing is known about what was done: %v", p)
		}
		g.record(ev, c, out, err)
	}()

	if g.Policy != nil {
		c.Action = c.Action.In(g.Policy.Workspace)
	}
	d := g.Policy.Decide(c.Action)
	ev.Action, ev.Verdict, ev.Reason, ev.Profile = c.Action, d.Verdict.String(), d.Reason, d.Profile.Mode.String()

	if c.Denied == nil {
		if err := g.permit(ctx, c, d, &ev); err != nil {
			return Outcome{}, err
		}
		out, err = g.run(ctx, c, d.Profile)
		if err != nil || out.Denied == nil {
			return out, err
		}
	} else {
		out.Denied = c.Denied
	}
	return g.widen(ctx, c, d, out, &ev)
}

// permit returns nil when the call may run as decided.
func (g *Gate) permit(ctx context.Context, c Call, d Decision, ev *Event) error {
	switch d.Verdict {
	case Allow:
		return nil
	case Ask:
		return g.ask(ctx, c, Question{Stage: BeforeRun, Action: c.Action, Reason: d.Reason, Each: d.Each}, d, ev)
	}
	return &Refused{Reason: d.Reason, Hint: d.Hint}
}

func (g *Gate) ask(ctx context.Context, c Call, q Question, d Decision, ev *Event) error {
	if !q.Each && g.approvals.covers(c.Caller, d.Keys) {
		ev.Asked = "remembered"
		return nil
	}
	if c.Ask == nil {
		ev.Asked = "nobody"
		return &Refused{Reason: q.Reason + ", and nobody could be asked", Hint: d.Hint}
	}
	answer, err := c.Ask(ctx, q)
	if errors.Is(err, ErrSuspended) {
		return err
	}
	if err != nil {
		ev.Asked = "nobody"
		return &Refused{Reason: q.Reason + ", and nobody could be asked (" + err.Error() + ")", Hint: d.Hint}
	}
	ev.Asked = string(answer)
	switch answer {
	case Once:
		return nil
	case Session:
		if !q.Each {
			g.approvals.remember(c.Caller, d.Keys)
		}
		return nil
	}
	return &Refused{Reason: "the user said no", Hint: "do not try it again in another way; go on without it or ask the user"}
}

// run runs the call in its turn: calls that only read run side by side,
// others one at a time.
func (g *Gate) run(ctx context.Context, c Call, f Profile) (Outcome, error) {
	if g.Run == nil {
		return Outcome{}, &Refused{Reason: "nothing is there to run it"}
	}
	if c.Action.Server != "" {
		return g.Run(ctx, c, f) // not in the workspace's turn: another server's work, and it may wait for a person
	}
	done, err := g.order.enter(ctx, c.Action.ReadOnly)
	if err != nil {
		return Outcome{}, err
	}
	defer done()
	return g.Run(ctx, c, f)
}

// widen asks whether a call that the sandbox denied may run outside it. Under
// on-request that is the model's to ask for, with sandbox_permissions, and
// under never nobody is asked: then the denied result is the answer.
func (g *Gate) widen(ctx context.Context, c Call, d Decision, out Outcome, ev *Event) (Outcome, error) {
	ev.Denied = out.Denied
	if g.Policy.Approval != Untrusted || d.Profile.Mode == DangerFullAccess {
		return out, nil
	}
	d.Profile = Profile{Mode: DangerFullAccess, Network: NetworkAll}
	d.Keys = keys(c.Action, d.Profile)
	q := Question{Stage: Widen, Action: c.Action, Reason: "it ran in the sandbox and was " + out.Denied.Error(), Denied: out.Denied}
	if err := g.ask(ctx, c, q, d, ev); err != nil {
		if _, no := errors.AsType[*Refused](err); no && len(out.Result) > 0 {
			return out, nil // what the sandboxed run gave is still worth having
		}
		return Outcome{}, err
	}
	ev.Profile = d.Profile.Mode.String()
	return g.run(ctx, c, d.Profile)
}

func (g *Gate) record(ev Event, c Call, out Outcome, err error) {
	if g.Record == nil {
		return
	}
	ev.Duration = time.Since(ev.Time)
	ev.Bytes = len(out.Result)
	ev.Level = out.Level
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
		if _, ok := errors.AsType[*Refused](err); ok {
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
}

func (a *approvals) covers(caller string, keys []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range keys {
		if !a.given[caller][k] {
			return false
		}
	}
	return len(keys) > 0
}

func (a *approvals) remember(caller string, keys []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.given == nil {
		a.given = map[string]map[string]bool{}
	}
	if a.given[caller] == nil {
		a.given[caller] = map[string]bool{}
	}
	for _, k := range keys {
		a.given[caller][k] = true
	}
}

// order is a fair read/write lock that can be given up while waiting: calls
// that only read share it, another has it alone.
type order struct {
	once sync.Once
	sem  *semaphore.Weighted
}

const sideBySide = 1 << 10 // calls at once

func (o *order) enter(ctx context.Context, readOnly bool) (leave func(), err error) {
	o.once.Do(func() { o.sem = semaphore.NewWeighted(sideBySide) })
	n := int64(sideBySide)
	if readOnly {
		n = 1
	}
	if err := o.sem.Acquire(ctx, n); err != nil {
		return nil, err
	}
	return func() { o.sem.Release(n) }, nil
}
