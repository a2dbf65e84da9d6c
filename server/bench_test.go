package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"toolgate/aggregator"
	"toolgate/internal/gate"
	"toolgate/policy"
	"toolgate/server"
)

// BenchmarkProxiedCall is a call from the client's line to its answer, through
// both protocol ends, the gate and a downstream server that answers at once;
// without processes, so that it tells what our own work costs.
func BenchmarkProxiedCall(b *testing.B) {
	set := aggregator.NewDownstreams(aggregator.DownstreamOptions{StateDir: b.TempDir()})
	defer set.Close()
	set.Update([]aggregator.Spec{{
		Name:     "raw",
		Approval: func(string) policy.ToolApproval { return policy.ApproveAlways },
		Launch: func() (*aggregator.Process, error) {
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			done := make(chan struct{})
			go func() { // ends with its input
				defer close(done)
				defer outW.Close()
				write := func(format string, args ...any) { fmt.Fprintf(outW, format+"\n", args...) }
				for s := bufio.NewScanner(inR); s.Scan(); {
					var m line
					json.Unmarshal(s.Bytes(), &m)
					if !legacyBack(write, m) && m.Method == "tools/call" {
						write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"ok"}]}}`, m.ID)
					}
				}
			}()
			return &aggregator.Process{In: inW, Out: outR, Wait: func() error { <-done; return nil }, Kill: inR.Close}, nil
		},
		StartupTimeout: 10 * time.Second,
	}})
	set.WaitListed(context.Background(), false)
	g := &gate.Gate{Policy: &policy.Policy{Approval: policy.OnRequest, Workspace: "/w"}, Run: set.Run}
	s := server.New(server.Options{Version: "1", Downstreams: set, Gate: g})
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go s.ServeStdio(context.Background(), inR, outW) // ends with its input
	defer inW.Close()
	out := bufio.NewReader(outR)
	call := func(id int, method, params string) {
		fmt.Fprintf(inW, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
		for {
			text, err := out.ReadString('\n')
			if err != nil {
				b.Fatal(err)
			}
			var m line
			if json.Unmarshal([]byte(text), &m); m.Method == "" {
				return
			}
		}
	}
	call(-1, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	fmt.Fprintln(inW, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	id := 0
	b.ReportAllocs()
	for b.Loop() {
		id++
		call(id, "tools/call", `{"name":"mcp__raw__do_it","arguments":{}}`)
	}
}
