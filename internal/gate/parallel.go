package gate

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// parallelAfter is how long a client has to answer by itself before its user is
// shown the question elsewhere, too.
const parallelAfter = 250 * time.Millisecond

// askClient asks through the client, and where [Gate.AskInParallel] is set, elsewhere
// at the same time. The first answer holds; of two at once, a no. It also
// returns who gave the answer.
func (g *Gate) askClient(ctx context.Context, c Call, q Question, w QueuedQuestion) (Answer, string, error) {
	client := cmp.Or(c.AskedVia, "client")
	if g.AskInParallel == nil || c.Rounds || c.AskedVia == "terminal" {
		answer, err := c.Ask(ctx, q)
		return answer, client, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var (
		both  sync.WaitGroup
		there Answer
		given bool
	)
	both.Go(func() { // ends with ctx
		select {
		case <-time.After(parallelAfter):
		case <-ctx.Done():
			return
		}
		if a, err := g.AskInParallel(ctx, w); err == nil {
			there, given = a, true
			stop() // the client need not ask any longer
		}
	})
	answer, err := c.Ask(ctx, q)
	stop()
	both.Wait()
	if given && (err != nil || there == No) {
		return there, "waiting list", nil
	}
	return answer, client, err
}
