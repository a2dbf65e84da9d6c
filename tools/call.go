package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
)

// A Call is what a running tool knows of the call it serves. A nil Call is a
// call of which nothing is known.
type Call struct {
	// Notify sends message to the caller as progress. It is nil when the
	// caller did not ask for progress, and may be called concurrently.
	Notify func(message string)
}

// Progress tells the caller how far the call is, if the caller wants to know.
func (c *Call) Progress(message string) {
	if c != nil && c.Notify != nil {
		c.Notify(message)
	}
}

// WantsProgress reports whether anybody listens to Progress.
func (c *Call) WantsProgress() bool { return c != nil && c.Notify != nil }

// NewWithCall is [New] for a tool that reports progress. Its run may be given
// a nil Call.
func NewWithCall[In any](def Def, describe func(In) (policy.Action, error), run func(context.Context, *Call, In) (*mcp.CallToolResult, error)) Tool {
	required := requiredOf[In]()
	return Tool{
		def: def,
		// Most processes of this binary publish no tools.
		schema: sync.OnceValue(func() json.RawMessage {
			schema, err := schemaFor[In]()
			if err != nil {
				panic(fmt.Sprintf("tools.New: %s: %v", def.Name, err))
			}
			return schema
		}),
		describe: func(args json.RawMessage) (policy.Action, error) {
			var in In
			if err := decode(args, &in, required); err != nil {
				return policy.Action{}, err
			}
			a, err := describe(in)
			a.Tool = def.Name
			a.ReadOnly = a.ReadOnly || def.ReadOnly
			return a, err
		},
		run: func(ctx context.Context, call *Call, args json.RawMessage) (*mcp.CallToolResult, error) {
			var in In
			if err := decode(args, &in, required); err != nil {
				return nil, err
			}
			return run(ctx, call, in)
		},
	}
}

// An Argument is the type of an argument whose schema the type's kind does not
// give, such as one of a few words. EditSchema is given the schema made from
// the kind, with its description. What a call sends is not checked against it;
// that is for the type's UnmarshalJSON or for describe.
type Argument interface{ EditSchema(*jsonschema.Schema) }

// SessionKey is the _meta key under which a worker tells the gate the id of the
// session that a call opened or went on with and that still runs, so that
// later calls for it, see [policy.Action], go to the same worker. The gate
// takes it out again.
const SessionKey = policy.SessionKey

// MarkSession puts the id of a running session into the result's _meta.
func MarkSession(res *mcp.CallToolResult, id string) {
	if res.Meta == nil {
		res.Meta = mcp.Meta{}
	}
	res.Meta[SessionKey] = id
}

// Closing returns t with a function that ends what its calls left running.
// Functions of several tools may be the same; each must bear being called
// again.
func Closing(t Tool, end func()) Tool {
	t.end = end
	return t
}

// Close ends what calls of t left running, such as commands in the background.
// It returns when they have ended. Whoever serves t calls it last.
func (t Tool) Close() {
	if t.end != nil {
		t.end()
	}
}
