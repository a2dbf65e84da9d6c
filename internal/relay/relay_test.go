package relay_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"toolgate/internal/relay"
)

// TestStartReturnsWhenTheWorkWaits: and Resume when it has ended, having done
// the rest of it.
func TestStartReturnsWhenTheWorkWaits(t *testing.T) {
	var team relay.Team
	defer team.Close()
	var log []string
	var work *relay.Work
	note := func(s string) { log = append(log, s) }
	team.Start(t.Context(), func(ctx context.Context) {
		work = relay.Of(ctx)
		note("begins")
		work.Wait()
		note("goes on")
		work.Wait()
		note("ends")
	})
	note("started")
	work.Resume()
	note("resumed")
	work.Resume()
	note("resumed again")
	require.Equal(t, []string{"begins", "started", "goes on", "resumed", "ends", "resumed again"}, log)
}

// TestWorkThatIsResumedEarlyDoesNotWait: what it is to wait for may come
// before it does.
func TestWorkThatIsResumedEarlyDoesNotWait(t *testing.T) {
	var team relay.Team
	defer team.Close()
	ended := false
	team.Start(t.Context(), func(ctx context.Context) {
		w := relay.Of(ctx)
		for range 3 {
			w.Resume()
			w.Wait()
		}
		ended = true
	})
	require.True(t, ended)
}

// TestWorkThatLeavesHoldsUpNobody: from then on it may block, and is no work
// of the relay any more.
func TestWorkThatLeavesHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var team relay.Team
		defer team.Close()
		block, ended := make(chan struct{}), make(chan struct{})
		team.Start(t.Context(), func(ctx context.Context) {
			w := relay.Of(ctx)
			w.Resume()
			w.Wait()
			relay.Leave(ctx)
			relay.Leave(ctx) // once is enough
			require.Nil(t, relay.Of(ctx))
			<-block
			close(ended)
		})
		close(block)
		<-ended
		synctest.Wait()
	})
}

// TestWithoutARelay: what calls these need not know whether there is one.
func TestWithoutARelay(t *testing.T) {
	require.Nil(t, relay.Of(t.Context()))
	relay.Leave(t.Context())
}

// TestManyWorksAreResumedAsTheyBegin: the news of each comes from a goroutine
// that may be faster than the work, or slower.
func TestManyWorksAreResumedAsTheyBegin(t *testing.T) {
	var team relay.Team
	var all sync.WaitGroup
	const works, waits = 500, 5
	var done sync.WaitGroup
	done.Add(works)
	for range works {
		all.Go(func() {
			team.Start(t.Context(), func(ctx context.Context) {
				defer done.Done()
				w := relay.Of(ctx)
				for n := range waits {
					all.Go(w.Resume)
					w.Wait()
					if n == waits-1 {
						relay.Leave(ctx)
					}
				}
			})
		})
	}
	done.Wait()
	all.Wait()
	team.Close()
}

// TestCloseLeavesNothing: the bubble would not end otherwise.
func TestCloseLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var team relay.Team
		var waiting []*relay.Work
		for range 10 {
			team.Start(t.Context(), func(ctx context.Context) {
				w := relay.Of(ctx)
				waiting = append(waiting, w)
				w.Wait()
			})
		}
		for _, w := range waiting[5:] {
			w.Resume()
		}
		team.Close()
		for _, w := range waiting[:5] {
			w.Resume()
		}
	})
}

// BenchmarkHandOver is a wait and what ends it, beside the same over a channel
// to a goroutine.
func BenchmarkHandOver(b *testing.B) {
	b.Run("relay", func(b *testing.B) {
		var team relay.Team
		defer team.Close()
		b.ReportAllocs()
		for b.Loop() {
			var w *relay.Work
			team.Start(b.Context(), func(ctx context.Context) {
				w = relay.Of(ctx)
				w.Wait()
			})
			w.Resume()
		}
	})
	b.Run("goroutine", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			news, done := make(chan int, 1), make(chan int)
			go func() {
				<-news
				close(done)
			}()
			news <- 1
			<-done
		}
	})
}
