package approvals_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"toolgate/internal/approvals"
	"toolgate/internal/gate"
	"toolgate/policy"
)

func open(t *testing.T) *approvals.Queue {
	t.Helper()
	l, err := approvals.Open(t.TempDir())
	require.NoError(t, err)
	l.Format = func(q gate.Question) string { return "may " + q.Action.Tool + " run?" }
	return l
}

func question(binding string) gate.QueuedQuestion {
	return gate.QueuedQuestion{Binding: binding, Caller: "c", Question: gate.Question{Action: policy.Action{Tool: "shell"}, AlwaysRule: "rule"}}
}

func TestAnAnswerWhileItWaits(t *testing.T) {
	l := open(t)
	synctest.Test(t, func(t *testing.T) {
		got := make(chan gate.Answer)
		go func() {
			a, err := l.Ask(t.Context(), question("b"))
			require.NoError(t, err)
			got <- a
		}()
		synctest.Wait()
		waiting, err := l.Waiting()
		require.NoError(t, err)
		require.Len(t, waiting, 1)
		require.Equal(t, "may shell run?", waiting[0].Message)
		_, err = l.Decide(waiting[0].ID, gate.Session)
		require.NoError(t, err)
		require.Equal(t, gate.Session, <-got)
		waiting, err = l.Waiting()
		require.NoError(t, err)
		require.Empty(t, waiting)
	})
}

func TestAnAnswerForTheNextTime(t *testing.T) {
	l := open(t)
	l.Wait = -1
	_, err := l.Ask(t.Context(), question("b"))
	still, ok := errors.AsType[*gate.PendingError](err)
	require.True(t, ok, "%v", err)
	_, err = l.Ask(t.Context(), question("b"))
	again, ok := errors.AsType[*gate.PendingError](err)
	require.True(t, ok)
	require.Equal(t, still.ID, again.ID, "the same question is asked once")

	_, err = l.Decide(still.ID[:4], gate.Once)
	require.NoError(t, err)
	_, err = l.Ask(t.Context(), question("other arguments"))
	require.Error(t, err, "an answer holds for its binding")
	a, err := l.Ask(t.Context(), question("b"))
	require.NoError(t, err)
	require.Equal(t, gate.Once, a)
	_, err = l.Ask(t.Context(), question("b"))
	require.Error(t, err, "and once")
}

func TestWhatIsNotOfferedCannotBeAnswered(t *testing.T) {
	l := open(t)
	l.Wait = -1
	w := question("b")
	w.Question.OnceOnly, w.Question.AlwaysRule = true, ""
	_, err := l.Ask(t.Context(), w)
	still, ok := errors.AsType[*gate.PendingError](err)
	require.True(t, ok)
	for _, a := range []gate.Answer{gate.Always, gate.Session, "", "yes"} {
		_, err := l.Decide(still.ID, a)
		require.Error(t, err, "%q", a)
	}
	_, err = l.Decide("zzz", gate.Once)
	require.ErrorIs(t, err, approvals.ErrUnknown)
	_, err = l.Decide("", gate.Once)
	require.ErrorIs(t, err, approvals.ErrUnknown)
}

// An answer is about the files as they were.
func TestAnAnswerIsForTheFilesAsTheyWere(t *testing.T) {
	l := open(t)
	l.Wait = -1
	l.Format = func(q gate.Question) string { return q.Reason }
	ask := func(content string) error {
		q := question("b")
		q.Question.Reason = "why"
		q.Question.Seen.Files = map[string]string{"/x.sh": content}
		_, err := l.Ask(t.Context(), q)
		return err
	}
	pending, ok := errors.AsType[*gate.PendingError](ask("one"))
	require.True(t, ok)
	_, err := l.Decide(pending.ID, gate.Once)
	require.NoError(t, err)
	again, ok := errors.AsType[*gate.PendingError](ask("two"))
	require.True(t, ok)
	require.NotEqual(t, pending.ID, again.ID)
	waiting, err := l.Waiting()
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	require.Equal(t, "why; since it was last asked about, /x.sh has changed", waiting[0].Message)
	_, err = l.Decide(again.ID, gate.Once)
	require.NoError(t, err)
	require.NoError(t, ask("two"))
}

// A caller that fills its share of the queue leaves the others theirs.
func TestEachCallerHasAShareOfTheQueue(t *testing.T) {
	l := open(t)
	l.Wait = -1
	ask := func(caller string, n int) error {
		q := question(fmt.Sprint(caller, n))
		q.Caller = caller
		_, err := l.Ask(t.Context(), q)
		return err
	}
	for n := range approvals.MaxPerCaller {
		_, ok := errors.AsType[*gate.PendingError](ask("greedy", n))
		require.True(t, ok, n)
	}
	require.ErrorContains(t, ask("greedy", -1), "50 questions of this caller")
	_, again := errors.AsType[*gate.PendingError](ask("greedy", 0))
	require.True(t, again, "what waits already still waits")
	_, ok := errors.AsType[*gate.PendingError](ask("modest", 0))
	require.True(t, ok)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q := question("b")
	q.Caller = "greedy"
	_, err := l.AskInParallel(ctx, q)
	require.ErrorContains(t, err, "50 questions of this caller")
	q.Caller = "modest"
	_, err = l.AskInParallel(ctx, q)
	require.ErrorIs(t, err, context.Canceled)
}

