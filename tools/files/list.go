package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

type listInput struct {
	Path   string `json:"dir_path" jsonschema:"folder to list; a relative path counts from the workspace"`
	Offset *int   `json:"offset,omitempty" jsonschema:"first entry to return, counted from 1; default 1"`
	Limit  *int   `json:"limit,omitempty" jsonschema:"most entries to return; default 25"`
	Depth  *int   `json:"depth,omitempty" jsonschema:"levels of folders to go down; default 2"`
}

const (
	defaultEntries = 25
	defaultDepth   = 2
)

// ListDir is list_dir.
var ListDir = tools.New(tools.Def{
	Name:  "list_dir",
	Title: "List a folder",
	Description: "Lists a folder as an indented tree, names in order. " +
		"A name ends in / for a folder, @ for a symbolic link, ? for anything else that is not a file. " +
		"Hidden entries are listed too.",
	ReadOnly:   true,
	Idempotent: true,
}, describeList, list)

func describeList(in listInput) (policy.Action, error) {
	if in.Path == "" {
		return policy.Action{}, &tools.ArgumentError{Msg: "dir_path is empty; give the path of a folder, \".\" for the workspace"}
	}
	return policy.Action{Reads: []string{in.Path}}, nil
}

func list(ctx context.Context, in listInput) (*mcp.CallToolResult, error) {
	if _, err := describeList(in); err != nil {
		return nil, err
	}
	offset, err := atLeastOne("offset", in.Offset, 1)
	if err != nil {
		return nil, err
	}
	limit, err := atLeastOne("limit", in.Limit, defaultEntries)
	if err != nil {
		return nil, err
	}
	depth, err := atLeastOne("depth", in.Depth, defaultDepth)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(in.Path)
	if err != nil {
		return nil, err
	}
	const hint = "list the folder above it to see what there is"
	info, err := os.Stat(abs)
	if err != nil {
		return nil, explain(in.Path, err, hint)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: is not a folder; use read_file", in.Path)
	}

	l := lister{ctx: ctx, skip: offset - 1, limit: limit}
	fmt.Fprintf(&l.text, "Absolute path: %s\n", oneLine(abs))
	switch err := l.folder(abs, 0, depth); {
	case errors.Is(err, errPageFull):
	case err != nil:
		return nil, explain(in.Path, err, hint)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: listing was stopped; ask for less depth", in.Path)
	}
	switch {
	case l.more:
		fmt.Fprintf(&l.text, "More than %d entries found; continue with offset %d\n", l.listed, offset+l.listed)
	case l.seen == 0:
		l.text.WriteString("The folder is empty.\n")
	case l.listed == 0:
		return nil, fmt.Errorf("%s: offset %d is past the end, there are %d entries; use an offset from 1 to %d", in.Path, offset, l.seen, l.seen)
	}
	return tools.Text(strings.TrimSuffix(l.text.String(), "\n")), nil
}

// errPageFull ends a listing when the page is full.
var errPageFull = errors.New("page full")

// A lister walks a tree in the order in which it is shown, a folder before
// what is in it, and keeps one page of it.
type lister struct {
	ctx   context.Context
	skip  int // entries before the page
	limit int // entries of the page

	seen   int
	listed int
	more   bool
	text   strings.Builder
}

// folder lists what is in the folder at path, levels deep.
func (l *lister) folder(path string, level, levels int) error {
	entries, err := sortedEntries(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := l.ctx.Err(); err != nil {
			return errPageFull
		}
		if err := l.entry(path, e, level, levels); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) entry(dir string, e fs.DirEntry, level, levels int) error {
	l.seen++
	if l.seen > l.skip {
		if l.listed == l.limit {
			l.more = true
			return errPageFull
		}
		s := strings.Repeat("  ", level) + cut(oneLine(e.Name()), maxColumn) + suffix(e.Type()) + "\n"
		if l.text.Len()+len(s) > maxOutput {
			l.more = true
			return errPageFull
		}
		l.text.WriteString(s)
		l.listed++
	}
	if !e.IsDir() || level+1 >= levels {
		return nil
	}
	err := l.folder(filepath.Join(dir, e.Name()), level+1, levels)
	if err == nil || errors.Is(err, errPageFull) {
		return err
	}
	return nil // a folder below that cannot be read is listed without what is in it
}

func suffix(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "/"
	case m&fs.ModeSymlink != 0:
		return "@"
	case !m.IsRegular():
		return "?"
	}
	return ""
}

// sortedEntries returns what is in the folder at path, in the order of names.
func sortedEntries(path string) ([]fs.DirEntry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}
