package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"toolgate/policy"
)

// An Outcome is the result of running a call.
type Outcome struct {
	Result  json.RawMessage // the CallToolResult as the backend wrote it
	IsError bool
	Denied  *policy.Denial   // set if the sandbox refused something
	Level   string           // sandbox level of the run
	Hosts   []policy.HostUse // hosts that the proxy connected or refused during the run
	Notes   []string         // what the sandbox could not do for the files as they are
}

// A RunFunc runs a call under a profile.
type RunFunc func(context.Context, Call, policy.Profile) (Outcome, error)

// A Call is one tools/call, or another request to a downstream server, on its
// way through the gate.
type Call struct {
	ID        string // identifies the call in the log
	Caller    string // the session that approvals belong to
	Action    policy.Action
	Arguments json.RawMessage
	Ask       AskFunc // asks the caller's user; nil if that is not possible
	AskedVia  string  // how Ask reaches the user, for the record: "client", "terminal"
	Agent     string  // the client program, as it calls itself
	Progress  func(json.RawMessage)

	// Log receives the params of the backend's log messages during the call,
	// and reports whether the client wants them. If it is nil they are dropped.
	Log func(json.RawMessage) bool

	// Meta is the call's _meta as the client sent it, for a downstream server.
	// Client sends that server's own requests to the client; it is nil if the
	// client does not take any.
	Meta   json.RawMessage
	Client policy.ClientFunc

	// Task is the params' task (protocol revision 2025-11-25), by which the
	// client asks for a task instead of a result; nil if it does not.
	Task json.RawMessage

	// Stateless is set if the client speaks protocol version 2026-07-28. Inputs
	// asks such a client; if it is nil, Client sends each question by itself.
	Stateless bool
	Inputs    policy.InputsFunc

	// Limit is the sandbox that the client itself is held to, nil if unknown.
	Limit *policy.Limit

	// Describe describes the call again after [Gate.Before] has changed its
	// arguments. If it is nil, such a change refuses the call.
	Describe func(json.RawMessage) (policy.Action, error)

	// Run, if set, runs the call instead of [Gate.Run]: the gate has the answer.
	Run RunFunc

	// Notes are messages of a hook for the model, added to the result.
	Notes []string

	policy *policy.Policy // the gate's policy within Limit
}

// traceParent returns the W3C trace context from the call's _meta.
func (c Call) traceParent() string {
	var meta map[string]json.RawMessage // a struct would match the name in any case
	var parent string
	if json.Unmarshal(c.Meta, &meta) != nil || json.Unmarshal(meta["traceparent"], &parent) != nil ||
		len(parent) > 64 {
		return ""
	}
	return parent
}

// A RefusedError is the error for a call that did not run because the policy,
// a hook or a person refused it.
type RefusedError struct {
	Reason string
	Hint   string // what would allow it

	cause error // nil or [ErrUnasked]
}

func (r *RefusedError) Unwrap() error { return r.cause }

// ErrUnasked is wrapped by a *[RefusedError] for a request that needs approval
// but is never asked about.
var ErrUnasked = errors.New("nobody is asked about this request")

func (r *RefusedError) Error() string {
	s := "denied: " + r.Reason
	if r.Hint != "" {
		s += "; " + r.Hint
	}
	return s
}

// Call takes one call through its life: decide, ask, run, ask for a wider run
// if the sandbox denied it, record. The call is described already: c.Action.
//
// The error is a *[RefusedError], the context's error or that of the run. One
// event is recorded in any case, even after a panic.
func (g *Gate) Call(ctx context.Context, c Call) (out Outcome, err error) {
	ev := newEvent(c)
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
		why := "the client's own sandbox asks for what cannot be held here: " + c.Limit.Unknown
		return Outcome{}, &RefusedError{Reason: why}
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

	if out, err = g.decided(ctx, c, d, &ev); err != nil {
		return out, err
	}
	if out.Denied != nil {
		if out, err = g.widen(ctx, c, d, out, &ev); err != nil {
			return out, err
		}
	}
	return g.after(ctx, c, out)
}

// after passes the outcome through the hook that may change it.
func (g *Gate) after(ctx context.Context, c Call, out Outcome) (Outcome, error) {
	if g.After == nil {
		return out, nil
	}
	if err := g.After(ctx, c, &out); err != nil {
		return Outcome{}, err
	}
	return out, nil
}

