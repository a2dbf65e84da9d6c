package policy_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
)

// after returns what gives an answer after some time, unless ctx ends before.
func after(d time.Duration, a policy.Answer, err error) func(context.Context) (policy.Answer, error) {
	return func(ctx context.Context) (policy.Answer, error) {
		select {
		case <-time.After(d):
			return a, err
		case <-ctx.Done():
			return policy.No, ctx.Err()
		}
	}
}

func TestTheFirstAnswerHolds(t *testing.T) {
	const second = time.Second
	never := after(1000*time.Hour, policy.No, nil)
	for _, tt := range []struct {
		name          string
		client, there func(context.Context) (policy.Answer, error)
		rounds        bool
		ran           bool
		by            string
		shown         bool // elsewhere
		took          time.Duration
	}{
		{name: "yes elsewhere", client: never, there: after(second, policy.Once, nil), ran: true, by: "waiting list", shown: true, took: second + 250*time.Millisecond},
		{name: "no elsewhere", client: never, there: after(second, policy.No, nil), by: "waiting list", shown: true, took: second + 250*time.Millisecond},
		{name: "yes from the client", client: after(second, policy.Once, nil), there: never, ran: true, by: "client", shown: true, took: second},
		{name: "no from the client", client: after(second, policy.No, nil), there: never, by: "client", shown: true, took: second},
		{name: "the client fails", client: after(second, policy.Once, errors.New("gone")), there: never, by: "nobody", shown: true, took: second},
		{name: "it cannot be shown elsewhere", client: after(second, policy.Once, nil), there: after(0, policy.Once, errors.New("full")), ran: true, by: "client", shown: true, took: second},
		{name: "the client is quick", client: after(100*time.Millisecond, policy.Once, nil), there: never, ran: true, by: "client", took: 100 * time.Millisecond},
		{name: "the answer comes with a retry", client: after(second, policy.Once, nil), there: never, rounds: true, ran: true, by: "client", took: second},
		{name: "yes and no at once", client: after(second, policy.Once, nil), there: after(750*time.Millisecond, policy.No, nil), by: "waiting list", shown: true, took: second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(policy.OnRequest, policy.WorkspaceWrite)
				shown := false
				h.gate.Beside = func(ctx context.Context, w policy.Waiting) (policy.Answer, error) {
					shown = true
					require.Equal(t, "shell", w.Question.Action.Tool)
					return tt.there(ctx)
				}
				c := escalated(func(ctx context.Context, _ policy.Question) (policy.Answer, error) {
					if tt.name == "yes and no at once" { // a client that does not hear that it need not ask
						ctx = context.WithoutCancel(ctx)
					}
					return tt.client(ctx)
				})
				c.Rounds = tt.rounds
				began := time.Now()
				_, err := h.gate.Call(t.Context(), c)
				require.Equal(t, tt.ran, err == nil, "%v", err)
				require.Equal(t, tt.ran, len(h.ran) == 1)
				require.Equal(t, tt.took, time.Since(began))
				require.Equal(t, tt.shown, shown)
				require.Equal(t, tt.by, h.events[0].AnsweredBy)
			})
		})
	}
}
