package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"toolgate/aggregator"
	"toolgate/internal/gate"
	"toolgate/internal/rawjson"
	"toolgate/policy"
	"toolgate/tools"
)

// callTool is tools/call.
func (r *request) callTool(ctx context.Context) (json.RawMessage, error) {
	s, name := r.conn.s, r.params.Text("name")
	call := r.call(ctx)
	call.Arguments = r.params.Get("arguments")
	if !s.Has(name) {
		s.opts.Downstreams.WaitForTool(ctx, name)
		if !s.Has(name) {
			err := &UnknownToolError{Name: name, Known: s.names()}
			s.invalid(name, call, err)
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.message()}
		}
	}
	if task := r.params.Get("task"); rawjson.Kind(task) == '{' {
		call.Task = task
	}
	res, err := r.run(ctx, call, func(ctx context.Context, call gate.Call) (json.RawMessage, error) {
		reply, err := s.call(ctx, name, call)
		return reply.Result, err
	})
	if retry, ok := errors.AsType[retryError](err); ok {
		return errorReply(name, retry).Result, nil
	}
	return res, err
}

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
	call := gate.Call{ID: rand.Text()[:12], Caller: caller, Arguments: args, Ask: ask, AskedVia: "terminal"}
	// Those of a client have been through its transport.
	err := rawjson.Unique(args)
	if len(bytes.TrimSpace(args)) == 0 {
		err = nil
	}
	if err != nil {
		call.Arguments = nil // a record of them would show one value
	}
	if !s.Has(tool) {
		unknown := &UnknownToolError{Name: tool, Known: s.names()}
		s.invalid(tool, call, unknown)
		return Reply{}, unknown
	}
	if err != nil {
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

// Hint returns which tool may be meant, and which there are.
func (e *UnknownToolError) Hint() string {
	all := "the tools are " + strings.Join(e.Known, ", ")
	if near := e.nearest(); near != "" {
		return near + "; " + all
	}
	return all
}

// message returns the error for a model, which has the list of tools.
func (e *UnknownToolError) message() string {
	text := fmt.Sprintf("unknown tool %q", e.Name)
	if near := e.nearest(); near != "" {
		text += "; " + near
	}
	return text
}

// verbs are words in the names of other agents' tools, by words in the names of ours.
var verbs = map[string][]string{
	"shell": {"bash", "terminal", "run", "execute", "cmd"},
	"read":  {"view", "open", "cat"},
	"edit":  {"str", "replace", "multi", "update", "modify"},
	"write": {"create", "save"},
	"grep":  {"search", "ripgrep", "rg"},
	"find":  {"glob"},
	"list":  {"ls"},
	"dir":   {"directory", "folder"},
}

// nearest returns a question about the tools that may be meant, "" if no name is near:
// those that look the same, or else those that share the most words.
func (e *UnknownToolError) nearest() string {
	name := strings.ToLower(e.Name)
	name = name[strings.LastIndex(name, "__")+1:] // of a client's prefix
	near := tools.NearestNames(strings.Trim(name, "_"), e.Known)
	if len(near) == 0 {
		near = e.related(tools.Words(e.Name))
	}
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(near[:min(len(near), 3)], ", ") + "?"
}

// related returns the tools whose names share the most words with given, if any does.
func (e *UnknownToolError) related(given []string) (best []string) {
	most := 0
	for _, known := range e.Known {
		shared := 0
		for _, word := range tools.Words(known) {
			if slices.ContainsFunc(given, func(g string) bool { return g == word || slices.Contains(verbs[word], g) }) {
				shared++
			}
		}
		if shared > most {
			best, most = nil, shared
		}
		if shared == most && most > 0 {
			best = append(best, known)
		}
	}
	return best
}

func (s *Server) names() []string {
	var names []string
	for n := range s.tools {
		names = append(names, n)
	}
	for _, t := range s.opts.Downstreams.Tools() {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names
}

// call describes the call and hands it to the gate.
func (s *Server) call(ctx context.Context, tool string, c gate.Call) (Reply, error) {
	if _, ok := s.resourceTool(tool); ok && tool != readResource {
		c.Run = s.list
	}
	notes, err := s.canonical(tool, &c)
	if err != nil {
		return s.invalid(tool, c, err), nil
	}
	action, err := s.describe(tool, c.Arguments)
	if err == nil && s.opts.Redirect != nil {
		to, args, ok := s.opts.Redirect(action)
		if _, offered := s.tools[to]; ok && offered {
			tool, c.Arguments = to, args
			action, err = s.describe(tool, args)
		}
	}
	c.Describe = func(args json.RawMessage) (policy.Action, error) {
		// A hook's arguments have been through no transport.
		if err := rawjson.Unique(args); err != nil {
			return policy.Action{}, err
		}
		return s.describe(tool, args)
	}
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
		for _, note := range notes {
			out.Result = aggregator.AddText(out.Result, note)
		}
		return Reply{Result: out.Result, IsError: out.IsError}, nil
	case ctx.Err() != nil:
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
	return Reply{Result: resultOf(tools.Error(tool, err)), IsError: true}
}
