package gate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"toolgate/policy"
)

// An Answer is a person's answer to a [Question]. What is not one of these
// values counts as no.
type Answer string

const (
	No      Answer = "no"
	Once    Answer = "once"    // this call
	Session Answer = "session" // this call, and until the session ends what [Question.Grants] says
	Always  Answer = "always"  // this call, and from now on whatever the offered rule covers
)

// A Stage is the point of a call's life at which a person is asked.
type Stage string

const (
	BeforeRun Stage = "before-run"
	Widen     Stage = "widen" // the sandbox denied a run
	Reach     Stage = "reach" // a running command wants to connect to a host
)

// A Question is what a person is asked about one call.
type Question struct {
	Stage      Stage
	Action     policy.Action
	Reason     string             // why the person is asked
	OnceOnly   bool               // an answer for the session is not offered
	Grants     string             // what else an answer for the session covers, in words
	AlwaysRule string             // the rule line that "always" adds, "" if that is not offered
	Denied     *policy.Denial     // what the sandbox refused, at the stage Widen
	Host       *policy.HostTarget // the host to connect to, at the stage Reach

	// Seen is what the answer is bound to besides the words of the call.
	Seen policy.Snapshot
}

// Folder returns the folder of the call, and where it leads if it is a symlink.
func (q *Question) Folder() string {
	if q.Seen.Real != "" {
		return q.Action.Dir + ", which is " + q.Seen.Real
	}
	return q.Action.Dir
}

// Since adds to the reason what has changed since the call was asked about last.
func (q *Question) Since(changes []string) {
	why := "; since it was last asked about, " + strings.Join(changes, ", ")
	q.Reason = strings.TrimSuffix(q.Reason, why) + why
}

// An AskFunc asks a person and returns the answer. An error means that nobody
// answered and counts as no.
type AskFunc func(context.Context, Question) (Answer, error)

// ErrCannotAsk is wrapped by the error of an [AskFunc] that has no way to reach
// a person. The question then goes to the approval queue.
var ErrCannotAsk = errors.New("no way to ask the user")

// ErrAutoDeclined is wrapped together with [ErrCannotAsk] if the client declined
// without showing the question. The question then goes to the approval queue,
// and the call does not wait: nobody is at that client.
var ErrAutoDeclined = errors.New("the client said no by itself")

// A QueuedQuestion is a question for the approval queue.
type QueuedQuestion struct {
	// Binding is a digest of all that an answer covers: the caller, the tool,
	// its exact arguments, the stage and the policy, but not [Question.Seen].
	Binding string

	Caller    string
	Agent     string // the client program
	Workspace string
	Rule      string         // the rule that asks
	Profile   policy.Profile // the profile of the run after a yes
	Question  Question
	NoWait    bool // return at once if it is not answered yet
}

// A PendingError is the error for a queued question without an answer yet.
type PendingError struct{ ID string }

func (e *PendingError) Error() string { return "it waits for approval as " + e.ID }