// When all callers together have too many, those with the most make room.
func TestTheFullQueueIsShared(t *testing.T) {
	l := open(t)
	l.Wait = -1
	ask := func(caller, binding string) error {
		q := question(binding)
		q.Caller = caller
		_, err := l.Ask(t.Context(), q)
		return err
	}
	for n := range approvals.MaxPending {
		_, ok := errors.AsType[*gate.PendingError](ask(fmt.Sprint(n/approvals.MaxPerCaller), fmt.Sprint(n)))
		require.True(t, ok, n)
	}
	_, ok := errors.AsType[*gate.PendingError](ask("late", "late"))
	require.True(t, ok)
	waiting, err := l.Waiting()
	require.NoError(t, err)
	require.Len(t, waiting, approvals.MaxPending)
	require.Equal(t, "late", waiting[len(waiting)-1].Caller)
}

func TestQuestionsAndAnswersExpire(t *testing.T) {
	l := open(t)
	l.Wait = -1
	synctest.Test(t, func(t *testing.T) {
		_, err := l.Ask(t.Context(), question("b"))
		still, ok := errors.AsType[*gate.PendingError](err)
		require.True(t, ok)
		_, err = l.Decide(still.ID, gate.Once)
		require.NoError(t, err)
		<-time.After(approvals.Lifetime + time.Second)
		_, err = l.Ask(t.Context(), question("b"))
		require.Error(t, err, "the answer is too old")
	})
}

func TestACallerThatGoesAwayWaitsNoLonger(t *testing.T) {
	l := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Ask(ctx, question("b"))
	require.ErrorIs(t, err, context.Canceled)
}

func TestTheListIsItsOwnersAlone(t *testing.T) {
	dir := t.TempDir() + "/list"
	_, err := approvals.Open(dir)
	require.NoError(t, err)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// Of two answers the first holds, whoever gives them and however they meet.
func TestTheFirstAnswerHolds(t *testing.T) {
	l := open(t)
	l.Wait = -1
	_, err := l.Ask(t.Context(), question("b"))
	still, ok := errors.AsType[*gate.PendingError](err)
	require.True(t, ok, "%v", err)
	answers := []gate.Answer{gate.Once, gate.No, gate.Session, gate.No, gate.Once, gate.Session}
	won := make(chan gate.Answer, len(answers))
	var all sync.WaitGroup
	for _, a := range answers {
		all.Go(func() {
			_, err := l.Decide(still.ID, a)
			if err == nil {
				won <- a
				return
			}
			if !errors.Is(err, approvals.ErrAnswered) {
				require.ErrorIs(t, err, approvals.ErrUnknown)
			}
		})
	}
	all.Wait()
	require.Len(t, won, 1)
	a, err := l.Ask(t.Context(), question("b"))
	require.NoError(t, err)
	require.Equal(t, <-won, a)
	_, err = l.Ask(t.Context(), question("b"))
	_, ok = errors.AsType[*gate.PendingError](err)
	require.True(t, ok, "an answer is spent once: %v", err)
}

func TestTheListSaysWhatItIsAbout(t *testing.T) {
	l := open(t)
	synctest.Test(t, func(t *testing.T) {
		w := question("b")
		w.Agent, w.Workspace, w.Rule = "some client", "/ws", "default.rules:3"
		w.Profile = policy.Profile{Mode: policy.WorkspaceWrite, WritableRoots: []string{"/ws"}}
		w.Question.Action.Command, w.Question.Reason = []string{"rm", "-rf", "x"}, "it destroys"
		w.Question.Action.Preview = strings.Repeat("é", 200_000)
		done := make(chan struct{})
		go func() {
			l.Ask(t.Context(), w)
			close(done)
		}()
		synctest.Wait()
		waiting, err := l.Waiting()
		require.NoError(t, err)
		require.Len(t, waiting, 1)
		e := waiting[0]
		require.Equal(t, e.Asked.Add(20*time.Second).UnixMilli(), e.Held.UnixMilli())
		require.Equal(t, "some client", e.About.Agent)
		require.Equal(t, []string{"rm", "-rf", "x"}, e.About.Command)
		require.Equal(t, "workspace-write", e.About.Mode)
		require.Equal(t, "none", e.About.Network)
		require.Equal(t, "default.rules:3", e.About.Rule)
		require.True(t, utf8.ValidString(e.About.Preview))
		require.Equal(t, 400_000, len(e.About.Preview)-len("\n…\n")+e.About.Cut)
		<-done
		waiting, err = l.Waiting()
		require.NoError(t, err)
		require.Zero(t, waiting[0].Held, "nothing waits for it any more")
	})
}

// A question beside the client's own is on the list while that is open, and
// its answer is nobody else's.
func TestBeside(t *testing.T) {
	l := open(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := l.AskInParallel(ctx, question("b"))
			ended <- err
		}()
		synctest.Wait()
		waiting, err := l.Waiting()
		require.NoError(t, err)
		require.Len(t, waiting, 1)
		require.True(t, waiting[0].About.Parallel)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		_, err = l.Decide(waiting[0].ID, gate.Once)
		require.ErrorIs(t, err, approvals.ErrUnknown, "it is off the list")

		got := make(chan gate.Answer, 1)
		go func() {
			a, err := l.AskInParallel(t.Context(), question("b"))
			require.NoError(t, err)
			got <- a
		}()
		synctest.Wait()
		waiting, err = l.Waiting()
		require.NoError(t, err)
		_, err = l.Decide(waiting[0].ID, gate.Once)
		require.NoError(t, err)
		require.Equal(t, gate.Once, <-got)
		later := question("b")
		later.NoWait = true
		_, err = l.Ask(t.Context(), later)
		_, ok := errors.AsType[*gate.PendingError](err)
		require.True(t, ok, "the answer was for that call alone: %v", err)
	})
}
