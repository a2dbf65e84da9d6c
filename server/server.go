// Package server speaks MCP to the client: it lists the tools, leads each call
// through the gate, and puts the gate's questions to the person at the other
// end.
//
//	s := server.New(server.Options{Version: v, Catalog: catalog, Gate: gate, Log: log})
//	err := s.ServeStdio(ctx, os.Stdin, os.Stdout)
//
// Both protocol eras are served on one stream: initialize (2024-11-05 to
// 2025-11-25), where a question is a request to the client, and 2026-07-28,
// where it is an input_required result that the client answers with a retry.
package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
	"toolgate/wire"
)

// Options configure a [Server]. With a nil Gate every call is refused.
type Options struct {
	Version      string
	Instructions string // for the model
	Catalog      []tools.Tool
	Gate         *policy.Gate
	Log          *slog.Logger // nil: nothing is logged

	// AskTimeout is how long a person may take over a question; zero means
	// five minutes. Then the answer is no.
	AskTimeout time.Duration

	// Opened, if set, is called when a client has opened its session, in a
	// goroutine of its own: the place to start what the first call will need.
	Opened func(caller string)
}

// A Server serves the tools to clients. It may be used concurrently.
type Server struct {
	opts   Options
	log    *slog.Logger
	tools  map[string]tools.Tool
	seal   *seal
	opened func(caller string)
}

// New returns a Server.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Gate == nil {
		o.Gate = &policy.Gate{}
	}
	if o.AskTimeout == 0 {
		o.AskTimeout = 5 * time.Minute
	}
	s := &Server{opts: o, log: o.Log, tools: map[string]tools.Tool{}, seal: newSeal(), opened: o.Opened}
	for _, t := range o.Catalog {
		if _, twice := s.tools[t.Name()]; twice {
			panic("server.New: two tools named " + t.Name())
		}
		s.tools[t.Name()] = t
	}
	return s
}

// MaxLine is the longest message a client may send over stdio, in bytes.
const MaxLine = 48 << 20

// stdioCaller names the one client of a stdio server.
const stdioCaller = "stdio"

// ServeStdio serves one client over in and out. It returns when in has ended
// and the answers still owed are written, or with ctx; it closes neither
// stream.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	conn, err := (&wire.Transport{In: in, Out: out, Limits: wire.Limits{Line: MaxLine}}).Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = serveBothEras(ctx, s.mcpServer(stdioCaller), conn)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || ctx.Err() != nil {
		return nil
	}
	return err
}

// mcpServer returns the SDK's server for one caller.
func (s *Server) mcpServer(caller string) *mcp.Server {
	srv := mcp.NewServer(&mcp.Implementation{Name: "toolgate", Title: "toolgate", Version: s.opts.Version}, &mcp.ServerOptions{
		Instructions: s.opts.Instructions,
		Logger:       s.log,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
		InitializedHandler: func(context.Context, *mcp.InitializedRequest) {
			s.sessionOpened(caller)
		},
	})
	for _, t := range s.opts.Catalog {
		srv.AddTool(t.MCP(), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, errors.New("bug: a call went round the gate")
		})
	}
	srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "server/discover" {
				s.sessionOpened(caller)
			}
			call, ok := req.(*mcp.CallToolRequest)
			if !ok {
				return next(ctx, method, req)
			}
			if _, ok := s.tools[call.Params.Name]; !ok {
				return next(ctx, method, req) // the SDK's error for an unknown tool
			}
			return s.handleCall(ctx, caller, call)
		}
	})
	return srv
}

func (s *Server) sessionOpened(caller string) {
	if s.opened != nil {
		go s.opened(caller) // ends with the start of a worker
	}
}

// handleCall is tools/call for a tool of ours.
func (s *Server) handleCall(ctx context.Context, caller string, req *mcp.CallToolRequest) (mcp.Result, error) {
	p := req.Params
	call := policy.Call{
		ID:        rand.Text()[:12],
		Caller:    caller,
		Arguments: p.Arguments,
		Progress:  s.progress(ctx, req),
	}
	modern := req.ProtocolVersion() >= statelessEra
	var round *round
	if modern {
		var err error
		round, err = s.openRound(caller, req)
		if err != nil {
			return rawOf(tools.Error(p.Name, err), modern), nil
		}
		call.Ask, call.Denied = round.ask, round.denied
	} else {
		call.Ask = s.elicit(req)
	}
	reply, err := s.call(ctx, p.Name, call)
	if errors.Is(err, policy.ErrSuspended) {
		return round.suspend()
	}
	if err != nil {
		return nil, err
	}
	return &rawResult{raw: reply.Result, modern: modern}, nil
}

// statelessEra is the first protocol revision without sessions, in which a
// server puts its questions into results.
const statelessEra = "2026-07-28"

// A Reply is the answer to one call.
type Reply struct {
	Result  json.RawMessage // the CallToolResult
	IsError bool
	Refused bool // the policy or a person said no
}

// Call leads one call through the gate for a caller that is no MCP client,
// such as the command line. ask may be nil.
//
// Everything that goes wrong with the call itself is a Reply with IsError; an
// error is an unknown tool, or ctx's.
func (s *Server) Call(ctx context.Context, caller, tool string, args json.RawMessage, ask policy.AskFunc) (Reply, error) {
	if _, ok := s.tools[tool]; !ok {
		return Reply{}, &UnknownToolError{Name: tool, Known: s.names()}
	}
	return s.call(ctx, tool, policy.Call{ID: rand.Text()[:12], Caller: caller, Arguments: args, Ask: ask})
}

// An UnknownToolError is a call of a tool that is not there.
type UnknownToolError struct {
	Name  string
	Known []string // the tools that are, sorted
}

func (e *UnknownToolError) Error() string { return "unknown tool " + e.Name }

func (s *Server) names() []string {
	var names []string
	for n := range s.tools {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// call describes the call and hands it to the gate.
func (s *Server) call(ctx context.Context, tool string, c policy.Call) (Reply, error) {
	action, err := s.tools[tool].Describe(c.Arguments)
	if err != nil {
		return errorReply(tool, err), nil
	}
	c.Action = action
	out, err := s.opts.Gate.Call(ctx, c)
	switch {
	case err == nil:
		return Reply{Result: out.Result, IsError: out.IsError}, nil
	case errors.Is(err, policy.ErrSuspended), ctx.Err() != nil:
		return Reply{}, err
	}
	r := errorReply(tool, err)
	_, r.Refused = errors.AsType[*policy.Refused](err)
	return r, nil
}

func errorReply(tool string, err error) Reply {
	return Reply{Result: rawOf(tools.Error(tool, err), false).raw, IsError: true}
}

// Tools returns what tools/list answers, sorted by name.
func (s *Server) Tools() []*mcp.Tool {
	var list []*mcp.Tool
	for _, n := range s.names() {
		list = append(list, s.tools[n].MCP())
	}
	return list
}

// progress returns what passes a backend's progress on to the client, nil
// when the client did not ask for any.
func (s *Server) progress(ctx context.Context, req *mcp.CallToolRequest) func(json.RawMessage) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	return func(params json.RawMessage) {
		var p mcp.ProgressNotificationParams
		if json.Unmarshal(params, &p) != nil || ctx.Err() != nil {
			return
		}
		p.ProgressToken = token // tokens belong to a hop
		if err := req.Session.NotifyProgress(ctx, &p); err != nil {
			s.log.Debug("progress not passed on", "err", err)
		}
	}
}
