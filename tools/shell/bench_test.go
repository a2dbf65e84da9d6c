package shell_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/sandbox"
	"toolgate/tools"
	"toolgate/tools/shell"
)

// BenchmarkTrue is shell ["true"] beside plain fork and exec, in turns, so that
// both see the same machine; x/plain is how much longer the tool takes. Plain
// is the tool as it is, confined with the sandbox's layer for each command,
// and served through the worker's loop with a client of the protocol.
func BenchmarkTrue(b *testing.B) {
	path, err := exec.LookPath("true")
	if err != nil {
		b.Skip("no true here")
	}
	args := json.RawMessage(`{"command":["true"]}`)
	direct := func(tool tools.Tool) func(b *testing.B) {
		return func(b *testing.B) {
			if res := tool.Run(b.Context(), args); res.IsError {
				b.Fatal(textOf(res))
			}
		}
	}
	b.Run("plain", func(b *testing.B) { besidePlain(b, path, direct(shell.Tools(shell.Options{}, nil)[0])) })
	b.Run("confined", func(b *testing.B) {
		plan, err := sandbox.NewPlan(policy.Profile{Mode: policy.WorkspaceWrite}, sandbox.Probe())
		if err != nil {
			b.Skip(err)
		}
		spawner, err := sandbox.NewSpawner(plan)
		if err != nil {
			b.Skip(err)
		}
		besidePlain(b, path, direct(shell.Tools(shell.Options{}, shell.Plain(spawner.Start))[0]))
	})
	b.Run("served", func(b *testing.B) {
		session := serve(b, shell.Tools(shell.Options{}, nil))
		besidePlain(b, path, func(b *testing.B) {
			if _, err := session.CallTool(b.Context(), &mcp.CallToolParams{Name: "shell", Arguments: args}); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// besidePlain measures ours beside plain fork and exec of the program at path.
func besidePlain(b *testing.B, path string, ours func(*testing.B)) {
	var plain, tool time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		if err := (&exec.Cmd{Path: path, Args: []string{"true"}}).Run(); err != nil {
			b.Fatal(err)
		}
		plain += time.Since(start)
		start = time.Now()
		ours(b)
		tool += time.Since(start)
	}
	n := float64(b.N)
	b.ReportMetric(float64(plain.Microseconds())/n, "plain-µs")
	b.ReportMetric(float64(tool.Microseconds())/n, "tool-µs")
	b.ReportMetric(float64(tool)/float64(plain), "x/plain")
}

// serve serves the tools in this process and returns a client of them.
func serve(b *testing.B, catalog []tools.Tool) *mcp.ClientSession {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	var served sync.WaitGroup
	served.Go(func() { // ends when the client closes its end
		tools.Serve(b.Context(), "test", catalog, inR, outW, slog.New(slog.DiscardHandler))
	})
	client := mcp.NewClient(&mcp.Implementation{Name: "bench"}, nil)
	session, err := client.Connect(b.Context(), &mcp.IOTransport{Reader: outR, Writer: inW}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		session.Close()
		inW.Close()
		served.Wait()
	})
	return session
}

// BenchmarkOutput is how fast what a command prints is taken.
func BenchmarkOutput(b *testing.B) {
	const megabytes = 64
	for _, spool := range []struct {
		name  string
		bytes int64
	}{{"kept", 1 << 40}, {"dropped", 1}} {
		b.Run(spool.name, func(b *testing.B) {
			b.Setenv("TMPDIR", b.TempDir())
			tool := shell.ToolsWithSpool(shell.Options{}, spool.bytes)[0]
			defer tool.Close()
			args := json.RawMessage(fmt.Sprintf(`{"command":["head","-c","%d","/dev/zero"]}`, megabytes<<20))
			b.SetBytes(megabytes << 20)
			b.ReportAllocs()
			for b.Loop() {
				if res := tool.Run(b.Context(), args); res.IsError {
					b.Fatal(textOf(res))
				}
			}
		})
	}
}

// BenchmarkParallel is 64 calls of exec_command at once.
func BenchmarkParallel(b *testing.B) {
	tool := shell.Tools(shell.Options{}, nil)[1]
	b.ReportAllocs()
	for b.Loop() {
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				if res := tool.Run(b.Context(), json.RawMessage(`{"cmd":"echo hello"}`)); res.IsError {
					b.Error(textOf(res))
				}
			})
		}
		all.Wait()
	}
}
