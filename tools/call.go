package tools

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
)

// A Call lets a running tool communicate with its caller. A nil Call discards
// everything.
type Call struct {
	// Notify sends message to the caller as progress. It is nil if the caller did
	// not ask for progress. It may be called concurrently.
	Notify func(message string)
}

// Progress reports progress if the caller asked for it.
func (c *Call) Progress(message string) {
	if c != nil && c.Notify != nil {
		c.Notify(message)
	}
}

// WantsProgress reports whether the caller asked for progress.
func (c *Call) WantsProgress() bool { return c != nil && c.Notify != nil }

// NewWithCall is [New] for a tool that reports progress. The Call may be nil.
func NewWithCall[In any](
	def Def,
	describe func(In) (policy.Action, error),
	run func(context.Context, *Call, In) (*mcp.CallToolResult, error),
) Tool {
	fields := fieldsOf(reflect.TypeFor[In]())
	// Lazily, because most processes of this binary publish no tools.
	schemas := sync.OnceValues(func() (*jsonschema.Schema, map[string]*jsonschema.Schema) {
		return schemaFor[In](def, fields)
	})
	schema := func() *jsonschema.Schema {
		s, _ := schemas()
		return s
	}
	published := func() string { return strings.Join(schema().PropertyOrder, ", ") }
	return Tool{
		def:       def,
		fields:    fields,
		published: schema,
		accepted: func() map[string]*jsonschema.Schema {
			_, all := schemas()
			return all
		},
		schema: sync.OnceValue(func() json.RawMessage { return encode(schema()) }),
		describe: func(args json.RawMessage) (policy.Action, error) {
			var in In
			if err := decode(args, &in, fields, published); err != nil {
				return policy.Action{}, err
			}
			a, err := describe(in)
			a.Tool = def.Name
			a.ReadOnly = a.ReadOnly || def.ReadOnly
			return a, err
		},
		run: func(ctx context.Context, call *Call, args json.RawMessage) (*mcp.CallToolResult, error) {
			var in In
			if err := decode(args, &in, fields, published); err != nil {
				return nil, err
			}
			if _, err := describe(in); err != nil {
				return nil, err
			}
			return run(ctx, call, in)
		},
	}
}

// An Argument is the type of an argument with a custom schema, such as an enum.
// EditSchema receives the schema derived from the Go type, with its description.
// Calls are not validated against the schema; validate in UnmarshalJSON or describe.
type Argument interface{ EditSchema(*jsonschema.Schema) }

// MarkSession sets the id of a running session that a call opened or continued in the
// result's _meta. The gate removes it, and routes later calls for the session to the same
// worker; see [policy.Action].
func MarkSession(res *mcp.CallToolResult, id string) { mark(res, policy.SessionKey, id) }

// Closing returns t with a function that ends what its calls left running. Several
// tools may share a function, so it must be safe to call repeatedly.
func Closing(t Tool, end func()) Tool {
	t.end = end
	return t
}

// Close ends what calls of t left running, such as background commands, and waits for
// it. The server of t calls it last.
func (t Tool) Close() {
	if t.end != nil {
		t.end()
	}
}
