// Package server speaks MCP to the client: it lists the tools, leads each call
// through the gate, and puts the gate's questions to the person at the other
// end.
//
//	s := server.New(server.Options{Version: v, Catalog: catalog, Gate: gate, Log: log})
//	err := s.ServeStdio(ctx, os.Stdin, os.Stdout)
//
// All protocol versions are served on one stream: initialize (2024-11-05 to
// 2025-11-25), where a question is a request to the client, and 2026-07-28,
// where it is an input_required result that the client answers with a retry.
package server

import (
	"encoding/json"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/aggregator"
	"toolgate/aggregator/schema"
	"toolgate/internal/gate"
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

	// Redirect, if set, returns the tool of the Catalog that a call of another one is
	// a call of, and its arguments: a command that only applies a patch is a patch.
	Redirect func(policy.Action) (tool string, args json.RawMessage, ok bool)

	// Listed, if set, reports whether a tool of Catalog is listed for the client that
	// calls itself client. Whatever is in Catalog can be called.
	Listed func(tool, client string) bool

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
	opts  Options
	log   *slog.Logger
	tools map[string]tools.Tool
	info  json.RawMessage // what we call ourselves
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
	if o.Downstreams == nil {
		o.Downstreams = aggregator.NewDownstreams(aggregator.DownstreamOptions{})
	}
	s := &Server{opts: o, log: o.Log, tools: map[string]tools.Tool{}}
	s.info, _ = json.Marshal(s.implementation()) // strings always marshal
	for _, t := range o.Catalog {
		if _, twice := s.tools[t.Name()]; twice {
			panic("server.New: two tools named " + t.Name())
		}
		s.tools[t.Name()] = t
	}
	return s
}

// implementation is what we call ourselves.
func (s *Server) implementation() *mcp.Implementation {
	return &mcp.Implementation{Name: "toolgate", Title: "toolgate", Version: s.opts.Version}
}

func (s *Server) sessionOpened(caller string) {
	if s.opts.Opened != nil {
		go s.opts.Opened(caller) // ends with the start of a worker
	}
}

// statelessVersion is the first protocol version without sessions, in which a
// server asks by the result of a request.
const statelessVersion = "2026-07-28"

// sessionVersions are the protocol versions with sessions.
var sessionVersions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}
