// Package applypatch implements the tools apply_patch, edit_file, undo_patch
// and turn_diff. A patch is applied to all of its files or to none.
//
// A patch is in Codex's format or a unified diff; the parser detects which. All
// new contents are computed in memory before the first file is written. Paths
// are relative to the working folder.
//
// Only text can be edited. Binary files are refused, and so are characters that
// the encoding of a file cannot represent.
package applypatch

import (
	"context"
	"errors"
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

` + "A hunk begins with '@@', optionally with a whole line of the file above it (a function's head), " +
	"and needs about three unchanged lines on both sides. '*** Move to: new/path' after Update File moves the file; " +
	"'*** End of File' ties a hunk to the end. Unified diffs work too."

type input struct {
	Input string `json:"input" jsonschema:"the patch"`
}

// Options configures the tools.
type Options struct {
	// StateDir is the folder of the session. It holds pending steps, so that
	// the next process can roll back what a crashed one left unfinished, and
	// completed steps, for undo_patch and turn_diff. It is created if it does
	// not exist and may be shared by processes. If it is empty, steps are kept
	// in memory; a patch is then still atomic, but not across a crash.
	StateDir string

	// LockFile is a file that the sessions of one workspace share: while one of them changes
	// files, the others wait. It is created if it does not exist. The default is a file in
	// StateDir. Without both, a session only excludes its own calls.
	LockFile string

	// Roots are the folders, in addition to the workspace, that symbolic links
	// in a path may point into. "/" allows all, for a worker that runs outside
	// the sandbox with the user's approval. A link to anywhere else is a denial.
	Roots []string
}

// New returns apply_patch, undo_patch, turn_diff and edit_file. It does not access the
// file system.
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
		s.editFile(),
	}
}

// Recover completes or rolls back the patches that a crashed process left
// unfinished in o.StateDir. The tools do the same before each call; Recover is
// for a worker that starts. The notes report what could not be rolled back.
func Recover(ctx context.Context, o Options) (notes []string, err error) {
	if o.StateDir == "" {
		return nil, nil
	}
	leave, notes, err := newSession(o, &disk{}).acquire(ctx)
	if err != nil {
		return nil, err
	}
	leave()
	return notes, nil
}

// Unfinished reports whether a process has left a patch in stateDir unfinished, or is still
// applying it. It only reads the names of the files there.
func Unfinished(stateDir string) bool {
	_, pending, err := newStore(stateDir, &disk{}).ids()
	return err != nil || len(pending) > 0
}

// describe runs in the gate. It parses the patch and reads no file.
func describe(in input) (policy.Action, error) {
	p, err := Parse(in.Input)
	if err != nil {
		return policy.Action{}, err
	}
	return policy.Action{Writes: p.Paths(), Changes: p.changes(), Preview: p.source.text()}, nil
}

// apply runs in the worker, inside the sandbox.
func (s *session) apply(ctx context.Context, in input) (*mcp.CallToolResult, error) {
	p, err := Parse(in.Input)
	if err != nil {
		return nil, err
	}
	return s.change(ctx, func(at *resolver) (*plan, []string, error) {
		p, pl, err := p.plan(at)
		if err != nil {
			return nil, nil, err
		}
		return pl, p.Notes, nil
	})
}

// change commits the plan that makePlan returns, with notes for the result, as a step of the
// session. No other change of the workspace comes between.
func (s *session) change(
	ctx context.Context, makePlan func(*resolver) (*plan, []string, error),
) (*mcp.CallToolResult, error) {
	leave, recovered, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	at, err := newResolver(s.roots)
	if err != nil {
		return nil, err
	}
	pl, notes, err := makePlan(at)
	if err != nil {
		return nil, err
	}
	more, err := s.commit(ctx, pl, &step{Summary: pl.summary.line()})
	if err != nil {
		return nil, err
	}
	lines := slices.Concat([]string{pl.summary.String()}, recovered, notes, pl.notes, more)
	return tools.Text(strings.Join(lines, "\n")), nil
}

// plan returns the plan of p, or else of its fallback, and which of them it is.
func (p *Patch) plan(at *resolver) (*Patch, *plan, error) {
	p, err := p.located()
	if err != nil {
		return nil, nil, err
	}
	pl, err := makePlan(p, at)
	_, faulty := errors.AsType[*PatchError](err)
	switch {
	case faulty && p.fallback != nil:
		return p.fallback.plan(at)
	case faulty && len(p.Notes) > 0:
		return nil, nil, fmt.Errorf("%w\n%s", err, strings.Join(p.Notes, "\n"))
	}
	return p, pl, err
}
