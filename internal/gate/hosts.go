package gate

import (
	"context"

	"toolgate/policy"
)

// AskHost asks whether the command of a call that runs may reach a host, where
// d says that a rule wants it asked, and returns the answer. Without an error
// it is a yes, which for the session covers that host, port and protocol. C is
// the call as [Gate.Run] was given it.
//
// A client whose questions end the call cannot be asked, for the command is in
// the middle of its work: then the waiting list is.
func (g *Gate) AskHost(ctx context.Context, c Call, t policy.HostTarget, d policy.HostDecision) (answer string, err error) {
	if c.policy == nil {
		return "", &RefusedError{Reason: d.Reason + ", and no policy is in force"}
	}
	asked := c.policy.Ask(policy.RuleQuestion, policy.Decision{Reason: d.Reason, Rule: d.Rule, Profile: c.policy.Profile()})
	if asked.Verdict != policy.Ask {
		return "", &RefusedError{Reason: asked.Reason}
	}
	asked.Keys = hostKeys(t)
	c.Approved = false // that was for the call, and not for any host
	if c.Rounds {
		c.Ask = nil
	}
	var ev Event
	err = g.ask(ctx, c, Question{Stage: Reach, Action: c.Action, Host: &t, Reason: d.Reason}, asked, &ev)
	return ev.Asked, err
}

func hostKeys(t policy.HostTarget) []string {
	return []string{policy.Key("host", t.Host, t.Port, t.Protocol)}
}
