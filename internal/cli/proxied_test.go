package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// Downstream servers that this binary is under their names, see TestMain.
const (
	rawPeer = "rawpeer" // the least that a server can be
	sdkPeer = "sdkpeer" // the typical one
)

// servePeer reads messages from stdin and decodes their params. answer returns what the response has
// beside the id, such as `"result":{}`, or "" for none.
func servePeer[Params any](answer func(method string, params Params) string) {
	for in := bufio.NewReaderSize(os.Stdin, 1<<16); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params Params          `json:"params"`
		}
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		if text := answer(m.Method, m.Params); text != "" && m.ID != nil {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, text)
		}
	}
}

// peerStarts is the answer to initialize of a server with this name, which has tools.
func peerStarts(name string) string {
	return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"` + name + `","version":"1"}}`
}

// runRawPeer answers each line at once, with as little work as a server can
// do: it looks for the id and writes a line around it.
func runRawPeer() {
	servePeer(func(method string, _ struct{}) string {
		switch method {
		case "initialize":
			return peerStarts("raw")
		case "tools/list":
			return `"result":{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"message":{"type":"string"}}},"annotations":{"readOnlyHint":true}}]}`
		}
		return `"result":{"content":[{"type":"text","text":"Echo: hello"}]}`
	})
}

// runSDKPeer is an echo server as its author would write it.
func runSDKPeer() {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	type input struct {
		Message string `json:"message"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Echo: " + in.Message}}}, nil, nil
	})
	s.Run(context.Background(), &mcp.StdioTransport{})
}

// A wireClient is a client that does as little as it can: it writes a line and
// reads one.
type wireClient struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	tool string // under which the echo tool is called
	id   int
}

// connectWire starts a program and opens a session with it.
func connectWire(t testing.TB, tool string, cmd *exec.Cmd) *wireClient {
	t.Helper()
	c := &wireClient{t: t, cmd: cmd, tool: tool}
	var err error
	c.in, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	c.out = bufio.NewReaderSize(out, 1<<20)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		c.in.Close()
		if len(cmd.Args) > 1 && strings.HasSuffix(cmd.Args[1], ".js") {
			cmd.Process.Kill() // it does not leave by itself
		}
		cmd.Wait()
	})
	c.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`)
	io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return c
}

// request sends a request and returns the line that answers it.
func (c *wireClient) request(method, params string) []byte {
	c.id++
	fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.id, method, params)
	for {
		line, err := c.out.ReadSlice('\n')
		require.NoError(c.t, err)
		if !bytes.Contains(line[:min(len(line), 60)], []byte(`"method"`)) {
			return line
		}
	}
}

func (c *wireClient) echo() {
	line := c.request("tools/call", `{"name":"`+c.tool+`","arguments":{"message":"hello"}}`)
	if !bytes.Contains(line, []byte("Echo: hello")) {
		c.t.Fatalf("%s", line)
	}
}

// peersOf returns how each downstream server of the benchmarks is started.
func peersOf(t testing.TB) map[string][]string {
	t.Helper()
	dir := filepath.Dir(ownBinary(t))
	peers := map[string][]string{}
	for _, name := range []string{rawPeer, sdkPeer} {
		exe := filepath.Join(dir, name)
		require.NoError(t, os.Link(filepath.Join(dir, "toolgate"), exe))
		peers[name] = []string{exe}
	}
	node, err := exec.LookPath("node")
	if index := os.Getenv("TOOLGATE_EVERYTHING"); err == nil && index != "" {
		peers["everything"] = []string{node, index}
	}
	return peers
}

// proxiedBy returns toolgate in front of the one server peer.
func proxiedBy(t testing.TB, exe string, peer []string) *exec.Cmd {
	t.Helper()
	home := t.TempDir()
	command, err := json.Marshal(peer[0])
	require.NoError(t, err)
	args, err := json.Marshal(peer[1:])
	require.NoError(t, err)
	entry := fmt.Sprintf("[mcp_servers.peer]\ncommand = %s\nargs = %s\ntrusted = true\nrequired = true\n", command, args)
	if len(peer) == 1 {
		entry += "sandbox = \"none\"\n" // a binary in a folder of the test's own
	}
	require.NoError(t, os.WriteFile(filepath.Join(home, "config.toml"), []byte(ownTemp+entry), 0o600))
	cmd := exec.Command(exe)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TOOLGATE_HOME="+home)
	cmd.Stderr = os.Stderr
	return cmd
}

// BenchmarkProxied is a call through the whole program, in turn with the same
// call made directly to a second process of the same server: the ratio
// added/direct of the medians is the one to look at.
func BenchmarkProxied(b *testing.B) {
	exe := buildProgram(b)
	for name, peer := range peersOf(b) {
		b.Run(name, func(b *testing.B) {
			direct := connectWire(b, "echo", exec.Command(peer[0], peer[1:]...))
			proxied := connectWire(b, "mcp__peer__echo", proxiedBy(b, exe, peer))
			proxied.request("tools/list", "{}")
			for range 100 {
				direct.echo()
				proxied.echo()
			}
			var straight, through []time.Duration
			for b.Loop() {
				start := time.Now()
				direct.echo()
				middle := time.Now()
				proxied.echo()
				straight, through = append(straight, middle.Sub(start)), append(through, time.Since(middle))
			}
			d50, d99 := percentiles(straight)
			p50, p99 := percentiles(through)
			b.ReportMetric(d50, "direct-p50-µs")
			b.ReportMetric(d99, "direct-p99-µs")
			b.ReportMetric(p50, "proxied-p50-µs")
			b.ReportMetric(p99, "proxied-p99-µs")
			b.ReportMetric((p50-d50)/d50, "added/direct")
		})
	}
}

// percentiles returns the median and the 99th percentile in microseconds.
func percentiles(all []time.Duration) (p50, p99 float64) {
	slices.Sort(all)
	at := func(p int) float64 { return float64(all[(len(all)-1)*p/100].Nanoseconds()) / 1000 }
	return at(50), at(99)
}
