// Package applypatch is the apply_patch tool: it changes files as a patch
// says, all of them or none.
//
// A patch is written in Codex's format or as a unified diff; which one is told
// from the text. Every file is worked out in memory before the first is
// written. A path counts from the working folder.
//
// It edits text: a binary file is refused, and so is what it cannot write in
// the file's own encoding.
package applypatch

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

const description = `Change files with a patch: create, update, delete or move them. All of the patch is applied or nothing.

*** Begin Patch
*** Update File: path/to/file.py
@@ def greet():
 unchanged line
-removed line
+added line
*** Add File: path/to/new.txt
+first line
*** Delete File: path/to/old.txt
*** End Patch

Begin each hunk with '@@', optionally followed by a whole line of the file above it (a function's head); then lines that begin with ' ' (unchanged), '-' (removed) or '+' (added). Give about three unchanged lines on both sides. '*** Move to: new/path' after an Update File line moves the file; '*** End of File' after a hunk ties it to the end. A unified diff, also git's, is accepted too. Paths count from the workspace.`

type input struct {
	Input string `json:"input" jsonschema:"the whole patch, from '*** Begin Patch' to '*** End Patch', or a unified diff"`
}

// Tool is apply_patch.
var Tool = tools.New(tools.Def{
	Name:        "apply_patch",
	Title:       "Apply a patch",
	Description: description,
	Destructive: true,
}, describe, run)

// describe runs in the gate: it reads the patch and no file.
func describe(in input) (policy.Action, error) {
	p, err := Parse(in.Input)
	if err != nil {
		return policy.Action{}, err
	}
	return policy.Action{Writes: p.Paths(), Preview: in.Input}, nil
}

// run runs in the worker, inside the sandbox.
func run(_ context.Context, in input) (*mcp.CallToolResult, error) {
	p, err := Parse(in.Input)
	if err != nil {
		return nil, err
	}
	pl, err := makePlan(p)
	if err != nil {
		return nil, err
	}
	if err := pl.commit(); err != nil {
		return nil, err
	}
	return tools.Text(pl.summary.String()), nil
}
