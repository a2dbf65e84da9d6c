package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/quick"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/gate"
	"toolgate/internal/testkit"
	"toolgate/policy"
)

// A fixture is a gate with what it is given: a backend that notes what it ran,
// and a record.
type fixture struct {
	gate   *gate.Gate
	ran    []policy.Mode // profile of each run
	events []gate.Event
	denies bool // the sandbox denies what runs inside it
}

func newFixture(a policy.Approval, m policy.Mode) *fixture {
	h := &fixture{}
	h.gate = &gate.Gate{
		Policy: testkit.Policy(a, m),
		Run: func(_ context.Context, _ gate.Call, f policy.Profile) (gate.Outcome, error) {
			h.ran = append(h.ran, f.Mode)
			out := gate.Outcome{Result: json.RawMessage(`{}`), Level: "full"}
			if h.denies && f.Mode != policy.DangerFullAccess {
				out.Denied = &policy.Denial{Op: "write", Path: "/etc/x"}
			}
			return out, nil
		},
		Record: func(e gate.Event) { h.events = append(h.events, e) },
	}
	return h
}

// says returns an AskFunc that gives the answers in turn.
func says(answers ...gate.Answer) gate.AskFunc {
	return func(context.Context, gate.Question) (gate.Answer, error) {
		if len(answers) == 0 {
			return gate.No, errors.New("asked too often")
		}
		a := answers[0]
		answers = answers[1:]
		return a, nil
	}
}

func escalated(ask gate.AskFunc) gate.Call {
	return gate.Call{ID: "1", Caller: "c", Ask: ask, Action: policy.Action{Tool: "shell", Command: []string{"make"}, Permissions: policy.RequireEscalated}}
}

func TestGateRunsOnlyAfterAYes(t *testing.T) {
	fails := func(context.Context, gate.Question) (gate.Answer, error) {
		return gate.Once, errors.New("no screen")
	}
	for _, tt := range []struct {
		name string
		ask  gate.AskFunc
		runs int
		want string // error
	}{
		{"once", says(gate.Once), 1, ""},
		{"session", says(gate.Session), 1, ""},
		{"no", says(gate.No), 0, "denied: the user said no; do not try it again in another way; go on without it or ask the user"},
		{"the zero answer", says(""), 0, "denied: the user said no; do not try it again in another way; go on without it or ask the user"},
		{"an unknown answer", says("always"), 0, "denied: the user said no; do not try it again in another way; go on without it or ask the user"},
		{"nobody", nil, 0, "denied: it asks to run outside the sandbox, and nobody could be asked; resend it without sandbox_permissions to run it in the sandbox"},
		{"an error beside a yes", fails, 0, "denied: it asks to run outside the sandbox, and nobody could be asked (no screen); resend it without sandbox_permissions to run it in the sandbox"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture(policy.OnRequest, policy.WorkspaceWrite)
			_, err := h.gate.Call(t.Context(), escalated(tt.ask))
			require.Len(t, h.ran, tt.runs)
			require.Len(t, h.events, 1)
			if tt.want == "" {
				require.NoError(t, err)
				require.Equal(t, []policy.Mode{policy.DangerFullAccess}, h.ran)
				require.Equal(t, "ok", h.events[0].Outcome)
				return
			}
			require.EqualError(t, err, tt.want)
			require.Equal(t, "refused", h.events[0].Outcome)
		})
	}
}

func TestGateRemembersForTheSessionAndTheCaller(t *testing.T) {
	h := newFixture(policy.OnRequest, policy.WorkspaceWrite)
	_, err := h.gate.Call(t.Context(), escalated(says(gate.Session)))
	require.NoError(t, err)
	_, err = h.gate.Call(t.Context(), escalated(nil))
	require.NoError(t, err, "remembered")

	other := escalated(nil)
	other.Caller = "d"
	_, err = h.gate.Call(t.Context(), other)
	require.Error(t, err, "another caller was not asked")

	more := escalated(nil)
	more.Action.Command = []string{"make", "-j"}
	_, err = h.gate.Call(t.Context(), more)
	require.Error(t, err, "another command was not asked about")
}

