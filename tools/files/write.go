package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolgate/policy"
	"toolgate/tools"
)

type writeInput struct {
	Path    string `json:"file_path" jsonschema:"file to create or replace; a relative path counts from the workspace"`
	Content string `json:"content" jsonschema:"the whole new content, written as it is"`
}

// WriteFile is write_file. It is off by default because apply_patch shows what
// it changes.
var WriteFile = tools.New(tools.Def{
	Name:  "write_file",
	Title: "Write a file",
	Description: "Creates a file, or replaces all that is in it. " +
		"Folders above it are made. To change a part of a file use apply_patch.",
	Destructive: true,
	Idempotent:  true,
	Off:         true,
}, describeWrite, write)

func describeWrite(in writeInput) (policy.Action, error) {
	if in.Path == "" {
		return policy.Action{}, errors.New("file_path is empty; give the path of a file")
	}
	if strings.HasSuffix(in.Path, "/") {
		return policy.Action{}, fmt.Errorf("file_path %q names a folder; give the path of a file", in.Path)
	}
	return policy.Action{Writes: []string{in.Path}, Preview: previewOf(in)}, nil
}

func previewOf(in writeInput) string {
	const most = 4000
	shown := tools.Cut(in.Content, most)
	s := fmt.Sprintf("%s, %d bytes:\n%s", in.Path, len(in.Content), shown)
	if len(shown) < len(in.Content) {
		s += fmt.Sprintf("\n… and %d bytes more", len(in.Content)-len(shown))
	}
	return s
}

func write(ctx context.Context, in writeInput) (*mcp.CallToolResult, error) {
	target, old, err := targetOf(in.Path)
	if err != nil {
		return nil, err
	}
	content := []byte(in.Content)
	size := count(len(content), "byte") + ", " + count(tools.CountLines(content), "line")
	if old != nil && sameContent(target, old, content) {
		return tools.Text(fmt.Sprintf("%s already has this content (%s); nothing was written.", in.Path, size)), nil
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: stopped before anything was written", in.Path)
	}
	verb := "Replaced"
	if old == nil {
		verb = "Created"
		if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
			return nil, explainWrite(in.Path, err)
		}
	}
	if old != nil && links(old) > 1 {
		err = overwrite(target, content)
	} else {
		err = replace(target, old, content)
	}
	if err != nil {
		return nil, explainWrite(in.Path, err)
	}
	return tools.Text(fmt.Sprintf("%s %s (%s).", verb, in.Path, size)), nil
}

// targetOf resolves the symbolic links in path and returns the target with its
// information, which is nil if there is no file.
func targetOf(path string) (string, fs.FileInfo, error) {
	target := path
	for range 40 {
		info, err := os.Lstat(target)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return target, nil, nil
		case err != nil:
			return "", nil, explainWrite(path, err)
		case info.IsDir():
			return "", nil, fmt.Errorf("%s: is a folder; give the path of a file", path)
		case info.Mode()&fs.ModeSymlink != 0:
			next, err := os.Readlink(target)
			if err != nil {
				return "", nil, explainWrite(path, err)
			}
			if !filepath.IsAbs(next) {
				// Otherwise a .. in next would refer to another folder.
				dir, err := filepath.EvalSymlinks(filepath.Dir(target))
				if err != nil {
					return "", nil, explainWrite(path, err)
				}
				next = filepath.Join(dir, next)
			}
			target = next
		case !info.Mode().IsRegular():
			return "", nil, fmt.Errorf("%s: is not a regular file but a %s; it cannot be replaced",
				path, kind(info.Mode()))
		default:
			return target, info, nil
		}
	}
	return "", nil, fmt.Errorf("%s: leads through too many symbolic links; give the path of the file itself", path)
}

func sameContent(path string, info fs.FileInfo, content []byte) bool {
	if info.Size() != int64(len(content)) {
		return false
	}
	old, err := os.ReadFile(path)
	return err == nil && bytes.Equal(old, content)
}

// replace atomically replaces the file at target, or creates it if old is nil.
func replace(target string, old fs.FileInfo, content []byte) error {
	f, err := createBeside(target)
	if err != nil {
		return err
	}
	err = errors.Join(fill(f, old, content), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), target)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	syncFolder(filepath.Dir(target))
	return nil
}

// fill writes a new file with the owner and mode of the old one.
func fill(f *os.File, old fs.FileInfo, content []byte) error {
	if _, err := f.Write(content); err != nil {
		return err
	}
	if old != nil {
		if err := keepOwner(f, old); err != nil {
			return err
		}
		if err := f.Chmod(old.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)); err != nil {
			return err
		}
	}
	return f.Sync()
}

// createBeside creates a temporary file in the folder of target with the default mode.
func createBeside(target string) (*os.File, error) {
	dir, base := filepath.Split(target)
	for i := 0; ; i++ {
		name := filepath.Join(dir, fmt.Sprintf(".%s.%d-%d.tmp", tools.Cut(base, 200), os.Getpid(), i))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) && i < 1000 {
			continue
		}
		return f, err
	}
}

// overwrite writes the file in place, for a file with several hard links.
func overwrite(target string, content []byte) error {
	f, err := os.OpenFile(target, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// explainWrite returns a write error in a form for the model.
func explainWrite(path string, err error) error {
	if denied := tools.AsDenial(err, "write", path); denied != nil {
		return denied
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s: permission denied by owner and mode; choose another path", path)
	}
	return fmt.Errorf("%s: cannot be written: %w", path, tools.Reason(err))
}
