package grep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/internal/ignore"
	"toolgate/internal/lazyregexp"
	"toolgate/policy"
	"toolgate/tools"
)

type findInput struct {
	Pattern string `json:"pattern" jsonschema:"such as *.go (any folder) or src/**/*.{ts,tsx}"`
	Path    string `json:"path,omitempty" jsonschema:"default the workspace"`
	Limit   *int   `json:"limit,omitempty" jsonschema:"default 100"`
	Offset  *int   `json:"offset,omitempty" jsonschema:"default 1"`
}

// FindFiles is find_files.
var FindFiles = tools.New(tools.Def{
	Name:        "find_files",
	Title:       "Find files",
	Description: "Lists files by a glob, the newest first; no ignored ones, hidden ones only by name.",
	ReadOnly:    true,
	Idempotent:  true,
}, describeFind, find)

// describeFind runs in the gate and has no side effects.
func describeFind(in findInput) (policy.Action, error) {
	q, err := checkFind(in)
	return policy.Action{Reads: []string{cmp.Or(q.path, ".")}}, err
}

// A findQuery is a validated findInput.
type findQuery struct {
	path   string       // folder to search; "" means the working folder
	globs  *ignore.List // for paths relative to path
	hidden bool         // a part of the pattern begins with a dot
	git    bool         // a part of the pattern is .git
	page   page
}

// checkFind validates the arguments. The folders with which the pattern begins are
// where the search begins.
func checkFind(in findInput) (findQuery, error) {
	const hint = "write a glob such as *.go or src/**/*.{ts,tsx}"
	pattern := filepath.ToSlash(strings.TrimSpace(in.Pattern))
	q := findQuery{path: in.Path}
	switch {
	case pattern == "":
		return q, errors.New("pattern is empty; " + hint)
	case pattern[0] == '!':
		return q, errors.New("pattern begins with !; say which files to list, not which to leave out")
	case strings.HasSuffix(pattern, "/"):
		pattern += "**"
	}
	var err error
	if q.page, err = newPage(in.Offset, in.Limit); err != nil {
		return q, err
	}
	if strings.Contains(pattern, "/") {
		base, rest := splitGlob(pattern)
		if filepath.IsAbs(base) || q.path == "" {
			q.path = base
		} else {
			q.path = filepath.Join(q.path, base)
		}
		pattern = "/" + rest
	}
	for part := range strings.SplitSeq(pattern, "/") {
		q.hidden = q.hidden || hiddenName.MatchString(part)
		q.git = q.git || part == ".git"
	}
	if q.globs, err = ignore.ParseGlob(pattern); err != nil {
		return q, fmt.Errorf("pattern: %v; %s", err, hint)
	}
	return q, nil
}

// hiddenName matches a part of a glob that names hidden files, such as .* or {.a,b}.
var hiddenName = lazyregexp.New(`(?:^|\{|,)\.`)

// splitGlob splits a glob after the folders at its start that are plain names. base is
// "" if there are none.
func splitGlob(glob string) (base, rest string) {
	parts := strings.Split(glob, "/")
	n := 0
	for n < len(parts)-1 && !strings.ContainsAny(parts[n], `*?[]{}\`) {
		n++
	}
	rest = strings.Join(parts[n:], "/")
	if base = strings.Join(parts[:n], "/"); n > 0 {
		base = path.Clean(base + "/")
	}
	if base == "." {
		base = ""
	}
	return filepath.FromSlash(base), rest
}

// find runs in the worker, inside the sandbox.
func find(ctx context.Context, in findInput) (*mcp.CallToolResult, error) {
	q, err := checkFind(in)
	if err != nil {
		return nil, err
	}
	root := cmp.Or(q.path, ".")
	info, err := os.Stat(root)
	if err != nil {
		return nil, explain(root, err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: is not a folder; give the folder as path, and the name as pattern", root)
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	found := &results{limit: q.page.end()}
	w := &walk{found: found, excluded: q.isExcluded, newVisit: func() visit {
		return func(path, shown string, e os.DirEntry) {
			m := match{path: path, shown: shown}
			if info, err := e.Info(); err == nil {
				m.modified = info.ModTime()
			}
			found.keep(m)
		}
	}}
	w.run(ctx, root, q.path, "")
	if err := ended(ctx, found); err != nil {
		return nil, err
	}
	if found.total == 0 {
		return tools.Text(withNotes("No files found; ignored and hidden ones are left out.", notesOf(found))), nil
	}
	text, note, err := q.page.files(found, match.line)
	if err != nil {
		return nil, err
	}
	return tools.Text(withNotes(text, append(note, notesOf(found)...))), nil
}

// isExcluded reports whether an entry is not listed: an ignored one, a hidden one unless
// the pattern has hidden names, a file that the pattern does not match.
func (q findQuery) isExcluded(t task, rules *ignore.Dir, name string, dir bool) bool {
	if q.hidden && strings.HasPrefix(name, ".") {
		if rules.Match(name, dir) == ignore.Ignored || dir && name == ".git" && !q.git {
			return true
		}
	} else if isLeftOut(rules, name, dir) {
		return true
	}
	return !dir && q.globs.Match(path.Join(t.below, name), false) != ignore.Ignored
}
