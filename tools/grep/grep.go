// Package grep is the grep_files tool: it lists the files whose contents
// match a regular expression.
//
//	catalog := []tools.Tool{grep.Tool}
//
// What counts as a match is decided here, by the rules of ripgrep; a ripgrep
// program, when there is one, only makes finding the files faster. So the
// answer is the same with it and without.
package grep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
	"toolgate/tools/ignore"
)

type input struct {
	Pattern string `json:"pattern" jsonschema:"regular expression (RE2 syntax), matched line by line"`
	Include string `json:"include,omitempty" jsonschema:"glob of the files to search, such as *.go or src/**/*.{ts,tsx}"`
	Path    string `json:"path,omitempty" jsonschema:"folder or file to search; default the workspace"`
	Limit   *int   `json:"limit,omitempty" jsonschema:"most files to return, up to 2000; default 100"`
}

const (
	defaultLimit = 100
	maxLimit     = 2000
	maxOutput    = 40_000 // bytes of text in a result, about 10,000 tokens
	maxTime      = 30 * time.Second
)

// Tool is grep_files.
var Tool = tools.New(tools.Def{
	Name:  "grep_files",
	Title: "Search in files",
	Description: "Finds the files whose contents match a regular expression and lists their paths, the newest modified first. " +
		"Hidden files, binary files and what .gitignore names are left out.",
	ReadOnly:   true,
	Idempotent: true,
}, describe, run)

// describe runs in the gate, without touching the world.
func describe(in input) (policy.Action, error) {
	if in.Path == "" {
		in.Path = "."
	}
	return policy.Action{Reads: []string{in.Path}}, nil
}

// A query is what to look for and where, checked.
type query struct {
	pattern *pattern
	path    string // as given; "" is the working folder
	include string
	globs   *ignore.List // of include; nil for every file
}

func run(ctx context.Context, in input) (*mcp.CallToolResult, error) {
	q, limit, err := check(in)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	found, err := search(ctx, q, limit)
	if err != nil {
		return nil, err
	}
	return tools.Text(found.text(limit)), nil
}

func check(in input) (query, int, error) {
	limit := defaultLimit
	if in.Limit != nil {
		limit = *in.Limit
	}
	if limit < 1 {
		return query{}, 0, &tools.ArgumentError{Msg: fmt.Sprintf("limit is %d; it must be from 1 to %d", limit, maxLimit)}
	}
	limit = min(limit, maxLimit)
	q := query{path: in.Path, include: in.Include}
	var err error
	if q.pattern, err = compile(in.Pattern); err != nil {
		return query{}, 0, err
	}
	if in.Include != "" {
		if q.globs, err = ignore.ParseGlob(in.Include); err != nil {
			return query{}, 0, &tools.ArgumentError{Msg: fmt.Sprintf("include: %v; write a glob such as *.go or src/**/*.{ts,tsx}", err)}
		}
	}
	return q, limit, nil
}

// search returns the files that match, by ripgrep or by ourselves.
func search(ctx context.Context, q query, limit int) (*results, error) {
	root := q.path
	if root == "" {
		root = "."
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, explain(root, err)
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is neither a file nor a folder; choose another path", root)
	}
	if rg := ripgrep(); rg != "" {
		found, err := searchRipgrep(ctx, rg, q, limit)
		if err == nil {
			return found, nil
		}
		if !errors.Is(err, errRipgrep) {
			return nil, err
		}
	}
	return searchOurselves(ctx, q, info.IsDir(), limit)
}

// explain turns an error of the file system into words for the model.
func explain(path string, err error) error {
	denied := tools.AsDenial(err, "read", path)
	if _, ok := errors.AsType[*tools.Denial](denied); ok {
		return denied
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: does not exist; check the path with list_dir", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: permission denied by its owner and mode; choose another path", path)
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// text returns the result as the model reads it.
func (r *results) text(limit int) string {
	files := r.newest()
	var b strings.Builder
	shown := 0
	for _, f := range files {
		s := oneLine(f.path) + "\n"
		if b.Len()+len(s) > maxOutput {
			break
		}
		b.WriteString(s)
		shown++
	}
	var notes []string
	if r.total == 0 && !r.stopped {
		b.WriteString("No matches found.\n")
	}
	switch {
	case r.stopped:
		notes = append(notes, fmt.Sprintf("stopped after %d seconds, so files are missing here; search a smaller path or use include", int(maxTime.Seconds())))
	case shown < r.total && shown < limit:
		notes = append(notes, fmt.Sprintf("%d of %d files shown, more do not fit; search a smaller path or use include", shown, r.total))
	case shown < r.total:
		notes = append(notes, fmt.Sprintf("%d of %d files shown, the newest; raise limit, search a smaller path or use include", shown, r.total))
	}
	if n := r.unreadable; n > 0 {
		notes = append(notes, fmt.Sprintf("%d files or folders could not be read", n))
	}
	for i, n := range notes {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString("Note: " + n + ".\n")
	}
	return strings.TrimSpace(b.String())
}

// oneLine returns a name so that it cannot be taken for more than one name:
// quoted when it holds line ends or other control characters.
func oneLine(name string) string {
	plain := utf8.ValidString(name)
	for _, r := range name {
		plain = plain && !unicode.IsControl(r)
	}
	if plain {
		return name
	}
	return strconv.Quote(name)
}
