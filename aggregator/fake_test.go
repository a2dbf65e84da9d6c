package aggregator_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
	"toolgate/internal/gate"
	"toolgate/policy"
)

// A message is one JSON-RPC message as a server reads it.
type message struct {
	Raw    string          `json:"-"`
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// A peer is one run of a server that may write any lines, valid or not.
type peer struct {
	mu  sync.Mutex
	out io.Writer
	in  io.Reader
}

func (p *peer) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

func (p *peer) result(m message, result string) {
	p.line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (p *peer) fail(m message, code int, text string) {
	p.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, m.ID, code, text)
}

// errExit, returned by a handler, ends the server.
var errExit = errors.New("exit")

// A script is the behavior of a server by method. For other methods it behaves like a
// well-behaved session-based server.
type script map[string]func(*peer, message) error

const (
	okInit = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"raw","version":"1"},"instructions":"use with care"}`
	okTool = `{"name":"echo","description":"Echoes.","inputSchema":{"type":"object","properties":{}}}`
)

func toolList(tools ...string) string { return `{"tools":[` + strings.Join(tools, ",") + `]}` }

func text(s string) string {
	b, _ := json.Marshal(s) // a string always marshals
	return `{"content":[{"type":"text","text":` + string(b) + `}]}`
}

// serve runs the script over the streams until the input or the script ends.
func (s script) serve(in io.Reader, out io.Writer) {
	p := &peer{out: out, in: in}
	if f := s["start"]; f != nil && f(p, message{}) != nil {
		return
	}
	r := bufio.NewReaderSize(in, 1<<16)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		m := message{Raw: strings.TrimSpace(line)}
		if json.Unmarshal([]byte(line), &m) != nil {
			continue
		}
		if f := s["*"]; f != nil && f(p, m) != nil {
			return
		}
		if f, ok := s[m.Method]; ok {
			if f != nil && f(p, m) != nil {
				return
			}
			continue
		}
		switch m.Method {
		case "initialize":
			p.result(m, okInit)
		case "tools/list":
			p.result(m, toolList(okTool))
		case "tools/call":
			p.result(m, text("called "+string(m.Params)))
		case "ping":
			p.result(m, `{}`)
		default:
			if m.Method != "" && len(m.ID) > 0 {
				p.fail(m, -32601, "no such method")
			}
		}
	}
}

// A fake starts a script in this process, with pipes as its streams.
type fake struct {
	script script

	mu     sync.Mutex
	starts int
	last   *running
}

type running struct {
	in   *io.PipeReader
	out  *io.PipeWriter
	done chan struct{}
	err  error
}

// kill ends the run as SIGKILL would.
func (r *running) kill() error {
	r.in.CloseWithError(io.ErrClosedPipe)
	r.out.Close()
	return nil
}

func (f *fake) launch() (*aggregator.Process, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	r := &running{in: inR, out: outW, done: make(chan struct{})}
	f.mu.Lock()
	f.starts++
	f.last = r
	f.mu.Unlock()
	go func() { // ends with the streams or the script
		f.script.serve(inR, outW)
		inR.CloseWithError(io.ErrClosedPipe)
		outW.Close()
		close(r.done)
	}()
	return &aggregator.Process{
		In: inW, Out: outR, Level: "none",
		Wait: func() error { <-r.done; return r.err },
		Kill: r.kill,
	}, nil
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts
}

func (f *fake) run() *running {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// spec returns the spec of a trusted server.
func spec(name string, launch func() (*aggregator.Process, error)) aggregator.Spec {
	return aggregator.Spec{
		Name:           name,
		Digest:         "d",
		Launch:         launch,
		StartupTimeout: 10 * time.Second,
		ToolTimeout:    func(string) time.Duration { return time.Minute },
		Approval:       func(string) policy.ToolApproval { return policy.ApproveAlways },
	}
}

// set returns a running set of the servers, all of them listed.
func set(t *testing.T, specs ...aggregator.Spec) *aggregator.Downstreams {
	t.Helper()
	s := aggregator.NewDownstreams(aggregator.DownstreamOptions{Version: "1", StateDir: t.TempDir(), Roots: json.RawMessage(`{"roots":[{"uri":"file:///w"}]}`)})
	t.Cleanup(s.Close)
	s.Update(specs)
	s.WaitListed(context.Background(), false)
	return s
}

// call makes one call of a tool by its raw name.
func call(ctx context.Context, s *aggregator.Downstreams, server, tool, args string, with ...func(*gate.Call)) (string, error) {
	c := gate.Call{Caller: "me", Action: policy.Action{Server: server, Tool: tool}, Arguments: json.RawMessage(args)}
	for _, f := range with {
		f(&c)
	}
	out, err := s.Run(ctx, c, policy.Profile{})
	return string(out.Result), err
}

// echoes calls the echo of one of ten servers and requires its answer.
func echoes(t *testing.T, s *aggregator.Downstreams, i int) {
	t.Helper()
	got, err := call(t.Context(), s, fmt.Sprintf("s%d", i%10), "echo", fmt.Sprintf(`{"i":%d}`, i))
	require.NoError(t, err)
	require.Contains(t, got, fmt.Sprintf(`{\"i\":%d}`, i))
}

func names(s *aggregator.Downstreams) []string {
	list := []string{}
	for _, t := range s.Tools() {
		list = append(list, t.Name)
	}
	return list
}

// scriptEnv makes the test binary one of the scripts in place of the tests.
const scriptEnv = "TOOLGATE_TEST_SCRIPT"

func TestMain(m *testing.M) {
	if name := os.Getenv(scriptEnv); name != "" {
		processes[name].serve(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process returns a function that starts the script in its own process, and one that
// returns the process started last.
func process(t testing.TB, name string) (launch func() (*aggregator.Process, error), last func() *os.Process) {
	t.Helper()
	require.Contains(t, processes, name)
	var mu sync.Mutex
	var started *os.Process
	return func() (*aggregator.Process, error) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), scriptEnv+"="+name)
			in, err := cmd.StdinPipe()
			if err != nil {
				return nil, err
			}
			out, outW, err := os.Pipe()
			if err != nil {
				return nil, err
			}
			cmd.Stdout = outW
			if err := cmd.Start(); err != nil {
				return nil, err
			}
			outW.Close()
			mu.Lock()
			started = cmd.Process
			mu.Unlock()
			return &aggregator.Process{
				In: in, Out: out, Level: "none",
				Wait: cmd.Wait, Kill: cmd.Process.Kill,
				Term: func() error { return cmd.Process.Signal(os.Interrupt) },
			}, nil
		}, func() *os.Process {
			mu.Lock()
			defer mu.Unlock()
			return started
		}
}
