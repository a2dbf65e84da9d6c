package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/aggregator"
	"toolgate/aggregator/schema"
	"toolgate/policy"
	"toolgate/tools"
)

// A Listed is one tool as clients see it.
type Listed struct {
	Name        string
	Description string
	Definition  json.RawMessage // its element of tools/list
}

// Listing returns what tools/list answers, sorted by name: our own tools and
// those of the downstream servers.
func (s *Server) Listing() ([]Listed, error) { return s.listing(s.opts.Schemas) }

func (s *Server) listing(schemas schema.Profile) ([]Listed, error) {
	var list []Listed
	for _, t := range s.tools {
		def, err := marshal(t.MCP())
		if err != nil {
			return nil, err
		}
		list = append(list, Listed{Name: t.Name(), Description: t.MCP().Description, Definition: def})
	}
	for _, t := range resourceTools {
		if _, ok := s.resourceTool(t.Name()); !ok {
			continue
		}
		def, err := marshal(t.MCP())
		if err != nil {
			return nil, err
		}
		list = append(list, Listed{Name: t.Name(), Description: t.MCP().Description, Definition: def})
	}
	if s.opts.Downstreams != nil {
		for _, t := range s.opts.Downstreams.Tools() {
			list = append(list, Listed{Name: t.Name, Description: t.Description, Definition: t.DefinitionFor(schemas)})
		}
	}
	slices.SortFunc(list, func(a, b Listed) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// marshal is json.Marshal without its escapes for HTML.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// listTools answers tools/list from our own table, whatever the servers
// behind are doing; only those that the user calls required are waited for.
func (s *Server) listTools(ctx context.Context, req mcp.Request, modern bool) (mcp.Result, error) {
	s.opts.Downstreams.WaitListed(ctx, true)
	list, err := s.listing(s.schemasFor(req))
	if err != nil {
		return nil, err
	}
	var defs []json.RawMessage
	for _, t := range list {
		defs = append(defs, t.Definition)
	}
	return listResult("tools", defs, modern), nil
}

// schemasFor returns the profile of schemas for the client of a request: what
// the user has set, else what clients of that name take.
func (s *Server) schemasFor(req mcp.Request) schema.Profile {
	if s.opts.Schemas != "" {
		return s.opts.Schemas
	}
	r, ok := req.(interface{ ClientInfo() *mcp.Implementation })
	if !ok || r.ClientInfo() == nil {
		return schema.Plain
	}
	return schema.ProfileFor(r.ClientInfo().Name)
}

// listTTL is how long a stateless client may use a list without asking again.
const listTTL = 30_000 // milliseconds

// listResult returns a list result of the caller's era, with the elements'
// own bytes.
func listResult(key string, defs []json.RawMessage, modern bool) *rawResult {
	b := []byte(`{"` + key + `":[`)
	for i, d := range defs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, d...)
	}
	b = append(b, ']')
	if modern {
		b = fmt.Appendf(b, `,"ttlMs":%d,"cacheScope":"private"`, listTTL)
	}
	return &rawResult{raw: append(b, '}'), modern: modern}
}

// passesOn reports whether the tool is a downstream server's.
func (s *Server) passesOn(tool string) bool {
	if _, ours := s.tools[tool]; ours || s.opts.Downstreams == nil {
		return false
	}
	return s.opts.Downstreams.Has(tool)
}

func (s *Server) isDownstream(tool string) bool {
	if s.opts.Downstreams == nil {
		return false
	}
	if _, ok := s.resourceTool(tool); ok && tool == readResource {
		return true
	}
	return s.opts.Downstreams.Has(tool)
}

// Has reports whether there is a tool of this name, ours or a downstream's.
func (s *Server) Has(tool string) bool {
	if s.passesOn(tool) {
		return true
	}
	_, ours := s.tools[tool]
	_, resource := s.resourceTool(tool)
	return ours || resource || s.isDownstream(tool)
}

// describe returns what the call would do.
func (s *Server) describe(tool string, args json.RawMessage) (policy.Action, error) {
	if t, ok := s.tools[tool]; ok {
		return t.Describe(args)
	}
	if t, ok := s.resourceTool(tool); ok {
		a, err := t.Describe(args)
		if err != nil {
			return a, err
		}
		return s.describeRead(args, a)
	}
	t, ok := s.opts.Downstreams.Tool(tool)
	if !ok {
		return policy.Action{}, errors.New("the server does not offer this tool any more")
	}
	a := s.opts.Downstreams.Describe(t)
	a.Preview = previewArguments(args)
	return a, nil
}

// previewArguments returns args for a person to read.
func previewArguments(args json.RawMessage) string {
	if len(bytes.TrimSpace(args)) <= len("{}") {
		return ""
	}
	var b bytes.Buffer
	if json.Indent(&b, args, "", "  ") != nil {
		return ""
	}
	return "With these arguments:\n" + b.String()
}

// rpcError returns a downstream server's error as the client gets it.
func rpcError(e *aggregator.RPCError) error {
	return &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}
}

func errorResult(tool string, err error) *rawResult {
	return rawOf(tools.Error(tool, err), true)
}

// unknownTool is the error for a call of a tool that is not there.
func unknownTool(name string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", name)}
}
