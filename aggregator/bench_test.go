package aggregator_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
)

// benchSet returns a running set of one server in its own process.
func benchSet(b *testing.B, script string) *aggregator.Downstreams {
	b.Helper()
	launch, _ := process(b, script)
	s := aggregator.NewDownstreams(aggregator.DownstreamOptions{StateDir: b.TempDir()})
	b.Cleanup(s.Close)
	s.Update([]aggregator.Spec{spec("raw", launch)})
	s.WaitListed(context.Background(), false)
	return s
}

// A direct calls the same server over the same pipes, without a set.
type direct struct {
	in  io.Writer
	out *bufio.Reader
	n   int
}

func newDirect(b *testing.B, script string) *direct {
	b.Helper()
	launch, _ := process(b, script)
	p, err := launch()
	require.NoError(b, err)
	b.Cleanup(func() { p.In.Close(); p.Wait() })
	d := &direct{in: p.In, out: bufio.NewReaderSize(p.Out, 1<<20)}
	d.call("initialize", `{}`)
	return d
}

func (d *direct) call(method, params string) (size int) {
	d.n++
	fmt.Fprintf(d.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", d.n, method, params)
	for {
		part, err := d.out.ReadSlice('\n')
		size += len(part)
		if err == nil {
			return size
		}
	}
}

// BenchmarkCall compares a call through the set with a direct call in the same run. The
// relevant figure is added/direct.
func BenchmarkCall(b *testing.B) {
	s, d := benchSet(b, "orderly"), newDirect(b, "orderly")
	var proxied, straight time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		d.call("tools/call", `{"name":"echo","arguments":{"message":"hello"}}`)
		straight += time.Since(start)
		start = time.Now()
		if _, err := call(context.Background(), s, "raw", "echo", `{"message":"hello"}`); err != nil {
			b.Fatal(err)
		}
		proxied += time.Since(start)
	}
	report(b, straight, proxied)
}

func report(b *testing.B, straight, proxied time.Duration) {
	b.ReportMetric(float64(straight.Nanoseconds())/float64(b.N), "direct-ns/op")
	b.ReportMetric(float64(proxied.Nanoseconds())/float64(b.N), "proxied-ns/op")
	b.ReportMetric(float64(proxied-straight)/float64(straight), "added/direct")
}

func BenchmarkCall32InFlight(b *testing.B) {
	s := benchSet(b, "orderly")
	b.ReportAllocs()
	for b.Loop() {
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				if _, err := call(context.Background(), s, "raw", "echo", `{"message":"hello"}`); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/32, "ns/call")
}

func BenchmarkLongResult(b *testing.B) {
	s, d := benchSet(b, "big"), newDirect(b, "big")
	var proxied, straight time.Duration
	b.SetBytes(20 << 20)
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		d.call("tools/call", `{"name":"echo"}`)
		straight += time.Since(start)
		start = time.Now()
		if _, err := call(context.Background(), s, "raw", "echo", `{}`); err != nil {
			b.Fatal(err)
		}
		proxied += time.Since(start)
	}
	report(b, straight, proxied)
}

// BenchmarkServers measures the memory per server: a catalog of ten tools, the
// connection and its goroutines, without the server's own process.
func BenchmarkServers(b *testing.B) {
	for _, n := range []int{0, 5, 50} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				before := heap()
				f := script{"tools/list": func(p *peer, m message) error {
					var tools []string
					for i := range 10 {
						tools = append(tools, fmt.Sprintf(`{"name":"tool%d","description":%q,"inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`, i, strings.Repeat("words ", 50)))
					}
					p.result(m, toolList(tools...))
					return nil
				}}
				s := aggregator.NewDownstreams(aggregator.DownstreamOptions{StateDir: b.TempDir()})
				var specs []aggregator.Spec
				for i := range n {
					specs = append(specs, spec(fmt.Sprintf("s%d", i), (&fake{script: f}).launch))
				}
				s.Update(specs)
				s.WaitListed(context.Background(), false)
				b.ReportMetric(float64(heap()-before)/1024, "KiB")
				b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
				s.Close()
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
