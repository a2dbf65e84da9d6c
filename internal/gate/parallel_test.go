package gate_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/gate"
	"toolgate/policy"
)

// after returns what gives an answer after some time, unless ctx ends before.
func after(d time.Duration, a gate.Answer, err error) func(context.Context) (gate.Answer, error) {
	return func(ctx context.Context) (gate.Answer, error) {
		select {
		case <-time.After(d):
			return a, err
		case <-ctx.Done():
			return gate.No, ctx.Err()
		}
	}
}

func TestTheFirstAnswerHolds(t *testing.T) {
	const second = time.Second
	never := after(1000*time.Hour, gate.No, nil)
	for _, tt := range []struct {
		name          string
		client, there func(context.Context) (gate.Answer, error)
		ran           bool
		by            string
		shown         bool // elsewhere
		took          time.Duration
	}{
		{name: "yes elsewhere", client: never, there: after(second, gate.Once, nil), ran: true, by: "waiting list", shown: true, took: second + 250*time.Millisecond},
		{name: "no elsewhere", client: never, there: after(second, gate.No, nil), by: "waiting list", shown: true, took: second + 250*time.Millisecond},
		{name: "yes from the client", client: after(second, gate.Once, nil), there: never, ran: true, by: "client", shown: true, took: second},
		{name: "no from the client", client: after(second, gate.No, nil), there: never, by: "client", shown: true, took: second},
		{name: "the client fails", client: after(second, gate.Once, errors.New("gone")), there: never, by: "nobody", shown: true, took: second},
		{name: "it cannot be shown elsewhere", client: after(second, gate.Once, nil), there: after(0, gate.Once, errors.New("full")), ran: true, by: "client", shown: true, took: second},
		{name: "the client is quick", client: after(100*time.Millisecond, gate.Once, nil), there: never, ran: true, by: "client", took: 100 * time.Millisecond},
		{name: "yes and no at once", client: after(second, gate.Once, nil), there: after(750*time.Millisecond, gate.No, nil), by: "waiting list", shown: true, took: second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFixture(policy.OnRequest, policy.WorkspaceWrite)
				shown := false
				h.gate.AskInParallel = func(ctx context.Context, w gate.QueuedQuestion) (gate.Answer, error) {
					shown = true
					require.Equal(t, "shell", w.Question.Action.Tool)
					return tt.there(ctx)
				}
				c := escalated(func(ctx context.Context, _ gate.Question) (gate.Answer, error) {
					if tt.name == "yes and no at once" { // a client that does not hear that it need not ask
						ctx = context.WithoutCancel(ctx)
					}
					return tt.client(ctx)
				})
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
