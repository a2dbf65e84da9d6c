package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
)

var askedHost = policy.HostTarget{Host: "api.example", Port: 443, Protocol: policy.ProtocolHTTPS}

// A hostCall is a call whose command wants to reach a host.
type hostCall struct {
	gate *policy.Gate
	call policy.Call
}

func newHostCall(p *policy.Policy) *hostCall {
	h := &hostCall{gate: &policy.Gate{Policy: p}}
	h.call = policy.Call{Caller: "c", Action: policy.Action{Tool: "shell", Command: []string{"fetch"}}, Arguments: json.RawMessage(`{}`)}
	return h
}

// ask runs the call, asks about the host in the middle of it, and returns what
// that gave.
func (h *hostCall) ask(t *testing.T) (answer string, err error) {
	t.Helper()
	h.gate.Run = func(ctx context.Context, c policy.Call, f policy.Profile) (policy.Outcome, error) {
		answer, err = h.gate.AskHost(ctx, c, askedHost, policy.HostDecision{Verdict: policy.Ask, Reason: "a rule asks first"})
		return policy.Outcome{Result: json.RawMessage(`{}`)}, nil
	}
	_, callErr := h.gate.Call(t.Context(), h.call)
	require.NoError(t, callErr)
	return answer, err
}

// answers answers with a, and counts.
func (h *hostCall) answers(t *testing.T, a policy.Answer, n *int) {
	h.call.Ask = func(_ context.Context, q policy.Question) (policy.Answer, error) {
		*n++
		require.Equal(t, policy.Reach, q.Stage)
		require.Equal(t, &askedHost, q.Host)
		require.Equal(t, "a rule asks first", q.Reason)
		require.Empty(t, q.Always, "the rule would still ask")
		return a, nil
	}
}

func TestAskHost(t *testing.T) {
	for _, tt := range []struct {
		answer policy.Answer
		yes    bool
		again  int // questions for the same once more
	}{
		{policy.Once, true, 2}, {policy.Session, true, 1}, {policy.No, false, 2}, {policy.Always, false, 2}, {"perhaps", false, 2},
	} {
		t.Run(string(tt.answer), func(t *testing.T) {
			h := newHostCall(workspace(policy.OnRequest, policy.WorkspaceWrite))
			n := 0
			h.answers(t, tt.answer, &n)
			for range 2 {
				answer, err := h.ask(t)
				require.Equal(t, tt.yes, err == nil, "%v", err)
				require.NotEmpty(t, answer)
			}
			require.Equal(t, tt.again, n)
		})
	}
}

func TestAskHostWhereNobodyIsAsked(t *testing.T) {
	granular := workspace(policy.Granular, policy.WorkspaceWrite)
	for name, p := range map[string]*policy.Policy{"never": workspace(policy.Never, policy.WorkspaceWrite), "granular without rules": granular} {
		h, n := newHostCall(p), 0
		h.answers(t, policy.Once, &n)
		_, err := h.ask(t)
		_, ok := errors.AsType[*policy.Refused](err)
		require.True(t, ok, "%s: %v", name, err)
		require.Zero(t, n, name)
	}
	granular.Granular.Rules = true
	h, n := newHostCall(granular), 0
	h.answers(t, policy.Once, &n)
	_, err := h.ask(t)
	require.NoError(t, err)
	require.Equal(t, 1, n)

	// A call that no gate leads has no policy.
	_, err = h.gate.AskHost(t.Context(), policy.Call{}, askedHost, policy.HostDecision{})
	require.ErrorContains(t, err, "no policy is in force")
}

// A yes to the call, and a client whose questions would end it, are no yes to
// a host: the question goes on the waiting list, under its own name.
func TestAskHostLater(t *testing.T) {
	h := newHostCall(workspace(policy.OnRequest, policy.WorkspaceWrite))
	h.call.Approved, h.call.Rounds = true, true
	h.call.Ask = func(context.Context, policy.Question) (policy.Answer, error) {
		t.Error("it is in the middle of its work")
		return policy.Once, nil
	}
	var bindings []string
	h.gate.Later = func(_ context.Context, w policy.Waiting) (policy.Answer, error) {
		bindings = append(bindings, w.Binding)
		return policy.No, &policy.StillWaiting{ID: "abc"}
	}
	_, err := h.ask(t)
	require.ErrorContains(t, err, "approve abc")
	old := askedHost
	askedHost.Host = "other.example"
	defer func() { askedHost = old }()
	_, err = h.ask(t)
	require.Error(t, err)
	require.Len(t, bindings, 2)
	require.NotEqual(t, bindings[0], bindings[1], "an answer holds for its host")
}

// What the user has refused is not asked for a second time, as a wider run.
func TestFinalDenialIsNotWidened(t *testing.T) {
	for final, runs := range map[bool]int{false: 2, true: 1} {
		h := newHouse(policy.Untrusted, policy.WorkspaceWrite)
		h.gate.Run = func(_ context.Context, _ policy.Call, f policy.Profile) (policy.Outcome, error) {
			h.ran = append(h.ran, f.Mode)
			out := policy.Outcome{Result: json.RawMessage(`{}`)}
			if f.Mode != policy.DangerFullAccess {
				out.Denied = &policy.Denial{Op: "network", Path: "api.example", Final: final}
			}
			return out, nil
		}
		_, err := h.gate.Call(t.Context(), policy.Call{Caller: "c", Ask: says(policy.Once, policy.Once), Action: policy.Action{Tool: "shell", Command: []string{"make"}}})
		require.NoError(t, err)
		require.Len(t, h.ran, runs)
	}
}
