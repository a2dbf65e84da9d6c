package grep

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/tools"
)

// Ripgrep returns the rg program that would be used.
func Ripgrep() string { return ripgrep() }

// RunWith runs the tool with the rg program given, "" for none.
func RunWith(ctx context.Context, rg, args string) *mcp.CallToolResult {
	old := ripgrep
	defer func() { ripgrep = old }()
	ripgrep = func() string { return rg }
	return Tool.Run(ctx, json.RawMessage(args))
}

var _ tools.Tool = Tool
