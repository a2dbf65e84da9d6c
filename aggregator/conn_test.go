package aggregator_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
)

// TestAServerThatDoesNotRead: calls can be cancelled all the same, and the
// server gets every line in order once it reads.
func TestAServerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		conn := aggregator.NewStdioLink(inR, outW)
		var cancels []context.CancelFunc
		ended := make(chan error, 10)
		for n := 1; n <= 3; n++ {
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			go func() { // ends when ctx does
				_, err := conn.Call(ctx, fmt.Sprint("m", n))
				ended <- err
			}()
			synctest.Wait()
		}
		for _, cancel := range cancels[:2] {
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
		}
		lines := bufio.NewScanner(outR)
		for _, want := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"m1","params":{}}`,
			`{"jsonrpc":"2.0","id":2,"method":"m2","params":{}}`,
			`{"jsonrpc":"2.0","id":3,"method":"m3","params":{}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"context canceled","requestId":1}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"context canceled","requestId":2}}`,
		} {
			require.True(t, lines.Scan())
			require.Equal(t, want, lines.Text())
		}
		fmt.Fprintln(inW, `{"jsonrpc":"2.0","id":3,"result":{"n":3}}`)
		require.NoError(t, <-ended)
		cancels[2]()

		for range 2 { // the first of them is being written, the second is queued
			go func() { // ends with the connection
				_, err := conn.Call(t.Context(), "late")
				ended <- err
			}()
		}
		synctest.Wait()
		conn.Close(errors.New("over"))
		outR.Close()
		for range 2 {
			err := <-ended
			require.ErrorIs(t, err, aggregator.ErrClosed)
			require.ErrorIs(t, err, aggregator.ErrNotSent, "it may be sent again elsewhere")
		}
		inW.Close()
		<-conn.Done()
	})
}
