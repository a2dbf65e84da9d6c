package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

// SnapshotInput names what a [policy.Snapshot] is taken of, by absolute paths.
type SnapshotInput struct {
	Dir   string   `json:"dir"`
	Files []string `json:"files,omitempty"`
}

// Snapshot takes a [policy.Snapshot], which is its result's text as JSON. The worker
// has it for the gate; it is not published.
var Snapshot = tools.New(tools.Def{
	Name:     policy.SnapshotTool,
	Title:    "Identify files",
	ReadOnly: true,
}, func(SnapshotInput) (policy.Action, error) { return policy.Action{}, nil }, takeSnapshot)

// maxHashed limits the bytes that a snapshot reads. A file beyond that is identified
// by its size, times and inode.
const maxHashed = 64 << 20

func takeSnapshot(_ context.Context, in SnapshotInput) (*mcp.CallToolResult, error) {
	s := policy.Snapshot{Dir: policy.Missing, Files: map[string]string{}}
	if info, err := os.Stat(in.Dir); err == nil {
		s.Dir = inode(info)
		if real, err := filepath.EvalSymlinks(in.Dir); err == nil && filepath.ToSlash(real) != in.Dir {
			s.Real = filepath.ToSlash(real)
		}
	}
	left := int64(maxHashed)
	for _, name := range in.Files {
		s.Files[name] = contentOf(name, &left)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return tools.Text(string(text)), nil
}

// contentOf identifies the content of a file, and takes what it reads from left.
func contentOf(name string, left *int64) string {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return policy.Missing
	case err != nil:
		return "unreadable"
	case !info.Mode().IsRegular():
		return "no file: " + info.Mode().Type().String()
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe by now
	if err != nil {
		return "unreadable: " + stat(info)
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "no file"
	}
	if info.Size() > *left {
		return "large: " + stat(info)
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, *left))
	*left -= n
	if err != nil {
		return "unreadable: " + stat(info)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// stat identifies a file without reading it.
func stat(info fs.FileInfo) string {
	return fmt.Sprintf("%s %d %d", inode(info), info.Size(), info.ModTime().UnixNano())
}
