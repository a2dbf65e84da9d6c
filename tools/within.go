package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Within returns t restricted to reading files in the folders roots, after resolving
// symbolic links, and not in or above the hidden paths. It is for unconfined workers,
// for which the gate checks paths only lexically. Both lists have absolute paths without
// links.
//
// The check precedes the call, so it does not protect against a process that changes
// links at the same time. Such a process is not confined either and can read the files
// itself.
func Within(t Tool, roots, hidden []string) Tool {
	run := t.run
	t.run = func(ctx context.Context, call *Call, args json.RawMessage) (*mcp.CallToolResult, error) {
		a, err := t.describe(args)
		if err != nil {
			return nil, err
		}
		for _, name := range a.Reads {
			if err := checkWithin(name, roots, hidden); err != nil {
				return nil, err
			}
		}
		res, err := run(ctx, call, args)
		if m, ok := errors.AsType[*Missing](err); ok {
			m.Near = slices.DeleteFunc(m.Near, func(near string) bool {
				return checkWithin(near, roots, hidden) != nil
			})
		}
		return res, err
	}
	return t
}

// checkWithin returns an error for the model unless name resolves to a readable path, or
// does not exist.
func checkWithin(name string, roots, hidden []string) error {
	abs, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	for _, dir := range roots {
		rel, err := filepath.Rel(dir, abs)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return fmt.Errorf("%s: the workspace cannot be opened: %w", name, err)
		}
		defer root.Close()
		return checkBelow(root, name, rel, hidden)
	}
	return fmt.Errorf("%s: is outside the workspace; ask the user to read it", name)
}

// checkBelow is [checkWithin] for the path rel in root.
func checkBelow(root *os.Root, name, rel string, hidden []string) error {
	found, err := root.Stat(rel)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		// If name does not exist either, let the tool report it.
		if _, other := os.Stat(name); other != nil {
			return nil
		}
		return leadsAway(root, name, rel, "out of the workspace")
	case err != nil:
		return leadsAway(root, name, rel, "out of the workspace")
	}
	// For example, a .. after a link.
	if opened, err := os.Stat(name); err != nil || !os.SameFile(found, opened) {
		return leadsAway(root, name, rel, "out of the workspace")
	}
	inside := slices.DeleteFunc(slices.Clone(hidden), func(h string) bool {
		below, err := filepath.Rel(root.Name(), h)
		return err != nil || !filepath.IsLocal(below)
	})
	if len(inside) == 0 {
		return nil
	}
	real, err := filepath.EvalSymlinks(filepath.Join(root.Name(), rel))
	if err != nil {
		return leadsAway(root, name, rel, "to what cannot be followed")
	}
	for _, h := range inside {
		if isAbove(h, real) || isAbove(real, h) {
			return leadsAway(root, name, rel, "to what is hidden")
		}
	}
	return nil
}

// isAbove reports whether path is dir or in dir. It compares files, not names.
func isAbove(dir, path string) bool {
	above, err := os.Stat(dir)
	if err != nil {
		return false
	}
	for {
		if at, err := os.Stat(path); err == nil && os.SameFile(at, above) {
			return true
		}
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
}

// leadsAway returns the error for a name that leads outside. If the cause is a link, the
// error has the target, which the gate can check in another call. The target itself is
// not accessed, because it may be on another computer.
func leadsAway(root *os.Root, name, rel, where string) error {
	const asked = "and the user is asked where need be"
	parts := strings.Split(rel, string(filepath.Separator))
	for i := range parts {
		link, err := root.Readlink(filepath.Join(parts[:i+1]...))
		if err != nil {
			continue
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(root.Name(), filepath.Join(parts[:i]...), link)
		}
		to := filepath.Join(link, filepath.Join(parts[i+1:]...))
		return fmt.Errorf("%s: leads %s, to %s; send the call again with that path, %s", name, where, to, asked)
	}
	return fmt.Errorf("%s: leads %s; name the file by its path without links and .., %s", name, where, asked)
}
