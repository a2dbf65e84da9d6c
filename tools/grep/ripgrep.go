package grep

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// errRipgrep says that ripgrep gave no answer that counts.
var errRipgrep = errors.New("ripgrep did not answer")

// ripgrep returns the path of the rg program, or "" when there is none. It is
// looked up once.
var ripgrep = sync.OnceValue(func() string {
	workspace, err := os.Getwd()
	if err != nil {
		return ""
	}
	return findRipgrep(os.Getenv("PATH"), workspace)
})

// findRipgrep returns the first rg program in the folders of pathList that does
// not lie in the workspace: whoever can write there, the model among them,
// would choose what runs.
func findRipgrep(pathList, workspace string) string {
	workspace, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return ""
	}
	for _, dir := range filepath.SplitList(pathList) {
		if !filepath.IsAbs(dir) {
			continue
		}
		path, err := exec.LookPath(filepath.Join(dir, "rg"))
		if err != nil {
			continue
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			continue
		}
		if rel, err := filepath.Rel(workspace, path); err == nil && filepath.IsLocal(rel) {
			continue
		}
		return path
	}
	return ""
}

// maxStderr is how much of ripgrep's complaints is read.
const maxStderr = 64 << 10

// searchRipgrep lets the program rg find the files. It returns errRipgrep when
// rg could not do it, which is not to say that we cannot.
func searchRipgrep(ctx context.Context, rg string, q query) (*results, error) {
	if q.pattern.multiline {
		return nil, errRipgrep // it takes ten times as long as we do (ripgrep 13)
	}
	expr, ok := q.pattern.rust()
	if !ok || len(expr) > 64<<10 {
		return nil, errRipgrep
	}
	args := []string{"--no-config", "--no-ignore-global", "--files-with-matches", "--null", "--color=never", "--case-sensitive", "-e", expr}
	if q.include != "" {
		glob := q.include
		if strings.HasPrefix(glob, "#") {
			glob = `\` + glob // to ripgrep it would be a comment
		}
		args = append(args, "--glob", glob)
	}
	cmd := exec.CommandContext(ctx, rg, append(args, "--", q.root())...)
	cmd.WaitDelay = 2 * time.Second
	stderr := &limited{left: maxStderr}
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRipgrep, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", errRipgrep, err)
	}
	found := &results{limit: q.limit}
	readErr := readPaths(stdout, func(path string) {
		shown := path
		if q.path == "" {
			shown = strings.TrimPrefix(path, "."+string(filepath.Separator))
		}
		found.add(path, shown)
	})
	err = cmd.Wait()
	if ctx.Err() != nil {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, context.Cause(ctx)
		}
		found.stopped = true
		return found, nil
	}
	if readErr != nil {
		return nil, fmt.Errorf("%w: %w", errRipgrep, readErr)
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil, ok && exit.ExitCode() == 1: // found, not found
		return found, nil
	case ok && exit.ExitCode() == 2:
		if found.unreadable, ok = complaints(stderr.b.Bytes()); ok {
			return found, nil
		}
	}
	return nil, fmt.Errorf("%w: %w", errRipgrep, err)
}

// readPaths calls f for each path in r, which end in NUL.
func readPaths(r io.Reader, f func(path string)) error {
	br := bufio.NewReader(r)
	for {
		path, err := br.ReadString(0)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		f(strings.TrimSuffix(path, "\x00"))
	}
}

// complaints counts the files that rg could not read. Ok is false when it
// complains about something else.
func complaints(stderr []byte) (n int, ok bool) {
	for l := range bytes.Lines(stderr) {
		if !bytes.Contains(l, []byte("(os error ")) {
			return 0, false
		}
		n++
	}
	return n, n > 0
}

// limited keeps the first bytes written to it.
type limited struct {
	b    bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.b.Write(p[:n])
	l.left -= n
	return len(p), nil
}
