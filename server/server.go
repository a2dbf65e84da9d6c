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
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/aggregator"
	"toolgate/aggregator/schema"
	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
	"toolgate/internal/stdio"
	"toolgate/policy"
	"toolgate/tools"
)

// Options configure a [Server]. With a nil Gate every call is refused.
type Options struct {
	Version      string
	Instructions string // for the model
	Catalog      []tools.Tool
	Gate         *gate.Gate
	Downstreams  *aggregator.Downstreams // nil: none
	Schemas      schema.Profile          // of downstream tools; "": by the client's name
	Log          *slog.Logger            // nil: nothing is logged

	// AskTimeout is how long a person may take over a question; zero means
	// five minutes. Then the answer is no.
	AskTimeout time.Duration

	// TempDir is the folder for temporary files that a client's sandbox means
	// by tmpdir.
	TempDir string

	// Outside, if set, reports whether a caller's session runs outside the
	// sandbox that a new command would have. To type into such a session is
	// asked for, as Codex does.
	Outside func(caller, session string) bool

	// Answered, if set, is called when a client on stdio has its first answer:
	// the place to start what would have kept it waiting. It must not block.
	Answered func()

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

	parking parking
}

// New returns a Server.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Gate == nil {
		o.Gate = &gate.Gate{}
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
	client := newClient(nil)
	direct := newDirect(ctx, s, stdioCaller, client)
	transport := &stdio.Transport{In: in, Out: out, Limits: stdio.Limits{Line: MaxLine}, Direct: direct.take}
	conn, err := transport.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	client.conn, client.carries, client.answeredFirst = conn, true, s.opts.Answered
	srv, behind := s.mcpServer(stdioCaller, client)
	defer behind.detach()
	defer direct.close()
	defer s.parking.close()
	err = serveBothEras(ctx, srv, conn, client)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || ctx.Err() != nil {
		return nil
	}
	return err
}

// mcpServer returns the SDK's server for one caller's connection.
func (s *Server) mcpServer(caller string, c *client) (*mcp.Server, *behind) {
	var behind *behind
	opts := &mcp.ServerOptions{
		Instructions: s.opts.Instructions,
		Logger:       s.log,
		Capabilities: &mcp.ServerCapabilities{
			Tools:        &mcp.ToolCapabilities{ListChanged: true},
			Experimental: map[string]any{sandboxStateKey: map[string]any{}},
		},
		InitializedHandler: func(_ context.Context, req *mcp.InitializedRequest) {
			behind.initialized(req)
			c.opened(false, req.Session)
			s.sessionOpened(caller)
		},
	}
	if s.opts.Downstreams != nil {
		addCapabilities(opts.Capabilities)
		opts.SubscribeHandler = func(ctx context.Context, req *mcp.SubscribeRequest) error {
			return behind.subscribe(ctx, req)
		}
		opts.UnsubscribeHandler = func(ctx context.Context, req *mcp.UnsubscribeRequest) error {
			return behind.unsubscribe(ctx, req)
		}
	}
	srv := mcp.NewServer(s.implementation(), opts)
	for _, t := range s.opts.Catalog {
		srv.AddTool(t.MCP(), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, errors.New("bug: a call went round the gate")
		})
	}
	behind = s.attach(caller, c, srv)
	if s.opts.Downstreams != nil {
		addTaskMethods(srv)
	}
	srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			settleVersion(req)
			if method == "server/discover" {
				behind.open()
				s.sessionOpened(caller)
			}
			if res, ok, err := behind.handle(ctx, method, req, next); ok {
				return c.carry(res), err
			}
			call, ok := req.(*mcp.CallToolRequest)
			if !ok {
				return next(ctx, method, req)
			}
			if call.ProtocolVersion() >= statelessEra {
				c.opened(true, call.Session)
			}
			res, err := s.callTool(ctx, caller, c, call)
			return c.carry(res), err
		}
	})
	return srv, behind
}

// settleVersion has a session that is opened with initialize be one of the older
// era whatever version its client would like: the newer era has no sessions,
// and each of its requests says which it is of. The SDK goes by what was asked
// for, not by what it answered.
func settleVersion(req mcp.Request) {
	if p, ok := req.GetParams().(*mcp.InitializeParams); ok && p.ProtocolVersion >= statelessEra {
		p.ProtocolVersion = legacyVersions[len(legacyVersions)-1]
	}
}

// implementation is what we call ourselves.
func (s *Server) implementation() *mcp.Implementation {
	return &mcp.Implementation{Name: "toolgate", Title: "toolgate", Version: s.opts.Version}
}

// callTool is tools/call.
func (s *Server) callTool(ctx context.Context, caller string, c *client,
	req *mcp.CallToolRequest) (mcp.Result, error) {
	if !s.Has(req.Params.Name) {
		if s.opts.Downstreams != nil {
			s.opts.Downstreams.WaitForTool(ctx, req.Params.Name)
		}
		if !s.Has(req.Params.Name) {
			return nil, unknownTool(req.Params.Name)
		}
	}
	return s.handleCall(ctx, caller, c, req)
}

