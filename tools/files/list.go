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

	"toolgate/internal/ignore"
	"toolgate/policy"
	"toolgate/tools"
)

type listInput struct {
	Path   string `json:"dir_path" jsonschema:"folder to list"`
	Offset *int   `json:"offset,omitempty" jsonschema:"default 1"`
	Limit  *int   `json:"limit,omitempty" jsonschema:"default all that fit"`
	Depth  *int   `json:"depth,omitempty" jsonschema:"default 2"`

	Sizes     bool `json:"sizes,omitempty" jsonschema:"of files too"`
	GitIgnore bool `json:"gitignore,omitempty" jsonschema:"leave out ignored files and .git"`
}

const (
	defaultEntries = maxOutput // more than fit
	defaultDepth   = 2
)

// ListDir is list_dir.
var ListDir = tools.New(tools.Def{
	Name:  "list_dir",
	Title: "List a folder",
	Description: "Lists a folder, hidden entries too, as an indented tree. " +
		"/ ends a folder's name, @ a symbolic link's, ? that of anything else but a file.",
	ReadOnly:   true,
	Idempotent: true,
}, describeList, list)

func describeList(in listInput) (policy.Action, error) {
	return readAction("dir_path", in.Path, `give the path of a folder, "." for the workspace`)
}

func list(ctx context.Context, in listInput) (*mcp.CallToolResult, error) {
	var c counts
	offset := c.read("offset", in.Offset, 1)
	limit := c.read("limit", in.Limit, defaultEntries)
	depth := c.read("depth", in.Depth, defaultDepth)
	if c.err != nil {
		return nil, c.err
	}
	abs, err := filepath.Abs(in.Path)
	if err != nil {
		return nil, err
	}
	const hint = "list the folder above it to see what there is"
	info, err := os.Stat(abs)
	if err != nil {
		return nil, explain(in.Path, true, err, hint)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: is not a folder; use read_file", in.Path)
	}

	// Cut to what no folder and no page exceeds, so that sums do not overflow.
	l := lister{ctx: ctx, skip: min(offset-1, 1<<30), limit: min(limit, maxOutput), levels: depth, sizes: in.Sizes}
	fmt.Fprintf(&l.text, "Absolute path: %s\n", tools.OneLine(abs))
	top := folder{path: abs}
	if in.GitIgnore {
		top.rules = ignore.Root(abs, ignore.Git)
	}
	switch err := l.folder(top); {
	case err == nil, errors.Is(err, errPageFull):
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: listing was stopped; ask for less depth", in.Path)
	default:
		return nil, explain(in.Path, true, err, hint)
	}
	switch {
	case l.more:
		fmt.Fprintf(&l.text, "More than %d entries found; continue with offset %d\n", l.listed, offset+l.listed)
	case l.seen == 0:
		l.text.WriteString("The folder is empty.\n")
	case l.listed == 0:
		return nil, pastEnd(in.Path, fmt.Sprintf("offset %d", offset), l.seen, "entry", "entries")
	}
	return tools.Text(strings.TrimSuffix(l.text.String(), "\n")), nil
}

// errPageFull stops a listing when the page is full.
var errPageFull = errors.New("page full")

// A lister walks a tree in the order of the listing, folders before their contents, and
// keeps one page.
type lister struct {
	ctx    context.Context // of the call that the lister serves
	skip   int             // entries before the page
	limit  int             // entries of the page
	levels int
	sizes  bool

	seen   int
	listed int
	more   bool
	text   strings.Builder
}

// A folder is a folder being listed.
type folder struct {
	path  string
	level int
	rules *ignore.Dir // nil lists everything
}

func byName(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) }

// folder lists what is in f. It keeps only as many of the entries as may precede the end
// of the page.
func (l *lister) folder(f folder) error {
	most := max(l.skip-l.seen, 0) + l.limit + 1
	var entries []fs.DirEntry
	err := l.scan(f, func(e fs.DirEntry) {
		if entries = append(entries, e); len(entries) >= 2*most {
			slices.SortFunc(entries, byName)
			entries = entries[:most]
		}
	})
	if err != nil {
		return err
	}
	slices.SortFunc(entries, byName)
	for _, e := range entries {
		if err := l.entry(f, e); err != nil {
			return err
		}
	}
	return nil
}

// scan calls do for each entry of f to list, in any order.
func (l *lister) scan(f folder, do func(fs.DirEntry)) error {
	dir, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		entries, err := dir.ReadDir(1024)
		for _, e := range entries {
			if f.rules != nil && (e.Name() == ".git" || f.rules.Match(e.Name(), e.IsDir()) == ignore.Ignored) {
				continue
			}
			do(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// entry lists e and, if it is a folder, its contents.
func (l *lister) entry(f folder, e fs.DirEntry) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	l.seen++
	if l.seen > l.skip {
		if l.listed == l.limit {
			l.more = true
			return errPageFull
		}
		name := tools.Cut(tools.OneLine(e.Name()), maxColumn)
		s := strings.Repeat("  ", f.level) + name + suffix(e.Type()) + l.size(e) + "\n"
		if l.text.Len()+len(s) > maxOutput {
			l.more = true
			return errPageFull
		}
		l.text.WriteString(s)
		l.listed++
	}
	if !e.IsDir() || f.level+1 >= l.levels {
		return nil
	}
	below := folder{path: filepath.Join(f.path, e.Name()), level: f.level + 1}
	if f.rules != nil {
		below.rules = f.rules.Enter(e.Name(), nil)
	}
	err := l.folder(below)
	if err == nil || errors.Is(err, errPageFull) || l.ctx.Err() != nil {
		return err
	}
	return nil // a subfolder that cannot be read is listed without its contents
}

// size returns the size of a file as shown in the listing, or "".
func (l *lister) size(e fs.DirEntry) string {
	if !l.sizes || !e.Type().IsRegular() {
		return ""
	}
	info, err := e.Info()
	if err != nil {
		return ""
	}
	return " (" + count(int(info.Size()), "byte") + ")"
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
