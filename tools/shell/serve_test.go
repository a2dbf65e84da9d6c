package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/sandbox"
	"toolgate/tools"
	"toolgate/tools/shell"
)

// workerVariable makes this test binary a worker with the options that it holds as JSON.
const workerVariable = "TOOLGATE_TEST_WORKER"

func TestMain(m *testing.M) {
	sandbox.Main()
	if os.Getenv(workerVariable) != "" {
		var start shell.StartFunc
		if plan, ok := sandbox.Current(); ok {
			spawner, err := sandbox.NewSpawner(plan)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			start = shell.Plain(spawner.Start)
		}
		var options shell.Options
		if err := json.Unmarshal([]byte(os.Getenv(workerVariable)), &options); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		err := tools.Serve(context.Background(), "test", shell.Tools(options, start), os.Stdin, os.Stdout, slog.New(slog.DiscardHandler))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// levels returns the sandbox levels that this system has, each as a system
// that has no better one.
func levels(t *testing.T) map[string]sandbox.System {
	found := make(map[string]sandbox.System)
	system := sandbox.Probe()
	for system.Level() != sandbox.None {
		found[system.Level().String()] = system
		if system.Level() == sandbox.Landlock {
			break
		}
		system.Namespaces.OK = false
	}
	if len(found) == 0 {
		if os.Getenv("REQUIRE_SANDBOX") != "" {
			t.Fatal("no sandbox here, and REQUIRE_SANDBOX is set")
		}
		t.Skip("no sandbox here")
	}
	return found
}

// A confined is a worker in a sandbox, and a client of it.
type confined struct {
	t       *testing.T
	cmd     *sandbox.Cmd
	session *mcp.ClientSession
	end     func() // closes the worker's stdin and waits for its end
}

// startConfined starts a worker that may write below root only.
func startConfined(t *testing.T, system sandbox.System, root string, o shell.Options) *confined {
	options, err := json.Marshal(o)
	require.NoError(t, err)
	plan, err := sandbox.NewPlan(policy.Profile{Mode: policy.WorkspaceWrite, WritableRoots: []string{root}}, system)
	require.NoError(t, err)
	cmd := plan.Command("")
	cmd.Dir = root
	cmd.Rlimits = o.Limits.Rlimits()
	cmd.Env = append(os.Environ(), workerVariable+"="+string(options), commandIDOf(t))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, nil)
	require.NoError(t, err)
	end := sync.OnceFunc(func() {
		in.Close()
		cmd.Wait()
		session.Close()
	})
	t.Cleanup(end)
	return &confined{t, cmd, session, end}
}

func (c *confined) call(tool string, args map[string]any) *mcp.CallToolResult {
	c.t.Helper()
	res, err := c.session.CallTool(c.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	require.NoError(c.t, err)
	return res
}

// TestConfined runs what needs something of the system inside a sandbox, and
// ends it the hard way: nothing may be left.
func TestConfined(t *testing.T) {
	hidden := fmt.Sprintf("sleep %d", 27_000_000+os.Getpid()) // told by its name when it bears no mark
	for name, system := range levels(t) {
		t.Run(name, func(t *testing.T) {
			c := startConfined(t, system, t.TempDir(), shell.Options{})
			res := c.call("exec_command", map[string]any{"cmd": "tty -s && stty size; read -r x; echo got $x", "tty": true, "wait_for": "24 80"})
			text := textOf(res)
			require.Contains(t, text, "24 80")
			id := sessionID.FindStringSubmatch(text)[1]
			res = c.call("write_stdin", map[string]any{"session_id": json.Number(id), "chars": "hello\n", "wait_for": "exit"})
			require.Contains(t, textOf(res), "got hello")
			require.Contains(t, textOf(res), "Process exited with code 0")

			res = c.call("shell", map[string]any{"command": []string{"seq", "1", "30000"}})
			id = sessionID.FindStringSubmatch(textOf(res))[1]
			res = c.call("read_output", map[string]any{"session_id": json.Number(id), "offset": 80000, "limit": 6})
			require.Contains(t, textOf(res), "Output:\n185\n15")

			res = c.call("shell", map[string]any{"command": "sleep 1000 & (env -i setsid " + hidden + " &); echo x"})
			// Those that are yet to become sleep have other names.
			require.Regexp(t, `x\nThe command left 2 processes \([a-z, ]+\) running in the background`, textOf(res))

			for range 5 {
				res = c.call("exec_command", map[string]any{"cmd": "trap '' TERM HUP; (env -i setsid " + hidden + " &); echo begun; while :; do sleep 1; done", "wait_for": "begun"})
				require.Contains(t, textOf(res), "Process running with session ID")
			}
			require.NoError(t, c.cmd.Kill())
			c.end()
			require.Empty(t, processesWith(commandIDOf(t)))
			require.Empty(t, processesNamed(hidden))
		})
	}
}

// processesNamed returns the processes with that command line.
func processesNamed(line string) []string {
	var found []string
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		b, _ := os.ReadFile(file)
		if strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " ")) == line {
			found = append(found, file)
		}
	}
	return found
}

// TestGateGone starts ten sessions in a worker, some of them hard to end, and
// takes away the gate in the middle: nothing of them may be left when the
// worker has ended.
func TestGateGone(t *testing.T) {
	mark := commandIDOf(t)
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), workerVariable+"={}", mark)
	worker.Stderr = os.Stderr
	var progress sync.WaitGroup
	progress.Add(1)
	var once sync.Once
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			if req.Params.Message == "working" {
				once.Do(progress.Done)
			}
		},
	})
	in, err := worker.StdinPipe()
	require.NoError(t, err)
	out, err := worker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, worker.Start())
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, nil)
	require.NoError(t, err)
	call := func(tool, args string, token any) *mcp.CallToolParams {
		params := &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)}
		if token != nil {
			params.SetProgressToken(token)
		}
		return params
	}
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			script := []string{
				"echo begun; sleep 1000",
				"trap '' TERM INT HUP; echo begun; while :; do sleep 1; done",
				"(setsid sh -c '(sleep 1000 &)' &); trap '' TERM; echo begun; sleep 1000",
			}[i%3]
			res, err := session.CallTool(t.Context(), call("exec_command", fmt.Sprintf(`{"cmd":%q,"tty":%t,"wait_for":"begun"}`, script, i%2 == 0), nil))
			require.NoError(t, err)
			require.Contains(t, res.Content[0].(*mcp.TextContent).Text, "Process running with session ID")
			require.NotEmpty(t, res.Meta[policy.SessionKey])
		})
	}
	all.Wait()
	require.GreaterOrEqual(t, len(processesWith(mark)), 10+1)
	all.Go(func() {
		session.CallTool(t.Context(), call("shell", `{"command":"echo working; sleep 1000"}`, "token"))
	})
	progress.Wait()
	in.Close() // the gate is gone
	require.NoError(t, worker.Wait())
	require.Empty(t, strings.Join(processesWith(mark), "\n"))
	session.Close()
	all.Wait()
}
