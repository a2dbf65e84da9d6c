package tools

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/wire"
)

// Serve is the worker's loop: an MCP server over in and out that offers the
// tools of catalog. It returns when in has ended and the calls then running
// have been cancelled: whoever started a worker and went away wants no more of
// it. It closes neither stream.
//
// Serve asks nobody and decides nothing. It runs what it is told, so it must
// run where it can do no harm.
func Serve(ctx context.Context, version string, catalog []Tool, in io.Reader, out io.Writer, log *slog.Logger) error {
	srv := mcp.NewServer(&mcp.Implementation{Name: "toolgate-worker", Version: version}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{},
		Logger:       log,
	})
	seen := make(map[string]bool, len(catalog))
	for _, t := range catalog {
		if seen[t.Name()] {
			panic("tools.Serve: two tools named " + t.Name())
		}
		seen[t.Name()] = true
		srv.AddTool(t.MCP(), func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return t.Run(ctx, req.Params.Arguments), nil
		})
	}
	ss, err := srv.Connect(ctx, &wire.Transport{
		In:     in,
		Out:    out,
		Limits: wire.Limits{Line: MaxMessage},
		Drain:  time.Nanosecond,
	}, nil)
	if err != nil {
		return err
	}
	return ss.Wait()
}

// MaxMessage is the longest message between gate and worker in bytes. It is
// larger than what a client may send, because the gate adds to it.
const MaxMessage = 80 << 20
