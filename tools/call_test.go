package tools_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/tools"
)

type colour string

func (colour) EditSchema(s *jsonschema.Schema) { s.Enum = []any{"red", "green"} }

type shared struct {
	Why string `json:"why,omitempty" jsonschema:"the reason"`
}

type paintInput struct {
	Colour colour `json:"colour" jsonschema:"which one"`
	shared
}

var paintDef = tools.Def{Name: "paint", Description: "Paints."}

func describePaint(in paintInput) (policy.Action, error) {
	return policy.Action{Justification: in.Why, ReadOnly: in.Why == ""}, nil
}

// TestArguments has an argument that states its schema and some that several
// tools share.
func TestArguments(t *testing.T) {
	tool := tools.NewWithCall(paintDef, describePaint, func(_ context.Context, call *tools.Call, in paintInput) (*mcp.CallToolResult, error) {
		require.Nil(t, call)
		require.False(t, call.WantsProgress())
		call.Progress("nobody listens")
		return tools.Text(string(in.Colour) + in.Why), nil
	})
	schema, err := json.Marshal(tool.MCP().InputSchema)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"type": "object",
		"properties": {
			"colour": {"type": "string", "description": "which one", "enum": ["red", "green"]},
			"why": {"type": "string", "description": "the reason"}
		},
		"required": ["colour"]
	}`, string(schema))

	a, err := tool.Describe(json.RawMessage(`{"colour":"red","why":"mood"}`))
	require.NoError(t, err)
	require.Equal(t, policy.Action{Tool: "paint", Justification: "mood"}, a)
	a, err = tool.Describe(json.RawMessage(`{"colour":"red"}`))
	require.NoError(t, err)
	require.True(t, a.ReadOnly, "one call of a tool may change nothing")

	text := func(args string) string {
		return tool.Run(t.Context(), json.RawMessage(args)).Content[0].(*mcp.TextContent).Text
	}
	require.Equal(t, "redmood", text(`{"colour":"red","why":"mood"}`))
	require.Equal(t, `paint: argument "why" must be a string, not a number`, text(`{"colour":"red","why":5}`))
	require.Equal(t, `paint: unknown argument "shared"; the arguments are colour, why`, text(`{"colour":"red","shared":{}}`))
}

// TestServeProgress gives progress to a caller that asked for it, and none
// after the answer; the tools are closed at the end.
func TestServeProgress(t *testing.T) {
	var late func(string)
	closed := 0
	tool := tools.NewWithCall(paintDef, describePaint, func(_ context.Context, call *tools.Call, in paintInput) (*mcp.CallToolResult, error) {
		call.Progress("half")
		if call != nil {
			late = call.Notify
		}
		return tools.Text("done"), nil
	})
	tool = tools.Closing(tool, func() { closed++ })

	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	var served sync.WaitGroup
	served.Go(func() { // ends with its input
		tools.Serve(t.Context(), "test", []tools.Tool{tool}, inR, outW, slog.New(slog.DiscardHandler))
	})
	messages := make(chan string, 10)
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			messages <- req.Params.Message
		},
	})
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: outR, Writer: inW}, nil)
	require.NoError(t, err)
	params := &mcp.CallToolParams{Name: "paint", Arguments: json.RawMessage(`{"colour":"red"}`)}
	_, err = session.CallTool(t.Context(), params)
	require.NoError(t, err)
	require.Nil(t, late, "who did not ask for progress gets none")
	params.SetProgressToken("token")
	_, err = session.CallTool(t.Context(), params)
	require.NoError(t, err)
	require.Equal(t, "half", <-messages)
	late("too late")
	_, err = session.CallTool(t.Context(), params) // everything sent before its answer has come
	require.NoError(t, err)
	require.Equal(t, "half", <-messages)
	require.Empty(t, messages)
	require.Zero(t, closed)
	session.Close()
	inW.Close()
	served.Wait()
	require.Equal(t, 1, closed)
}
