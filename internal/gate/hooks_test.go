package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/gate"
	"toolgate/policy"
)

// rewrites returns a Before that puts args in place of what was sent.
func rewrites(args string) func(context.Context, *gate.Call) error {
	return func(_ context.Context, c *gate.Call) error {
		c.Arguments = json.RawMessage(args)
		return nil
	}
}

func TestWhatAHookRewritesIsDescribedAnewOrRefused(t *testing.T) {
	describe := func(a policy.Action, err error) func(json.RawMessage) (policy.Action, error) {
		return func(json.RawMessage) (policy.Action, error) { return a, err }
	}
	for _, tt := range []struct {
		name     string
		describe func(json.RawMessage) (policy.Action, error)
		want     string
	}{
		{"described", describe(policy.Action{Tool: "shell", Command: []string{"make"}}, nil), ""},
		{"into what is refused", describe(policy.Action{Tool: "shell", Writes: []string{"/etc/x"}}, nil), "it would write /etc/x"},
		{"no description", nil, "cannot be described anew"},
		{"a failed description", describe(policy.Action{}, errors.New("no such argument")), "no such argument"},
		{"another tool", describe(policy.Action{Tool: "apply_patch"}, nil), "another tool"},
		{"another server", describe(policy.Action{Tool: "shell", Server: "s"}, nil), "another tool"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture(policy.Never, policy.WorkspaceWrite)
			h.gate.Before = rewrites(`{"b":1}`)
			_, err := h.gate.Call(t.Context(), gate.Call{Action: policy.Action{Tool: "shell", Command: []string{"make"}}, Arguments: json.RawMessage(`{"a":1}`), Describe: tt.describe})
			require.Len(t, h.events, 1)
			require.Equal(t, `{"a":1}`, string(h.events[0].Args))
			if tt.want == "" {
				require.NoError(t, err)
				require.Len(t, h.ran, 1)
				return
			}
			_, refused := errors.AsType[*gate.RefusedError](err)
			require.True(t, refused)
			require.ErrorContains(t, err, tt.want)
			require.Empty(t, h.ran)
		})
	}
}

func TestAHookThatPanicsOrErrsRunsNothing(t *testing.T) {
	for name, hook := range map[string]func(context.Context, *gate.Call) error{
		"panics": func(context.Context, *gate.Call) error { panic("oh") },
		"errs":   func(context.Context, *gate.Call) error { return errors.New("oh") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(policy.Never, policy.DangerFullAccess)
			h.gate.Before = hook
			_, err := h.gate.Call(t.Context(), gate.Call{Action: policy.Action{Tool: "shell", Command: []string{"make"}}})
			require.ErrorContains(t, err, "oh")
			require.Empty(t, h.ran)
			require.Len(t, h.events, 1)
			require.Equal(t, "deny", h.events[0].Verdict)
			require.Equal(t, "failed", h.events[0].Outcome)
		})
	}
}

func TestOnlyAYesOfTheAskHookIsOne(t *testing.T) {
	for _, tt := range []struct {
		name     string
		answer   gate.Answer
		answered bool
		err      error
		ran      int
	}{
		{"once", gate.Once, true, nil, 1},
		{"once, and not answered", gate.Once, false, nil, 0},
		{"session is not for a program to say", gate.Session, true, nil, 0},
		{"always neither", gate.Always, true, nil, 0},
		{"no", gate.No, true, nil, 0},
		{"zero", "", true, nil, 0},
		{"yes with an error", gate.Once, true, errors.New("oh"), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture(policy.OnRequest, policy.WorkspaceWrite)
			h.gate.AskHook = func(context.Context, gate.Call, gate.Question) (gate.Answer, bool, error) {
				return tt.answer, tt.answered, tt.err
			}
			_, err := h.gate.Call(t.Context(), escalated(nil))
			require.Len(t, h.ran, tt.ran)
			require.Equal(t, tt.ran == 0, err != nil)
		})
	}
}

func TestProfileDigest(t *testing.T) {
	a := policy.Profile{Mode: policy.WorkspaceWrite, WritableRoots: []string{"/w"}}
	b := a
	require.Equal(t, a.Digest(), b.Digest())
	b.WritableRoots = []string{"/w", "/x"}
	require.NotEqual(t, a.Digest(), b.Digest())
}

func TestACallThatCannotBeDescribedIsRecorded(t *testing.T) {
	h := newFixture(policy.Never, policy.ReadOnly)
	h.gate.Invalid(gate.Call{ID: "1", Action: policy.Action{Tool: "shell"}}, errors.New("unknown argument"))
	require.Len(t, h.events, 1)
	require.Equal(t, "invalid", h.events[0].Outcome)
	require.Equal(t, "unknown argument", h.events[0].Error)
	(&gate.Gate{}).Invalid(gate.Call{}, errors.New("x"))
}