// before passes the call through the hook that may change or refuse it.
func (g *Gate) before(ctx context.Context, c *Call, ev *Event) error {
	if g.Before == nil {
		return nil
	}
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

// decided runs the call as decided, and asks before if it must.
func (g *Gate) decided(ctx context.Context, c Call, d policy.Decision, ev *Event) (Outcome, error) {
	switch d.Verdict {
	case policy.Allow:
		return g.run(ctx, c, d.Profile, nil, ev)
	case policy.Ask:
		return g.askAndRun(ctx, c, Question{
			Stage:      BeforeRun,
			Action:     c.Action,
			Reason:     d.Reason,
			OnceOnly:   d.OnceOnly,
			AlwaysRule: d.AlwaysRule,
		}, d, ev)
	}
	return Outcome{}, &RefusedError{Reason: d.Reason, Hint: d.Hint}
}

// maxAsks is how often a call is asked about whose files change after each answer.
const maxAsks = 3

// askAndRun runs the call if the answer is yes. If the folder or a script file has
// changed meanwhile, it asks again.
func (g *Gate) askAndRun(
	ctx context.Context, c Call, q Question, d policy.Decision, ev *Event,
) (out Outcome, err error) {
	why := q.Reason
	for range maxAsks {
		if q.Seen, err = g.look(ctx, c, d.Profile, &q); err != nil {
			return Outcome{}, err
		}
		if err := g.ask(ctx, c, q, d, ev); err != nil {
			return Outcome{}, err
		}
		out, err = g.run(ctx, c, d.Profile, &q.Seen, ev)
		changed, ok := errors.AsType[changedError](err)
		if !ok {
			return out, err
		}
		q.Reason = why
		q.Since(changed)
	}
	return Outcome{}, &RefusedError{Reason: "what it runs has changed after each of the answers"}
}

// A changedError is the error of a call that was approved when its files were
// others. It says what has changed.
type changedError []string

func (e changedError) Error() string { return "after the answer, " + strings.Join(e, ", ") }

// look takes the snapshot that an answer is bound to. It restricts q to this call
// if not all of its files are known.
func (g *Gate) look(ctx context.Context, c Call, f policy.Profile, q *Question) (policy.Snapshot, error) {
	if g.Snapshot == nil || len(c.Action.Command) == 0 || c.Action.Server != "" {
		return policy.Snapshot{}, nil
	}
	files, all := c.Action.ScriptFiles()
	if q != nil && !all && !q.OnceOnly {
		q.OnceOnly = true
		q.Reason += ", and which files it runs is not known before"
	}
	s, err := g.Snapshot(ctx, c, f, files)
	if err != nil {
		err = fmt.Errorf("looking at the files that it runs: %w", err)
	}
	return s, err
}

// run runs the call. If what was seen when a person was asked is another now, it does
// not run; the error is a [changedError].
func (g *Gate) run(
	ctx context.Context, c Call, f policy.Profile, seen *policy.Snapshot, ev *Event,
) (Outcome, error) {
	run := g.Run
	if c.Run != nil {
		run = c.Run
	}
	if run == nil {
		return Outcome{}, &RefusedError{Reason: "nothing is there to run it"}
	}
	if seen != nil {
		now, err := g.look(ctx, c, f, nil)
		if err != nil {
			return Outcome{}, err
		}
		if changes := seen.Changes(now); len(changes) > 0 {
			return Outcome{}, changedError(changes)
		}
		ev.Profile = f.String()
		if c.Action.Server == "" {
			ev.ProfileDigest = f.Digest()
		}
	}
	began := time.Now()
	defer func() { ev.Running += time.Since(began) }()
	return run(ctx, c, f)
}

// widen asks whether a call that the sandbox denied may run outside it, and
// runs it again. Under on-request the model has to ask for that, with
// sandbox_permissions, and under never nobody is asked: the denied result is
// the answer then.
func (g *Gate) widen(ctx context.Context, c Call, d policy.Decision, out Outcome, ev *Event) (Outcome, error) {
	ev.Denied = out.Denied
	confined := d.Profile.Mode != policy.DangerFullAccess && c.Action.Server == ""
	if !c.policy.Widens() || !confined || out.Denied.Final {
		return out, nil
	}
	d.Profile = policy.NoSandbox
	d.Keys = policy.Keys(c.Action, d.Profile)
	if refused, _ := g.refused.cover(c.Caller, d.Keys, policy.Snapshot{}); refused {
		return out, nil // the same question is not asked twice
	}
	q := Question{
		Stage:  Widen,
		Action: c.Action,
		Reason: "it ran in the sandbox and was " + out.Denied.Error(),
		Denied: out.Denied,

		OnceOnly: d.OnceOnly,
	}
	wider, err := g.askAndRun(ctx, c, q, d, ev)
	if _, no := errors.AsType[*RefusedError](err); no && len(out.Result) > 0 {
		return out, nil // the result of the sandboxed run is still useful
	}
	return wider, err
}
