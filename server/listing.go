package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"toolgate/aggregator/schema"
	"toolgate/internal/gate"
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
func (s *Server) Listing() ([]Listed, error) { return s.listing(s.opts.Schemas, "") }

// listing is [Server.Listing] for the client that calls itself client.
func (s *Server) listing(schemas schema.Profile, client string) ([]Listed, error) {
	var list []Listed
	own := slices.Collect(maps.Values(s.tools))
	own = slices.DeleteFunc(own, func(t tools.Tool) bool {
		return s.opts.Listed != nil && !s.opts.Listed(t.Name(), client)
	})
	if s.servesResourceTools() {
		own = append(own, resourceTools...)
	}
	for _, t := range own {
		def, err := marshal(t.MCP())
		if err != nil {
			return nil, err
		}
		list = append(list, Listed{Name: t.Name(), Description: t.MCP().Description, Definition: def})
	}
	for _, t := range s.opts.Downstreams.Tools() {
		list = append(list, Listed{Name: t.Name, Description: t.Description, Definition: t.DefinitionFor(schemas)})
	}
	slices.SortFunc(list, func(a, b Listed) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// listTools answers tools/list from our own table, whatever the downstream
// servers are doing; only required ones are waited for.
func (r *request) listTools() (json.RawMessage, error) {
	schemas := r.conn.s.opts.Schemas
	if schemas == "" {
		schemas = schema.ProfileFor(r.agent)
	}
	client := r.agent
	if r.stateless {
		client = "" // the tools must not depend on the connection (specification 2026-07-28)
	}
	list, err := r.conn.s.listing(schemas, client)
	if err != nil {
		return nil, err
	}
	var defs []json.RawMessage
	for _, t := range list {
		defs = append(defs, t.Definition)
	}
	return r.list("tools", defs), nil
}

// Has reports whether there is a tool of this name, ours or a downstream server's.
func (s *Server) Has(tool string) bool {
	_, ours := s.tools[tool]
	_, resource := s.resourceTool(tool)
	return ours || resource || s.opts.Downstreams.Has(tool)
}

// canonical changes the arguments of a call of our own tools into those of the tool's
// schema, see [tools.Tool.Canonical]. Those of other servers' tools stay as they are.
func (s *Server) canonical(tool string, c *gate.Call) (notes []string, err error) {
	t, ok := s.tools[tool]
	if !ok {
		t, ok = s.resourceTool(tool)
	}
	if !ok {
		return nil, nil
	}
	args, notes, err := t.Canonical(c.Arguments)
	if err == nil {
		c.Arguments = args
	}
	return notes, err
}

// describe returns what the call would do.
func (s *Server) describe(tool string, args json.RawMessage) (policy.Action, error) {
	if t, ok := s.tools[tool]; ok {
		return t.Describe(args)
	}
	if t, ok := s.resourceTool(tool); ok {
		a, err := t.Describe(args)
		if err != nil || tool != readResource {
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
