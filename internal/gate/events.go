package gate

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"toolgate/policy"
)

// An Event is the record of one call, whatever its outcome.
type Event struct {
	Time        time.Time       `json:"time"`
	ID          string          `json:"id"`
	Caller      string          `json:"caller,omitempty"`
	Agent       string          `json:"agent,omitempty"`       // the client program
	TraceParent string          `json:"traceparent,omitempty"` // W3C trace context of the client
	Server      string          `json:"server,omitempty"`
	Tool        string          `json:"tool"`
	Args        json.RawMessage `json:"arguments,omitempty"` // as sent
	Rewritten   json.RawMessage `json:"rewritten,omitempty"` // as run, if a hook changed them
	Action      policy.Action   `json:"action"`

	Verdict    string    `json:"verdict"`
	Rule       string    `json:"rule,omitempty"` // the rule that decided
	Reason     string    `json:"reason,omitempty"`
	Asked      string    `json:"asked,omitempty"`       // the answer, "" if nobody was asked
	AnsweredBy string    `json:"answered_by,omitempty"` // [Call.AskedVia], "waiting list", "hook", "memory", "nobody"
	AnsweredAt time.Time `json:"answered_at,omitzero"`

	// Profile is the permission profile or sandbox mode of the last run, and
	// ProfileDigest identifies its exact paths and hosts.
	Profile       string `json:"profile,omitempty"`
	ProfileDigest string `json:"profile_digest,omitempty"`

	Level  string           `json:"level,omitempty"` // sandbox level of the last run
	Denied *policy.Denial   `json:"denied,omitempty"`
	Hosts  []policy.HostUse `json:"hosts,omitempty"` // hosts that the proxy connected or refused during the run

	SandboxNotes []string `json:"sandbox_notes,omitempty"` // [Outcome.Notes]

	// Outcome is "ok", "tool-error", "refused", "cancelled",
	// "failed" or "invalid".
	Outcome  string        `json:"outcome"`
	Error    string        `json:"error,omitempty"`
	Duration time.Duration `json:"duration_ns"`
	Waited   time.Duration `json:"waited_ns,omitempty"` // part of Duration spent waiting for an answer
	Running  time.Duration `json:"run_ns,omitempty"`    // part of Duration spent running
	Bytes    int           `json:"bytes"`               // size of the result
}

// newEvent returns the event of a call that has not been decided yet.
func newEvent(c Call) Event {
	return Event{
		Time:        time.Now(),
		ID:          c.ID,
		Caller:      c.Caller,
		Agent:       c.Agent,
		TraceParent: c.traceParent(),
		Server:      c.Action.Server,
		Tool:        c.Action.Tool,
		Args:        c.Arguments,
		Action:      c.Action,
		Verdict:     policy.Deny.String(),
	}
}

func (ev *Event) answered(answer, by string) {
	ev.Asked, ev.AnsweredBy, ev.AnsweredAt = answer, by, time.Now()
}

// Invalid records a call that was not run because its arguments are invalid.
func (g *Gate) Invalid(c Call, why error) {
	if g.Record == nil {
		return
	}
	ev := newEvent(c)
	ev.TraceParent, ev.Outcome, ev.Error = "", "invalid", why.Error()
	g.Record(ev)
}

func (g *Gate) record(ev Event, c Call, out Outcome, err error) {
	if g.Record == nil {
		return
	}
	ev.Duration = time.Since(ev.Time)
	ev.Bytes = len(out.Result)
	ev.Level = out.Level
	ev.Hosts, ev.SandboxNotes = out.Hosts, out.Notes
	switch {
	case err == nil && out.IsError:
		ev.Outcome = "tool-error"
	case err == nil:
		ev.Outcome = "ok"
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