// ask returns nil if the question is answered with yes: from memory, by the
// hook, or by a person.
func (g *Gate) ask(ctx context.Context, c Call, q Question, d policy.Decision, ev *Event) error {
	if !q.OnceOnly {
		covered, changes := g.granted.cover(c.Caller, d.Keys, q.Seen)
		if covered {
			ev.answered("remembered", "memory")
			return nil
		}
		if len(changes) > 0 {
			q.Since(changes)
		}
	}
	if c.Action.Unasked {
		why := q.Reason + ", and nobody is asked about " + c.Action.Tool
		return &RefusedError{Reason: why, Hint: d.Hint, cause: ErrUnasked}
	}
	if answered, err := g.askHook(ctx, c, q, ev); answered || err != nil {
		return err
	}
	if q.Grants == "" && !q.OnceOnly {
		q.Grants = policy.Grants(c.Action, d.Profile)
	}
	asked := time.Now()
	answer, err := g.askPerson(ctx, c, q, d, ev)
	ev.Waited += time.Since(asked)
	if pending, ok := errors.AsType[*PendingError](err); ok {
		ev.answered("nobody", "nobody")
		command := "toolgate approvals approve " + pending.ID
		return &RefusedError{
			Reason: q.Reason + ", and " + pending.Error(),
			Hint:   fmt.Sprintf("tell the user to run `%s`, then send the same call again", command),
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

// askPerson asks through the client, or if that is not possible, through the
// approval queue.
func (g *Gate) askPerson(ctx context.Context, c Call, q Question, d policy.Decision, ev *Event) (Answer, error) {
	queued := QueuedQuestion{
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
		answer, by, err = g.askClient(ctx, c, q, queued)
	}
	if g.Queue != nil && errors.Is(err, ErrCannotAsk) {
		queued.NoWait = errors.Is(err, ErrAutoDeclined)
		by = viaQueue
		answer, err = g.Queue(ctx, queued)
	}
	if err == nil {
		ev.answered(string(answer), by)
	}
	return answer, err
}

// apply carries out the answer, and returns a *[RefusedError] for a no.
func (g *Gate) apply(answer Answer, c Call, q Question, d policy.Decision, ev *Event) error {
	switch {
	case answer == Once:
		return nil
	case answer == Session && !q.OnceOnly:
		g.granted.add(c.Caller, d.Keys, q.Seen)
		return nil
	case answer == Always && q.AlwaysRule != "" && g.AddRule != nil:
		if err := g.AddRule(q.AlwaysRule); err != nil {
			ev.Error = "the rule could not be kept: " + err.Error()
		}
		g.granted.add(c.Caller, d.Keys, q.Seen)
		return nil
	}
	if q.Stage == Widen {
		g.refused.add(c.Caller, d.Keys, policy.Snapshot{})
	}
	return &RefusedError{
		Reason: "the user said no",
		Hint:   "do not try it again in another way; go on without it or ask the user",
	}
}

// binding returns [QueuedQuestion.Binding].
func (g *Gate) binding(c Call, q Question) string {
	h := sha256.New()
	parts := []any{c.Caller, c.Action.Server, c.Action.Tool, c.Action.Dir, q.Stage, c.policy.CurrentVersion()}
	if q.Host != nil {
		parts = append(parts, q.Host)
	}
	b, _ := json.Marshal(parts) // strings and a HostTarget always marshal
	h.Write(b)
	h.Write(c.Arguments)
	return hex.EncodeToString(h.Sum(nil))
}

// askHook asks the hook, before a person is asked.
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
	if answer != Once { // a program answers for this call only
		return true, &RefusedError{Reason: "a hook said no", Hint: "do not try it again in another way"}
	}
	return true, nil
}

// AskHost asks whether the command of a running call may connect to a host that
// d says to ask about, and returns the answer. If err is nil the answer is yes;
// for the session it covers the host, port and protocol. C is the call as it
// was passed to [Gate.Run].
//
// A stateless client is not asked: it may never come back, and the command holds up
// others while it waits. The question goes to the approval queue.
func (g *Gate) AskHost(
	ctx context.Context, c Call, t policy.HostTarget, d policy.HostDecision,
) (answer string, err error) {
	if c.policy == nil {
		return "", &RefusedError{Reason: d.Reason + ", and no policy is in force"}
	}
	asked := c.policy.Ask(policy.RuleQuestion, policy.Decision{
		Reason:  d.Reason,
		Rule:    d.Rule,
		Profile: c.policy.Profile(),
	})
	if asked.Verdict != policy.Ask {
		return "", &RefusedError{Reason: asked.Reason}
	}
	asked.Keys = []string{policy.Key("host", t.Host, t.Port, t.Protocol)}
	if c.Stateless {
		c.Ask = nil
	}
	var ev Event
	err = g.ask(ctx, c, Question{
		Stage:  Reach,
		Action: c.Action,
		Host:   &t,
		Reason: d.Reason,
		Grants: fmt.Sprintf("any command that connects to %s, %s, port %d", t.Host, t.Protocol, t.Port),
	}, asked, &ev)
	return ev.Asked, err
}

// parallelAfter is how long a question waits for the client before it is also
// shown elsewhere.
const parallelAfter = 250 * time.Millisecond

// viaQueue is the [Event.AnsweredBy] of answers from the approval queue.
const viaQueue = "waiting list"

// askClient asks through the client and, if [Gate.AskInParallel] is set,
// elsewhere at the same time. The first answer counts; if both arrive at once,
// a no wins. It also returns who answered.
func (g *Gate) askClient(
	ctx context.Context, c Call, q Question, queued QueuedQuestion,
) (answer Answer, by string, err error) {
	client := cmp.Or(c.AskedVia, "client")
	if g.AskInParallel == nil || c.AskedVia == "terminal" {
		answer, err = c.Ask(ctx, q)
		return answer, client, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var (
		both      sync.WaitGroup
		elsewhere Answer
		answered  bool
	)
	both.Go(func() { // ends with ctx
		select {
		case <-time.After(parallelAfter):
		case <-ctx.Done():
			return
		}
		if a, err := g.AskInParallel(ctx, queued); err == nil {
			elsewhere, answered = a, true
			stop() // the client need not ask any longer
		}
	})
	answer, err = c.Ask(ctx, q)
	stop()
	both.Wait()
	if answered && (err != nil || elsewhere == No) {
		return elsewhere, viaQueue, nil
	}
	return answer, client, err
}
