package relay_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/relay"
)

// TestBatonIsPassedOn has a loop whose turns wait for turns behind them, or for
// a second: all are begun all the same, in their order, each by one goroutine.
func TestBatonIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var baton relay.Baton
		const turns = 100
		var order []int
		next, ended, runs := 0, 0, 0
		last := make(chan struct{})
		var loop func()
		loop = func() {
			runs++ // by one goroutine at a time, or the race detector says so
			for {
				n := next
				if n == turns {
					close(last)
					return
				}
				next++
				order = append(order, n)
				turn := baton.Begin(loop)
				switch n % 10 {
				case 3:
					<-last
				case 7:
					<-time.After(time.Second)
				}
				if !baton.End(turn) {
					return
				}
				ended++
			}
		}
		loop()
		<-last
		<-time.After(2 * time.Second) // until those that were held up are through
		for i, n := range order {
			require.Equal(t, i, n)
		}
		require.Len(t, order, turns)
		require.Equal(t, 1+2*turns/10, runs, "it is passed on when a turn is held up, and only then")
		require.Equal(t, turns-2*turns/10, ended, "who was held up no longer has it")
	})
}

// TestBatonIsNotPassedOnWithoutEnd: where everything blocks, what is read would
// pile up. The loop goes on as soon as something ends.
func TestBatonIsNotPassedOnWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var baton relay.Baton
		block := make(chan bool)
		var begun atomic.Int32
		var loop func()
		loop = func() {
			for begun.Load() < 1000 {
				begun.Add(1)
				turn := baton.Begin(loop)
				<-block
				if !baton.End(turn) {
					return
				}
			}
		}
		go loop() // ends with the last turn
		<-time.After(time.Minute)
		require.EqualValues(t, 65, begun.Load())
		for range 5 {
			block <- true
		}
		<-time.After(time.Minute)
		require.EqualValues(t, 70, begun.Load())
		close(block)
		<-time.After(time.Minute)
		require.EqualValues(t, 1000, begun.Load())
	})
}

// TestBatonStaysWithWhoIsQuick however long the loop runs.
func TestBatonStaysWithWhoIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var baton relay.Baton
		passed := false
		for i := range 10_000 {
			turn := baton.Begin(func() { passed = true })
			if i%100 == 0 {
				<-time.After(time.Millisecond) // within the turn, and not too long
			}
			require.True(t, baton.End(turn))
			if i%1000 == 0 {
				<-time.After(time.Second) // between turns
			}
		}
		<-time.After(time.Second)
		require.False(t, passed)
	})
}

func BenchmarkBaton(b *testing.B) {
	b.ReportAllocs()
	var baton relay.Baton
	goOn := func() {}
	for b.Loop() {
		baton.End(baton.Begin(goOn))
	}
}
