package aggregator_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/internal/relay"
	"toolgate/internal/stdio"
)

// TestACallThatBlocksHoldsUpNoOther: the first call, which the goroutine that
// reads goes on with, waits for the last without having left the relay.
func TestACallThatBlocksHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		go func() { // ends with outW
			lines := bufio.NewScanner(outR)
			for lines.Scan() {
				var m message
				json.Unmarshal(lines.Bytes(), &m)
				fmt.Fprintf(inW, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, m.Params)
			}
			inW.Close()
		}()
		conn := aggregator.NewConn(inR, outW, stdio.Limits{}, nil)
		var team relay.Team
		last := make(chan struct{})
		var all sync.WaitGroup
		const calls = 10
		for i := range calls {
			all.Add(1)
			team.Start(t.Context(), func(ctx context.Context) {
				defer all.Done()
				params := json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
				got, err := conn.Call(ctx, "echo", params)
				require.NoError(t, err)
				if i == calls-1 {
					close(last)
				}
				<-last
				require.Equal(t, string(params), string(got))
			})
		}
		all.Wait()
		team.Close()
		outW.Close()
		<-conn.Done()
	})
}
