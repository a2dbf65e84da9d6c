// Package gate takes a call through its life: describe, decide, ask, run, ask
// for a wider run, record. What has to be done is passed in as functions.
//
//	g := &gate.Gate{Policy: p, Run: run, Record: record}
//	out, err := g.Call(ctx, gate.Call{Action: action, Arguments: args, Ask: ask})
package gate

import (
	"context"

	"toolgate/policy"
)

// A Gate takes calls through their life. Its zero value denies every call.
// It may be used concurrently.
type Gate struct {
	Policy *policy.Policy
	Run    RunFunc
	Record func(Event) // may be nil

	// Snapshot identifies the files, and the folder of the call, as a run under
	// the profile would see them. An answer is bound to that: what has changed
	// when the run starts is asked about again. If it is nil, an answer covers
	// words only.
	Snapshot func(ctx context.Context, c Call, f policy.Profile, files []string) (policy.Snapshot, error)

	// Hooks are the user's own programs. Each may be nil. An error of any of
	// them ends the call; a *[RefusedError] gives the reason.
	//
	// Before sees the call as it was sent and may change its arguments; the
	// call is then described and decided anew. After sees the outcome of the
	// run and may change it. AskHook is called before a person is asked, and
	// reports whether it answered.
	Before  func(context.Context, *Call) error
	After   func(context.Context, Call, *Outcome) error
	AskHook func(context.Context, Call, Question) (answer Answer, answered bool, err error)

	// Queue puts a question on the approval queue and waits a while for the
	// answer. If there is none by then, its error is a *[PendingError]; a
	// retry of the same call passes once the question is approved.
	// If Queue is nil, there is no approval queue.
	Queue func(context.Context, QueuedQuestion) (Answer, error)

	// AskInParallel shows a question elsewhere while the client asks its user.
	// It returns when ctx ends or the question is answered there. If it is
	// nil, only the client asks.
	AskInParallel func(context.Context, QueuedQuestion) (Answer, error)

	// AddRule adds a line to the user's rules, for the answer [Always].
	AddRule func(ruleLine string) error

	granted sessionKeys // valid for the caller's session
	refused sessionKeys // of wider runs
}
