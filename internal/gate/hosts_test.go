package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/gate"
	"toolgate/internal/testkit"
	"toolgate/policy"
)

var askedHost = policy.HostTarget{Host: "api.example", Port: 443, Protocol: policy.ProtocolHTTPS}

// A hostCall is a call whose command wants to reach a host.
type hostCall struct {
	gate *gate.Gate
	call gate.Call
}

func newHostCall(p *policy.Policy) *hostCall {
	h := &hostCall{gate: &gate.Gate{Policy: p}}
	h.call = gate.Call{Caller: "c", Action: policy.Action{Tool: "shell", Command: []string{"fetch"}}, Arguments: json.RawMessage(`{}`)}
	return h
}

// ask runs the call, asks about the host in the middle of it, and returns what
// that gave.
func (h *hostCall) ask(t *testing.T) (answer string, err error) {
	t.Helper()
	h.gate.Run = func(ctx context.Context, c gate.Call, f policy.Profile) (gate.Outcome, error) {
		answer, err = h.gate.AskHost(ctx, c, askedHost, policy.HostDecision{Verdict: policy.Ask, Reason: "a rule asks first"})
		return gate.Outcome{Result: json.RawMessage(`{}`)}, nil
	}
	_, callErr := h.gate.Call(t.Context(), h.call)
	require.NoError(t, callErr)
	return answer, err
}

// answers answers with a, and counts.
func (h *hostCall) answers(t *testing.T, a gate.Answer, n *int) {
	h.call.Ask = func(_ context.Context, q gate.Question) (gate.Answer, error) {
		*n++
		require.Equal(t, gate.Reach, q.Stage)
		require.Equal(t, &askedHost, q.Host)
		require.Equal(t, "a rule asks first", q.Reason)
		require.Empty(t, q.AlwaysRule, "the rule would still ask")
		return a, nil
	}
}

func TestAskHost(t *testing.T) {
	for _, tt := range []struct {
		answer gate.Answer
		yes    bool
		again  int // questions for the same once more
	}{
		{gate.Once, true, 2}, {gate.Session, true, 1}, {gate.No, false, 2}, {gate.Always, false, 2}, {"perhaps", false, 2},
	} {
		t.Run(string(tt.answer), func(t *testing.T) {
			h := newHostCall(testkit.Policy(policy.OnRequest, policy.WorkspaceWrite))
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
	granular := testkit.Policy(policy.Granular, policy.WorkspaceWrite)
	for name, p := range map[string]*policy.Policy{"never": testkit.Policy(policy.Never, policy.WorkspaceWrite), "granular without rules": granular} {
		h, n := newHostCall(p), 0
		h.answers(t, gate.Once, &n)
		_, err := h.ask(t)
		_, ok := errors.AsType[*gate.RefusedError](err)
		require.True(t, ok, "%s: %v", name, err)
		require.Zero(t, n, name)
	}
	granular.Granular.Rules = true
	h, n := newHostCall(granular), 0
	h.answers(t, gate.Once, &n)
	_, err := h.ask(t)
	require.NoError(t, err)
	require.Equal(t, 1, n)

	// A call that no gate leads has no policy.
	_, err = h.gate.AskHost(t.Context(), gate.Call{}, askedHost, policy.HostDecision{})
	require.ErrorContains(t, err, "no policy is in force")
}

// A client that cannot be asked about a host: the question is queued, under a
// binding of its own.
func TestAskHostLater(t *testing.T) {
	h := newHostCall(testkit.Policy(policy.OnRequest, policy.WorkspaceWrite))
	h.call.Ask = func(context.Context, gate.Question) (gate.Answer, error) { return gate.No, gate.ErrCannotAsk }
	var bindings []string
	h.gate.Queue = func(_ context.Context, w gate.QueuedQuestion) (gate.Answer, error) {
		bindings = append(bindings, w.Binding)
		return gate.No, &gate.PendingError{ID: "abc"}
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
		h := newFixture(policy.Untrusted, policy.WorkspaceWrite)
		h.gate.Run = func(_ context.Context, _ gate.Call, f policy.Profile) (gate.Outcome, error) {
			h.ran = append(h.ran, f.Mode)
			out := gate.Outcome{Result: json.RawMessage(`{}`)}
			if f.Mode != policy.DangerFullAccess {
				out.Denied = &policy.Denial{Op: "network", Path: "api.example", Final: final}
			}
			return out, nil
		}
		_, err := h.gate.Call(t.Context(), gate.Call{Caller: "c", Ask: says(gate.Once, gate.Once), Action: policy.Action{Tool: "shell", Command: []string{"make"}}})
		require.NoError(t, err)
		require.Len(t, h.ran, runs)
	}
}
