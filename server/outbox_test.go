package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
)

// TestAClientThatDoesNotReadItsProgress: the server behind can go on meanwhile,
// and the client gets all of it in order, before the answer.
func TestAClientThatDoesNotReadItsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const times = 50
		written := make(chan struct{})
		s, set := newServer(t, policy.ApproveAlways, func(write func(string, ...any), m line) {
			if legacyBack(write, m) || m.Method != "tools/call" {
				return
			}
			var p struct {
				Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
			}
			json.Unmarshal(m.Params, &p)
			for n := range times {
				write(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, p.Meta.ProgressToken, n)
				write(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":%d}}`, n)
			}
			write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
			close(written)
		})
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		ended := make(chan struct{})
		go func() { // ends with inW
			defer close(ended)
			s.ServeStdio(context.Background(), inR, outW)
		}()
		out := bufio.NewScanner(outR)
		next := func() (m line) {
			require.True(t, out.Scan())
			require.NoError(t, json.Unmarshal(out.Bytes(), &m))
			return m
		}
		fmt.Fprintln(inW, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
		next()
		fmt.Fprintln(inW, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		<-time.After(time.Second)
		fmt.Fprintln(inW, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__raw__do_it","_meta":{"progressToken":"p"}}}`)
		<-written
		progress, messages := 0, 0
		for {
			m := next()
			switch m.Method {
			case "notifications/progress":
				require.Equal(t, fmt.Sprintf(`{"progressToken":"p","progress":%d}`, progress), string(m.Params))
				progress++
				continue
			case "notifications/message":
				require.Equal(t, fmt.Sprintf(`{"level":"error","data":%d}`, messages), string(m.Params))
				messages++
				continue
			}
			require.Equal(t, "1", string(m.ID))
			break
		}
		require.Equal(t, []int{times, times}, []int{progress, messages})
		inW.Close()
		<-ended
		set.Close()
	})
}
