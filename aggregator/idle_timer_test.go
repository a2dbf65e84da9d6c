package aggregator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
)

func TestIdleTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		expired := make(chan time.Duration, 10)
		start := func(d time.Duration) *aggregator.IdleTimer {
			return aggregator.NewIdleTimer(d, func() { expired <- time.Since(began) })
		}
		long := start(time.Minute)
		start(10 * time.Second)
		stopped := start(5 * time.Second)
		restarted := start(20 * time.Second)
		held := start(15 * time.Second)

		stopped.Stop()
		held.Hold()
		held.Hold()
		require.Equal(t, 10*time.Second, <-expired)
		<-time.After(5 * time.Second)
		restarted.Restart() // at 15 s
		require.Equal(t, 35*time.Second, <-expired)
		held.Resume()
		<-time.After(5 * time.Second)
		held.Resume() // at 40 s
		held.Restart()
		require.Equal(t, 55*time.Second, <-expired)
		require.Equal(t, 60*time.Second, <-expired)
		long.Stop()
		long.Restart() // no effect after it has expired or was stopped
		stopped.Restart()
		start(time.Second)
		require.Equal(t, 61*time.Second, <-expired)
		<-time.After(time.Hour)
		require.Empty(t, expired)
	})
}
