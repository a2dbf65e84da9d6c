package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/aggregator"
	"toolgate/internal/gate"
	"toolgate/policy"
	"toolgate/tools"
)

// Clients that show no resources to their model get them as tools, by the
// names and arguments that Codex gives its own.
const (
	listResources = "list_mcp_resources"
	listTemplates = "list_mcp_resource_templates"
	readResource  = "read_mcp_resource"
)

type listInput struct {
	Server string `json:"server,omitempty" jsonschema:"list this server's only; default all servers"`
	Cursor string `json:"cursor,omitempty" jsonschema:"not used: everything is listed at once"`
}

type readInput struct {
	Server string `json:"server" jsonschema:"server that has the resource, as list_mcp_resources names it"`
	URI    string `json:"uri" jsonschema:"URI of the resource"`
}

// inGate is the run of a tool that the gate answers itself.
func inGate[In any](context.Context, In) (*mcp.CallToolResult, error) {
	return nil, errors.New("bug: this tool runs in the gate")
}

// resourceTools are published while some downstream server has resources.
var resourceTools = []tools.Tool{
	tools.New(tools.Def{Name: listResources, Title: "List resources", ReadOnly: true, Idempotent: true,
		Description: "Lists the resources that MCP servers offer, such as files, documents and database schemas."},
		func(listInput) (policy.Action, error) { return policy.Action{ReadOnly: true}, nil }, inGate),
	tools.New(tools.Def{Name: listTemplates, Title: "List resource templates", ReadOnly: true, Idempotent: true,
		Description: "Lists the templates from which URIs of further resources of MCP servers are made."},
		func(listInput) (policy.Action, error) { return policy.Action{ReadOnly: true}, nil }, inGate),
	tools.New(tools.Def{Name: readResource, Title: "Read a resource", ReadOnly: true, Idempotent: true, OpenWorld: true,
		Description: "Reads a resource of an MCP server by its URI."},
		func(in readInput) (policy.Action, error) {
			return policy.Action{Server: in.Server}, nil
		}, inGate),
}

// ReservedTools returns the names of the tools that the server may add to those
// it is given.
func ReservedTools() []string { return []string{listResources, listTemplates, readResource} }

// servesResourceTools reports whether the resource tools are published: while there
// are resources. Without tools of our own, one server is published as it is.
func (s *Server) servesResourceTools() bool {
	downstreams := s.opts.Downstreams
	return len(s.tools) > 0 && len(downstreams.Resources())+len(downstreams.Templates()) > 0
}

// resourceTool returns the resource tool of this name, if it is published.
func (s *Server) resourceTool(name string) (tools.Tool, bool) {
	i := slices.IndexFunc(resourceTools, func(t tools.Tool) bool { return t.Name() == name })
	if i < 0 || !s.servesResourceTools() {
		return tools.Tool{}, false
	}
	return resourceTools[i], true
}

// describeRead returns what reading a resource would do: it is a call of its
// server, under that server's approval.
func (s *Server) describeRead(args json.RawMessage, a policy.Action) (policy.Action, error) {
	if !slices.Contains(s.opts.Downstreams.Names(), a.Server) {
		return a, fmt.Errorf("unknown MCP server '%s'", a.Server)
	}
	yes := true
	a = s.opts.Downstreams.Describe(aggregator.Tool{
		Server: a.Server, Raw: aggregator.ReadResource, Claims: policy.Claims{ReadOnly: &yes},
	})
	a.Preview = previewArguments(args)
	return a, nil
}

// list is the run of the two list tools, which it answers from the catalogs.
func (s *Server) list(_ context.Context, c gate.Call, _ policy.Profile) (gate.Outcome, error) {
	var in listInput
	if len(c.Arguments) > 0 {
		if err := json.Unmarshal(c.Arguments, &in); err != nil {
			return gate.Outcome{}, err
		}
	}
	set := s.opts.Downstreams
	if in.Server != "" && !slices.Contains(set.Names(), in.Server) {
		return gate.Outcome{}, fmt.Errorf("unknown MCP server '%s'", in.Server)
	}
	if in.Cursor != "" && in.Server == "" {
		return gate.Outcome{}, errors.New("cursor can only be used when a server is specified")
	}
	key, list := "resources", set.Resources()
	if c.Action.Tool == listTemplates {
		key, list = "resourceTemplates", set.Templates()
	}
	found := []map[string]json.RawMessage{}
	for _, n := range list {
		if in.Server != "" && n.Server != in.Server {
			continue
		}
		var def map[string]json.RawMessage
		if err := json.Unmarshal(n.Definition, &def); err != nil {
			continue
		}
		def["server"], _ = json.Marshal(n.Server) // a string always marshals
		found = append(found, def)
	}
	all := map[string]any{key: found}
	if in.Server != "" {
		all["server"] = in.Server
	}
	text, err := marshal(all)
	if err != nil {
		return gate.Outcome{}, err
	}
	return gate.Outcome{Result: resultOf(tools.Text(string(text)))}, nil
}
