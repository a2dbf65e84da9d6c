// Package grep implements the tools grep_files, which searches files for a regular
// expression, and find_files, which lists files by a glob of their path.
//
//	catalog := []tools.Tool{grep.Tool, grep.FindFiles}
//
// Matching follows the rules of ripgrep; the tests compare the two.
//
// Expressions have RE2's syntax. In addition, \w, \d, \s and \b support Unicode, and
// \u1234, \<, \>, \b{start}, \b{end} and {,3} have their meaning, as in ripgrep. Unlike
// in ripgrep, a brace that repeats nothing is literal, [a[b] is a class that contains a
// bracket, and operators on classes (&&, --, ~~), classes within classes and the flag x
// are refused. The Unicode version is that of Go, which may differ from ripgrep's in
// recently added characters.
package grep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/ignore"
	"toolgate/policy"
	"toolgate/tools"
)

type input struct {
	Pattern   string     `json:"pattern" jsonschema:"regular expression; no look-around, no back-references"`
	Include   string     `json:"include,omitempty" jsonschema:"glob, such as src/**/*.{ts,tsx}; ! before it leaves files out"`
	Path      string     `json:"path,omitempty" jsonschema:"default the workspace"`
	Type      string     `json:"type,omitempty" jsonschema:"of file: go, py, js ..."`
	Limit     *int       `json:"limit,omitempty" jsonschema:"default 100"`
	Offset    *int       `json:"offset,omitempty" jsonschema:"default 1"`
	Output    outputMode `json:"output_mode,omitempty" jsonschema:"files (default), content or count"`
	Context   int        `json:"context,omitempty" jsonschema:"lines around each match of content, marked -"`
	Before    *int       `json:"before,omitempty" jsonschema:"only before"`
	After     *int       `json:"after,omitempty" jsonschema:"only after"`
	Matching  bool       `json:"only_matching,omitempty" jsonschema:"matches, not their lines"`
	Case      letterCase `json:"case,omitempty" jsonschema:"sensitive (default), insensitive, or smart"`
	Multiline bool       `json:"multiline,omitempty" jsonschema:"match over line ends"`
}

const (
	maxContext = 100
	maxOutput  = tools.DefaultBudget * tools.BytesPerToken // bytes of text in a result
	maxTime    = 30 * time.Second
)

// Tool is grep_files.
var Tool = tools.New(tools.Def{
	Name:  "grep_files",
	Title: "Search in files",
	Description: "Lists files whose contents match a regular expression, the newest first; " +
		"with output_mode, lines or counts. " +
		"Hidden, binary and ignored files are left out, unless path or include names them.",
	ReadOnly:   true,
	Idempotent: true,
}, describe, run)

// describe runs in the gate and has no side effects.
func describe(in input) (policy.Action, error) {
	if _, err := check(in); err != nil {
		return policy.Action{}, err
	}
	return policy.Action{Reads: []string{cmp.Or(in.Path, ".")}}, nil
}

// A query is a validated input.
type query struct {
	pattern  *pattern
	expr     string       // the pattern as given
	path     string       // as given; "" means the working folder
	globs    *ignore.List // to include; nil for every file
	types    *ignore.List // names of files of the type; nil for every file
	output   outputMode
	matching bool // only_matching
	before   int  // lines of context
	after    int
	page     page
}

func (q query) root() string { return cmp.Or(q.path, ".") }

type outputMode string

const (
	outputFiles   outputMode = "files"
	outputContent outputMode = "content"
	outputCount   outputMode = "count"
)

// check validates the arguments. Its errors are for the model.
func check(in input) (query, error) {
	q := query{
		expr: in.Pattern, path: in.Path, output: cmp.Or(in.Output, outputFiles), matching: in.Matching,
		before: *cmp.Or(in.Before, &in.Context), after: *cmp.Or(in.After, &in.Context),
	}
	var err error
	if q.page, err = newPage(in.Offset, in.Limit); err != nil {
		return query{}, err
	}
	if least, most := min(q.before, q.after), max(q.before, q.after); least < 0 || most > maxContext {
		const format = "context is %d lines before and %d after; it must be from 0 to %d"
		return query{}, fmt.Errorf(format, q.before, q.after, maxContext)
	}
	if q.matching {
		if in.Output != "" && in.Output != outputContent {
			return query{}, fmt.Errorf("only_matching shows contents; leave out output_mode %q", in.Output)
		}
		q.output, q.before, q.after = outputContent, 0, 0
	}
	if !slices.Contains([]outputMode{outputFiles, outputContent, outputCount}, q.output) {
		return query{}, fmt.Errorf("output_mode %q is unknown; modes are files, content, count", q.output)
	}
	letters := cmp.Or(in.Case, sensitive)
	if !slices.Contains([]letterCase{sensitive, insensitive, smart}, letters) {
		return query{}, fmt.Errorf("case %q is unknown; it is sensitive, insensitive or smart", letters)
	}
	if q.pattern, err = compile(in.Pattern, letters, in.Multiline); err != nil {
		return query{}, err
	}
	if include := strings.TrimSpace(in.Include); include != "" {
		if q.globs, err = ignore.ParseGlob(include); err != nil {
			return query{}, fmt.Errorf("include: %v; write a glob such as *.go or src/**/*.{ts,tsx}", err)
		}
	}
	if in.Type != "" {
		if q.types, err = fileType(in.Type); err != nil {
			return query{}, err
		}
	}
	return q, nil
}

// run runs in the worker, inside the sandbox.
func run(ctx context.Context, in input) (*mcp.CallToolResult, error) {
	q, err := check(in)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(q.root())
	if err != nil {
		return nil, explain(q.root(), err)
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is neither a file nor a folder; choose another path", q.root())
	}
	f, err := tools.OpenNonblocking(q.root())
	if err != nil {
		return nil, explain(q.root(), err)
	}
	f.Close()
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	found, err := search(ctx, q, info.IsDir())
	if err != nil {
		return nil, err
	}
	text, err := answer(ctx, q, found, !info.IsDir())
	if err != nil {
		return nil, err
	}
	return tools.Text(text), nil
}

// explain returns an error of the file system in a form for the model.
func explain(path string, err error) error {
	if denied := tools.AsDenial(err, "read", path); denied != nil {
		return denied
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return tools.NewMissing(path, true, "does not exist", "check the path with list_dir")
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: permission denied by its owner and mode; choose another path", path)
	}
	return fmt.Errorf("%s: %w", path, tools.Reason(err))
}
