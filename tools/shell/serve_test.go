package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"toolgate/tools"
	"toolgate/tools/shell"
)

// workerVariable makes this test binary a worker.
const workerVariable = "TOOLGATE_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		log := slog.New(slog.DiscardHandler)
		err := tools.Serve(context.Background(), "test", shell.Tools(shell.Options{}, nil), os.Stdin, os.Stdout, log)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestGateGone starts ten sessions in a worker, some of them hard to end, and
// takes away the gate in the middle: nothing of them may be left when the
// worker has ended.
func TestGateGone(t *testing.T) {
	mark := "TOOLGATE_TEST=" + t.Name()
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), workerVariable+"=1", mark)
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
			require.NotEmpty(t, res.Meta[tools.SessionKey])
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
