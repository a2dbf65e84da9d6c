package applypatch

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/diff"

	"toolgate/policy"
	"toolgate/tools"
)

const diffDescription = "Shows as a unified diff how the files that apply_patch and edit_file changed " +
	"in this session differ from before."

type diffInput struct {
	Path string `json:"path,omitempty" jsonschema:"only this file or folder"`
}

// describeDiff names no path: the argument only selects among the files that
// patches have changed, and only the worker knows them.
func describeDiff(diffInput) (policy.Action, error) { return policy.Action{}, nil }

// maxDiff is the maximum size of a diff in a result, in bytes.
const maxDiff = 36 << 10

func (s *session) diff(ctx context.Context, in diffInput) (*mcp.CallToolResult, error) {
	leave, notes, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	bases, err := s.store.bases()
	if err != nil {
		return nil, err
	}
	at, err := newResolver(s.roots)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	var left []string
	for _, path := range slices.Sorted(maps.Keys(bases)) {
		name := at.displayPath(path)
		if !isBelow(name, in.Path) {
			continue
		}
		text := bases[path].diff(name)
		if b.Len() > 0 && b.Len()+len(text) > maxDiff {
			left = append(left, name)
			continue
		}
		if len(text) > maxDiff {
			end := strings.LastIndexByte(text[:maxDiff], '\n') + 1
			text = text[:end] + fmt.Sprintf("… %d more lines of this file\n", strings.Count(text[end:], "\n"))
		}
		b.WriteString(text)
	}
	if len(left) > 0 {
		const format = "%d more changed files are not shown; call turn_diff with path for each of: %s"
		notes = append(notes, fmt.Sprintf(format, len(left), strings.Join(left, ", ")))
	}
	if b.Len() == 0 {
		notes = append(notes, "no file differs from how it was before the first patch of this session")
	}
	return tools.Text(b.String() + strings.Join(notes, "\n")), nil
}

// displayPath returns path relative to the workspace if it is in there.
func (r *resolver) displayPath(path string) string {
	if rel, err := filepath.Rel(r.roots[0], path); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}

func isBelow(name, asked string) bool {
	if asked == "" {
		return true
	}
	asked = filepath.ToSlash(filepath.Clean(asked))
	return asked == "." || name == asked || strings.HasPrefix(name, asked+"/")
}

// diff returns the changes to the file since b in git's format, or "" for none.
func (b base) diff(name string) string {
	before, now, there := b.Before, fingerprintOf(b.Path), exists(b.Path)
	sameContent := now.Sum == before.Sum && now.Link == before.Link && !before.Lost
	if there == before.Exists && sameContent && (before.Mode^now.Mode)&0o111 == 0 {
		return ""
	}
	from, to := "a/"+name, "b/"+name
	head := gitLine + from + " " + to + "\n"
	oldMode, newMode := before.gitMode(), now.gitMode()
	switch {
	case !before.Exists:
		head += "new file mode " + newMode + "\n"
	case !there:
		head += "deleted file mode " + oldMode + "\n"
	case oldMode != newMode:
		head += "old mode " + oldMode + "\nnew mode " + newMode + "\n"
	}
	if before.Lost {
		return head + "the old content was too large to be kept\n"
	}
	var old, cur []byte
	if before.Sum != "" {
		old, _ = b.content()
	}
	if now.Sum != "" {
		cur, _ = os.ReadFile(b.Path)
	}
	switch {
	case bytes.Equal(old, cur):
		return head
	case isBinary(old) || isBinary(cur):
		return head + fmt.Sprintf("Binary files %s and %s differ\n", from, to)
	}
	if !before.Exists {
		from = devNull
	}
	if !there {
		to = devNull
	}
	_, text, _ := strings.Cut(string(diff.Diff(from, old, to, cur)), "\n") // without the line "diff a b"
	return head + text
}

func isBinary(data []byte) bool { return !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 }

func (m fingerprint) gitMode() string {
	switch {
	case m.Link != "":
		return "120000"
	case m.Mode&0o111 != 0:
		return "100755"
	}
	return "100644"
}
