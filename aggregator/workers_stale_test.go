package aggregator_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/internal/gate"
	"toolgate/policy"
	"toolgate/sandbox"
)

// A launcher starts workers that answer each call with their number. A call of "open"
// opens or continues a session.
type launcher struct {
	mu     sync.Mutex
	rescan func(worker int) error
	ends   map[int]chan struct{}
	count  atomic.Int32
	hold   chan struct{} // a call of "slow" waits for it
	begun  chan struct{} // receives when such a call has begun
}

func (n *launcher) launch(policy.Profile) (*aggregator.Process, error) {
	number := int(n.count.Add(1))
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan struct{})
	n.mu.Lock()
	n.ends[number] = ended
	n.mu.Unlock()
	go func() {
		defer close(ended)
		defer outW.Close()
		var writing sync.Mutex
		for lines := bufio.NewScanner(inR); lines.Scan(); {
			var m struct {
				ID     json.RawMessage
				Method string
				Params struct{ Name string }
			}
			if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
				continue
			}
			go func() {
				meta := ""
				switch m.Params.Name {
				case "open":
					meta = fmt.Sprintf(`"_meta":{%q:"7"},`, policy.SessionKey)
				case "slow":
					n.begun <- struct{}{}
					<-n.hold
				}
				writing.Lock()
				defer writing.Unlock()
				fmt.Fprintf(outW, `{"jsonrpc":"2.0","id":%s,"result":{%s"content":[{"type":"text","text":"worker %d"}]}}`+"\n", m.ID, meta, number)
			}()
		}
	}()
	return &aggregator.Process{
		In: inW, Out: outR, Level: "bwrap",
		Wait:   func() error { <-ended; return nil },
		Kill:   func() error { return inW.Close() },
		Rescan: func() error { n.mu.Lock(); defer n.mu.Unlock(); return n.rescan(number) },
	}, nil
}

func (n *launcher) setRescan(f func(int) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rescan = f
}

func newLauncher(t *testing.T) (*launcher, *aggregator.Workers) {
	n := &launcher{ends: map[int]chan struct{}{}, hold: make(chan struct{}), begun: make(chan struct{}, 1)}
	n.setRescan(func(int) error { return nil })
	w := aggregator.NewWorkers(n.launch, slog.New(slog.DiscardHandler))
	t.Cleanup(w.Close)
	return n, w
}

// staleBefore reports all workers before number as stale.
func staleBefore(number int) func(int) error {
	return func(worker int) error {
		if worker < number {
			return fmt.Errorf("%w: /w/.git", sandbox.ErrStale)
		}
		return nil
	}
}

func run(t *testing.T, w *aggregator.Workers, tool, session string) string {
	t.Helper()
	out, err := w.Run(t.Context(), gate.Call{Caller: "me", Action: policy.Action{Tool: tool, Session: session}}, policy.Profile{})
	require.NoError(t, err)
	var res struct{ Content []struct{ Text string } }
	require.NoError(t, json.Unmarshal(out.Result, &res))
	return res.Content[0].Text
}

func TestAStaleWorkerIsReplaced(t *testing.T) {
	n, w := newLauncher(t)
	require.Equal(t, "worker 1", run(t, w, "x", ""))
	require.Equal(t, "worker 1", run(t, w, "x", ""))
	n.setRescan(staleBefore(2))
	require.Equal(t, "worker 2", run(t, w, "x", ""))
	<-n.ends[1] // it was idle
	require.Equal(t, "worker 2", run(t, w, "x", ""))
}

// A stale worker keeps running its sessions.
func TestAStaleWorkerKeepsItsSessions(t *testing.T) {
	n, w := newLauncher(t)
	require.Equal(t, "worker 1", run(t, w, "open", ""))
	n.setRescan(staleBefore(2))
	require.Equal(t, "worker 2", run(t, w, "x", ""))
	require.Equal(t, "worker 1", run(t, w, "open", "7"), "it goes on")
	require.Equal(t, "worker 2", run(t, w, "x", ""))
	require.Equal(t, "worker 1", run(t, w, "x", "7"), "and has ended now")
	<-n.ends[1]
}

func TestAStaleWorkerFinishesItsCalls(t *testing.T) {
	n, w := newLauncher(t)
	require.Equal(t, "worker 1", run(t, w, "x", ""))
	answer := make(chan string)
	go func() {
		out, _ := w.Run(t.Context(), gate.Call{Caller: "me", Action: policy.Action{Tool: "slow"}}, policy.Profile{})
		answer <- string(out.Result)
	}()
	<-n.begun
	n.setRescan(staleBefore(2))
	require.Equal(t, "worker 2", run(t, w, "x", ""))
	select {
	case <-n.ends[1]:
		t.Fatal("it was ended under the call")
	default:
	}
	close(n.hold)
	require.Contains(t, <-answer, "worker 1")
	<-n.ends[1]
}

// A worker that cannot be rescanned runs no call that needs the rescan.
func TestAWorkerThatCannotBeRescannedRunsNothing(t *testing.T) {
	n, w := newLauncher(t)
	require.Equal(t, "worker 1", run(t, w, "x", ""))
	n.setRescan(func(int) error { return errors.New("the folder is too large") })
	_, err := w.Run(t.Context(), gate.Call{Caller: "me", Action: policy.Action{Tool: "x"}}, policy.Profile{})
	require.EqualError(t, err, "nothing was run: the folder is too large")

	// A read-only call under a profile that hides nothing needs no rescan.
	out, err := w.Run(t.Context(), gate.Call{Caller: "me", Action: policy.Action{Tool: "x", ReadOnly: true}}, policy.Profile{})
	require.NoError(t, err)
	require.Contains(t, string(out.Result), "worker 1")
	hides := policy.Profile{Paths: policy.Paths{Denied: []string{"/s"}}}
	read := gate.Call{Caller: "me", Action: policy.Action{Tool: "x", ReadOnly: true}}
	_, err = w.Run(t.Context(), read, hides) // starts the worker
	require.NoError(t, err)
	_, err = w.Run(t.Context(), read, hides)
	require.EqualError(t, err, "nothing was run: the folder is too large")

	n.setRescan(func(int) error { return sandbox.ErrEnded })
	require.Equal(t, "worker 1", run(t, w, "x", ""), "the call finds out by itself")
}
