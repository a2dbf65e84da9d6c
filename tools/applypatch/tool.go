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
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

const description = `Changes files by a patch: all of it or nothing.

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

A hunk begins with '@@', optionally with a whole line of the file above it (a function's head), and needs about three unchanged lines on both sides. '*** Move to: new/path' after Update File moves the file; '*** End of File' ties a hunk to the end. Unified diffs work too.`

type input struct {
	Input string `json:"input"`
}

// Tool is apply_patch without a state folder: see [New].
var Tool = New(Options{})[0]

// Options say where the tools keep what they must remember.
type Options struct {
	// StateDir is the folder of the session: steps under way, so that the next
	// process takes back what this one left unfinished when it died, and steps
	// done, for undo_patch and turn_diff. It is made when it is not there and may
	// be shared by processes. Empty keeps the steps in memory: then a patch is
	// still all or nothing, but not through a crash.
	StateDir string

	// Roots are folders beside the workspace into which a symbolic link in the
	// path of a file may lead; "/" is anywhere, for a worker that runs outside
	// the sandbox because somebody said yes. A link that leads out of them is a
	// denial.
	Roots []string
}

// New returns apply_patch, undo_patch and turn_diff. They touch nothing before
// they are run.
func New(o Options) []tools.Tool { return newSession(o, &disk{}).tools() }

func (s *session) tools() []tools.Tool {
	return []tools.Tool{
		tools.New(tools.Def{
			Name:        "apply_patch",
			Title:       "Apply a patch",
			Description: description,
			Destructive: true,
		}, describe, s.apply),
		tools.New(tools.Def{
			Name:        "undo_patch",
			Title:       "Undo a patch",
			Description: undoDescription,
			Destructive: true,
		}, describeUndo, s.undo),
		tools.New(tools.Def{
			Name:        "turn_diff",
			Title:       "Show what patches changed",
			Description: diffDescription,
			ReadOnly:    true,
			Idempotent:  true,
		}, describeDiff, s.diff),
	}
}

// Recover takes back, or brings to its end, what a process left that died in
// the middle of a patch with that state folder. The tools do the same before
// they do anything else; Recover is for a worker that starts. Notes tell what
// could not be mended.
func Recover(stateDir string) (notes []string, err error) {
	if stateDir == "" {
		return nil, nil
	}
	leave, notes, err := newSession(Options{StateDir: stateDir}, &disk{}).acquire()
	if err != nil {
		return nil, err
	}
	leave()
	return notes, nil
}

// describe runs in the gate: it reads the patch and no file.
func describe(in input) (policy.Action, error) {
	p, err := Parse(in.Input)
	if err != nil {
		return policy.Action{}, err
	}
	return policy.Action{Writes: p.Paths(), Preview: in.Input}, nil
}

// apply runs in the worker, inside the sandbox.
func (s *session) apply(ctx context.Context, in input) (*mcp.CallToolResult, error) {
	p, err := Parse(in.Input)
	if err != nil {
		return nil, err
	}
	leave, notes, err := s.acquire()
	if err != nil {
		return nil, err
	}
	defer leave()
	at, err := newResolver(s.roots)
	if err != nil {
		return nil, err
	}
	pl, err := makePlan(p, at)
	if err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("%w; nothing was changed", err)
	}
	more, err := s.commit(pl, &step{Summary: pl.summary.line()})
	if err != nil {
		return nil, err
	}
	lines := slices.Concat([]string{pl.summary.String()}, notes, pl.notes, more)
	return tools.Text(strings.Join(lines, "\n")), nil
}
