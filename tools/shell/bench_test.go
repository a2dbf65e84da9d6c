package shell_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"toolgate/tools/shell"
)

// BenchmarkTrue is shell ["true"] beside plain fork and exec, in turns, so that
// both see the same machine. x/plain is how much longer the tool takes.
func BenchmarkTrue(b *testing.B) {
	path, err := exec.LookPath("true")
	if err != nil {
		b.Skip("no true here")
	}
	tool := shell.Tools(shell.Options{}, nil)[0]
	args := json.RawMessage(`{"command":["true"]}`)
	var plain, ours time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		if err := (&exec.Cmd{Path: path, Args: []string{"true"}}).Run(); err != nil {
			b.Fatal(err)
		}
		plain += time.Since(start)
		start = time.Now()
		if res := tool.Run(b.Context(), args); res.IsError {
			b.Fatal(textOf(res))
		}
		ours += time.Since(start)
	}
	n := float64(b.N)
	b.ReportMetric(float64(plain.Microseconds())/n, "plain-µs")
	b.ReportMetric(float64(ours.Microseconds())/n, "tool-µs")
	b.ReportMetric(float64(ours)/float64(plain), "x/plain")
}

// BenchmarkOutput is how fast what a command prints is taken.
func BenchmarkOutput(b *testing.B) {
	const megabytes = 64
	for _, spool := range []struct {
		name  string
		bytes int64
	}{{"kept", 0}, {"dropped", 1}} {
		b.Run(spool.name, func(b *testing.B) {
			tool := shell.Tools(shell.Options{SpoolFolder: b.TempDir(), SpoolBytes: spool.bytes}, nil)[0]
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
