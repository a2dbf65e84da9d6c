package aggregator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
)

// TestClocksShareATimer: each rings at its own time, whenever the others do.
func TestClocksShareATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a aggregator.Alarms
		began := time.Now()
		rang := make(chan time.Duration, 10)
		start := func(d time.Duration) *aggregator.Clock {
			return a.Start(d, func() { rang <- time.Since(began) })
		}
		long := start(time.Minute)
		start(10 * time.Second)
		stopped := start(5 * time.Second)
		restarted := start(20 * time.Second)
		held := start(15 * time.Second)

		stopped.Stop()
		held.Hold()
		held.Hold()
		require.Equal(t, 10*time.Second, <-rang)
		<-time.After(5 * time.Second)
		restarted.Restart() // at 15 s
		require.Equal(t, 35*time.Second, <-rang)
		held.Resume()
		<-time.After(5 * time.Second)
		held.Resume() // at 40 s
		held.Restart()
		require.Equal(t, 55*time.Second, <-rang)
		require.Equal(t, 60*time.Second, <-rang)
		long.Stop()
		long.Restart() // what has rung or is stopped stays so
		stopped.Restart()
		start(time.Second)
		require.Equal(t, 61*time.Second, <-rang)
		<-time.After(time.Hour)
		require.Empty(t, rang)
	})
}