// TestAnAnswerIsBoundToWhatRuns: what a person said yes to has changed when the
// run would start, or when the same call comes again.
func TestAnAnswerIsBoundToWhatRuns(t *testing.T) {
	script := "/home/u/app/x.sh"
	run := func(ask gate.AskFunc) gate.Call {
		return gate.Call{ID: "1", Caller: "c", Ask: ask, Action: policy.Action{
			Tool: "shell", Command: []string{"bash", "x.sh"}, Permissions: policy.RequireEscalated,
		}}
	}
	now := policy.Snapshot{Dir: "1:1", Files: map[string]string{script: "one"}}
	change := func() { now.Files = map[string]string{script: now.Files[script] + "+"} }
	fixed := func() *fixture {
		h := newFixture(policy.OnRequest, policy.WorkspaceWrite)
		h.gate.Snapshot = func(_ context.Context, c gate.Call, f policy.Profile, files []string) (policy.Snapshot, error) {
			require.Equal(t, policy.DangerFullAccess, f.Mode, "as the run would see them")
			require.Equal(t, []string{script}, files)
			return now, nil
		}
		return h
	}

	t.Run("while it is asked about", func(t *testing.T) {
		h := fixed()
		var reasons []string
		_, err := h.gate.Call(t.Context(), run(func(_ context.Context, q gate.Question) (gate.Answer, error) {
			reasons = append(reasons, q.Reason)
			require.Equal(t, []string{script}, q.Seen.Existing())
			if len(reasons) == 1 {
				change()
			}
			return gate.Session, nil
		}))
		require.NoError(t, err)
		require.Equal(t, []string{
			"it asks to run outside the sandbox",
			"it asks to run outside the sandbox; since it was last asked about, " + script + " has changed",
		}, reasons)
		require.Len(t, h.ran, 1)
	})
	t.Run("after each answer", func(t *testing.T) {
		h := fixed()
		_, err := h.gate.Call(t.Context(), run(func(context.Context, gate.Question) (gate.Answer, error) {
			change()
			return gate.Once, nil
		}))
		require.EqualError(t, err, "denied: what it runs has changed after each of the answers")
		require.Empty(t, h.ran)
	})
	t.Run("for the session", func(t *testing.T) {
		h := fixed()
		for range 2 {
			_, err := h.gate.Call(t.Context(), run(says(gate.Session)))
			require.NoError(t, err)
			_, err = h.gate.Call(t.Context(), run(nil))
			require.NoError(t, err, "it is as it was")
			now.Dir += "1"
			_, err = h.gate.Call(t.Context(), run(nil))
			require.ErrorContains(t, err, "since it was last asked about, the folder is another one")
		}
	})
	t.Run("not all of it is known", func(t *testing.T) {
		h := fixed()
		c := run(func(_ context.Context, q gate.Question) (gate.Answer, error) {
			require.True(t, q.OnceOnly)
			require.Contains(t, q.Reason, ", and which files it runs is not known before")
			return gate.Once, nil
		})
		c.Action.Command = []string{"bash", "-c", `bash x.sh; bash "$y"`}
		_, err := h.gate.Call(t.Context(), c)
		require.NoError(t, err)
	})
}

func TestGateDoesNotRememberOnce(t *testing.T) {
	h := newFixture(policy.OnRequest, policy.WorkspaceWrite)
	_, err := h.gate.Call(t.Context(), escalated(says(gate.Once)))
	require.NoError(t, err)
	_, err = h.gate.Call(t.Context(), escalated(nil))
	require.Error(t, err)
}

func TestGateAfterADenial(t *testing.T) {
	command := func(ask gate.AskFunc) gate.Call {
		return gate.Call{Caller: "c", Ask: ask, Action: policy.Action{Tool: "shell", Command: []string{"make"}}}
	}
	for _, tt := range []struct {
		name     string
		approval policy.Approval
		ask      gate.AskFunc
		ran      []policy.Mode
	}{
		{"on-request leaves it to the model", policy.OnRequest, says(gate.Once), []policy.Mode{policy.WorkspaceWrite}},
		{"never asks nobody", policy.Never, says(gate.Once), []policy.Mode{policy.WorkspaceWrite}},
		{"untrusted, yes twice", policy.Untrusted, says(gate.Once, gate.Once), []policy.Mode{policy.WorkspaceWrite, policy.DangerFullAccess}},
		{"untrusted, yes and no", policy.Untrusted, says(gate.Once, gate.No), []policy.Mode{policy.WorkspaceWrite}},
		{"untrusted, nobody for the second", policy.Untrusted, says(gate.Once), []policy.Mode{policy.WorkspaceWrite}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture(tt.approval, policy.WorkspaceWrite)
			h.denies = true
			out, err := h.gate.Call(t.Context(), command(tt.ask))
			require.NoError(t, err, "what the sandboxed run gave is the answer")
			require.NotEmpty(t, out.Result)
			require.Equal(t, tt.ran, h.ran)
			require.Len(t, h.events, 1)
			require.NotNil(t, h.events[0].Denied)
		})
	}
}

func TestGateRecordsAPanicAndGoesOn(t *testing.T) {
	h := newFixture(policy.OnRequest, policy.WorkspaceWrite)
	h.gate.Run = func(context.Context, gate.Call, policy.Profile) (gate.Outcome, error) { panic("oh") }
	c := gate.Call{Action: policy.Action{Tool: "shell", Command: []string{"make"}}}
	for range 2 {
		_, err := h.gate.Call(t.Context(), c)
		require.ErrorContains(t, err, "oh")
	}
	require.Len(t, h.events, 2)
	require.Equal(t, "failed", h.events[0].Outcome)
}

func TestZeroGateDenies(t *testing.T) {
	var g gate.Gate
	_, err := g.Call(t.Context(), gate.Call{Ask: says(gate.Once), Action: policy.Action{Tool: "read_file", ReadOnly: true}})
	_, refused := errors.AsType[*gate.RefusedError](err)
	require.True(t, refused, "%v", err)
}

func TestCallsRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate.Gate{Policy: testkit.Policy(policy.Never, policy.WorkspaceWrite)}
		g.Run = func(context.Context, gate.Call, policy.Profile) (gate.Outcome, error) {
			<-time.After(time.Second)
			return gate.Outcome{}, nil
		}
		began := time.Now()
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() {
				_, err := g.Call(t.Context(), gate.Call{Action: policy.Action{Tool: "x", ReadOnly: i < 10, Command: []string{"c"}}})
				require.NoError(t, err)
			})
		}
		calls.Wait()
		require.Equal(t, time.Second, time.Since(began))
	})
}

// TestNothingChangesWithoutAnAllowOrAYes is the gate's promise over random
// policies, calls and answers; and one event for each call.
func TestNothingChangesWithoutAnAllowOrAYes(t *testing.T) {
	check := func(approval, mode, answer1, answer2 uint8, esc, write, readOnly, confines, denies bool) bool {
		p := testkit.Policy(policy.Approval(approval%3), policy.Mode(mode%3))
		if !confines {
			p.Confines = nil
		}
		answers := []gate.Answer{gate.No, gate.Once, gate.Session, "nonsense"}
		yeses := 0
		n := 0
		ask := func(context.Context, gate.Question) (gate.Answer, error) {
			a := answers[[]uint8{answer1, answer2}[min(n, 1)]%4]
			n++
			if a == gate.Once || a == gate.Session {
				yeses++
			}
			return a, nil
		}
		a := policy.Action{Tool: "x", Command: []string{"c"}, ReadOnly: readOnly}
		if esc {
			a.Permissions = policy.RequireEscalated
		}
		if write {
			a.Writes = []string{"/etc/passwd"}
		}
		var runs []policy.Profile
		events := 0
		g := &gate.Gate{Policy: p, Record: func(gate.Event) { events++ }, Run: func(_ context.Context, _ gate.Call, f policy.Profile) (gate.Outcome, error) {
			runs = append(runs, f)
			out := gate.Outcome{Result: json.RawMessage(`{}`)}
			if denies && f.Mode != policy.DangerFullAccess {
				out.Denied = &policy.Denial{Op: "write"}
			}
			return out, nil
		}}
		verdict := p.Decide(a.In(p.Workspace)).Verdict
		_, err := g.Call(t.Context(), gate.Call{Action: a, Ask: ask})
		for i, f := range runs {
			wider := f.Mode == policy.DangerFullAccess && p.Mode != policy.DangerFullAccess
			if i == 0 && verdict != policy.Allow && yeses == 0 {
				return false
			}
			if wider && yeses == 0 && !(readOnly && !confines) {
				return false
			}
		}
		if verdict == policy.Deny && (len(runs) > 0 || err == nil || n > 0) {
			return false
		}
		return events == 1 && len(runs) <= 2
	}
	require.NoError(t, quick.Check(check, &quick.Config{MaxCount: 20000}))
}

func ExampleGate() {
	g := &gate.Gate{
		Policy: &policy.Policy{Approval: policy.Never, Mode: policy.ReadOnly, Workspace: "/w", Confines: func() bool { return true }},
		Run: func(_ context.Context, c gate.Call, f policy.Profile) (gate.Outcome, error) {
			return gate.Outcome{Result: json.RawMessage(fmt.Sprintf("%q", c.Action.Tool+" ran "+f.Mode.String()))}, nil
		},
	}
	out, err := g.Call(context.Background(), gate.Call{Action: policy.Action{Tool: "shell", Command: []string{"make"}}})
	fmt.Println(string(out.Result), err)
	_, err = g.Call(context.Background(), gate.Call{Action: policy.Action{Tool: "apply_patch", Writes: []string{"a.txt"}}})
	fmt.Println(err)
	// Output:
	// "shell ran read-only" <nil>
	// denied: it would write /w/a.txt, which the sandbox keeps read-only: the sandbox mode is read-only, and the approval policy is never; nothing may be written in this sandbox mode
}

func BenchmarkDecide(b *testing.B) {
	b.ReportAllocs()
	p := testkit.Policy(policy.OnRequest, policy.WorkspaceWrite)
	a := policy.Action{Tool: "shell", Command: []string{"bash", "-c", "make test"}}.In(p.Workspace)
	for b.Loop() {
		p.Decide(a)
	}
}

func TestACallIsHeldToItsLimit(t *testing.T) {
	h := newFixture(policy.Never, policy.DangerFullAccess)
	c := gate.Call{Limit: &policy.Limit{}, Action: policy.Action{Tool: "shell", Command: []string{"make"}}}
	_, err := h.gate.Call(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, []policy.Mode{policy.ReadOnly}, h.ran)

	c.Limit = &policy.Limit{All: true, Unknown: "deny by pattern"}
	_, err = h.gate.Call(t.Context(), c)
	require.EqualError(t, err, "denied: the client's own sandbox asks for what cannot be held here: deny by pattern")
}
