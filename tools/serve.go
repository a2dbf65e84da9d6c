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

// Serve is the worker's loop: an MCP server over in and out that offers the
// tools of catalog. It returns when in has ended, the calls then running have
// been cancelled, and the tools have ended what they left: whoever started a
// worker and went away wants no more of it. It closes neither stream.
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

// callOf returns what a tool may know of a call. Its progress goes to the
// caller, when the caller asked for it, until done is called.
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
		// An error is for whoever reads the answer: the connection is gone.
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

// MaxMessage is the longest message between gate and worker in bytes. It is
// larger than what a client may send, because the gate adds to it.
const MaxMessage = 80 << 20
