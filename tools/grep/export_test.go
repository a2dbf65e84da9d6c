package grep

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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

// Rust returns expr as ripgrep is given it, and whether its matches can go over
// lines; ok is false for one that is wrong or that ripgrep cannot be given.
func Rust(expr string, fold, multiline bool) (rust string, over, ok bool) {
	letters := sensitive
	if fold {
		letters = insensitive
	}
	p, err := compile(expr, letters, multiline)
	if err != nil {
		return "", false, false
	}
	rust, ok = p.rust()
	return rust, p.multiline, ok
}

// FindRipgrep is the look-up of the rg program.
var FindRipgrep = findRipgrep

// Find runs the machine of expr over text, until stop returns true.
func Find(expr string, text []byte, stop func() bool) int {
	p, err := compile(expr, sensitive, false)
	if err != nil {
		panic(err)
	}
	return p.program.machine(stop).find(text)
}