func (s *Server) sessionOpened(caller string) {
	if s.opened != nil {
		go s.opened(caller) // ends with the start of a worker
	}
}

// handleCall is tools/call for a tool that there is.
func (s *Server) handleCall(ctx context.Context, caller string, c *client,
	req *mcp.CallToolRequest) (mcp.Result, error) {
	notes := newOutbox()
	defer notes.flush()
	call := gate.Call{
		ID:        cmp.Or(string(rawPart(req.Extra, RequestID)), rand.Text()[:12]),
		Caller:    caller,
		Arguments: req.Params.Arguments,
		Progress:  s.progress(ctx, c, req, notes),
		Meta:      rawPart(req.Extra, rawMeta),
		Task:      rawPart(req.Extra, rawTask),
		Limit:     limitOf(req.Params.Meta, s.opts.TempDir),
	}
	call.AskedVia = "client"
	if info := req.ClientInfo(); info != nil {
		call.Agent = info.Name
	}
	if req.ProtocolVersion() >= statelessEra {
		call.Log = s.logTo(ctx, c, req, notes)
		return s.callModern(ctx, caller, req, call)
	}
	call.Ask, call.Client = s.elicit(req), s.askLegacy(c, req)
	reply, err := s.call(ctx, req.Params.Name, call)
	return s.result(reply, err, false)
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
func (s *Server) Call(ctx context.Context, caller, tool string, args json.RawMessage,
	ask gate.AskFunc) (Reply, error) {
	if !s.Has(tool) {
		return Reply{}, &UnknownToolError{Name: tool, Known: s.names()}
	}
	call := gate.Call{ID: rand.Text()[:12], Caller: caller, Arguments: args, Ask: ask, AskedVia: "terminal"}
	// Those of a client have been through its transport.
	if err := rawjson.Unique(args); err != nil && len(bytes.TrimSpace(args)) > 0 {
		call.Arguments = nil // a record of them would show one value
		return s.invalid(tool, call, fmt.Errorf("arguments: %w", err)), nil
	}
	reply, err := s.call(ctx, tool, call)
	if rpc, ok := errors.AsType[*aggregator.RPCError](err); ok {
		return errorReply(tool, rpc), nil
	}
	return reply, err
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
	if s.opts.Downstreams != nil {
		for _, t := range s.opts.Downstreams.Tools() {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return names
}

// call describes the call and hands it to the gate.
func (s *Server) call(ctx context.Context, tool string, c gate.Call) (Reply, error) {
	if _, ok := s.resourceTool(tool); ok && tool != readResource {
		return s.listNamed(tool, c.Arguments)
	}
	c.Describe = func(args json.RawMessage) (policy.Action, error) {
		// A hook's arguments have been through no transport.
		if err := rawjson.Unique(args); err != nil {
			return policy.Action{}, err
		}
		return s.describe(tool, args)
	}
	action, err := s.describe(tool, c.Arguments)
	if err != nil {
		return s.invalid(tool, c, err), nil
	}
	if !action.ReadOnly && action.Session != "" && s.opts.Outside != nil && s.opts.Outside(c.Caller, action.Session) {
		action.Permissions = policy.RequireEscalated
	}
	c.Action = action
	out, err := s.opts.Gate.Call(ctx, c)
	switch {
	case err == nil:
		return Reply{Result: out.Result, IsError: out.IsError}, nil
	case errors.Is(err, gate.ErrSuspended), ctx.Err() != nil:
		return Reply{}, err
	}
	if _, ok := errors.AsType[*aggregator.RPCError](err); ok {
		return Reply{}, err
	}
	r := errorReply(tool, err)
	_, r.Refused = errors.AsType[*gate.RefusedError](err)
	return r, nil
}

// invalid records a call whose arguments do not fit, and answers it.
func (s *Server) invalid(tool string, c gate.Call, err error) Reply {
	c.Action.Tool = tool
	s.opts.Gate.Invalid(c, err)
	return errorReply(tool, err)
}

func errorReply(tool string, err error) Reply {
	return Reply{Result: rawOf(tools.Error(tool, err), false).raw, IsError: true}
}

// progress returns what passes a backend's progress on to the client by way of
// notes, nil when the client did not ask for any.
func (s *Server) progress(ctx context.Context, c *client, req *mcp.CallToolRequest,
	notes *outbox) func(json.RawMessage) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	raw, err := marshal(token)
	if err != nil {
		return nil
	}
	return func(params json.RawMessage) {
		notes.post(func() {
			if ctx.Err() != nil {
				return
			}
			var err error
			if c != nil && c.carries {
				err = c.notify(ctx, "notifications/progress", withMember(params, "progressToken", raw))
			} else {
				var p mcp.ProgressNotificationParams
				if rawjson.Unmarshal(params, &p) != nil {
					return
				}
				p.ProgressToken = token // tokens belong to a hop
				err = req.Session.NotifyProgress(ctx, &p)
			}
			if err != nil {
				s.log.Debug("progress not passed on", "err", err)
			}
		})
	}
}
