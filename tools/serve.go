package tools

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/stdio"
)

// Serve runs the worker: an MCP server on in and out that offers the tools of catalog.
// When in ends, it cancels the running calls, closes the tools and returns. It does not
// close the streams.
//
// Serve runs every call without asking for approval and without a policy decision, so it
// must run in a sandbox.
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
			call, done := callOf(ctx, req)
			defer done()
			return t.RunCall(ctx, call, req.Params.Arguments), nil
		})
	}
	ss, err := srv.Connect(ctx, &stdio.Transport{
		In:     in,
		Out:    out,
		Limits: stdio.Limits{Line: MaxMessage},
		Drain:  time.Nanosecond,
	}, nil)
	if err != nil {
		return err
	}
	err = ss.Wait()
	for _, t := range catalog {
		t.Close()
	}
	return err
}

// callOf returns the Call for a request. It sends progress, if the caller asked for it,
// until done is called.
func callOf(ctx context.Context, req *mcp.CallToolRequest) (call *Call, done func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil, func() {}
	}
	var (
		mu      sync.Mutex
		ended   bool
		started = time.Now()
	)
	notify := func(message string) {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			return
		}
		// On an error the connection is gone, and the answer fails too.
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token,
			Progress:      time.Since(started).Seconds(),
			Message:       message,
		})
	}
	done = func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
	}
	return &Call{Notify: notify}, done
}

// MaxMessage is the maximum size of a message between gate and worker in bytes. It is
// larger than that of a client's message, because the gate adds to messages.
const MaxMessage = 80 << 20
