package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"toolgate/internal/config"
)

const (
	maxStdout = 1 << 20  // bytes
	maxStderr = 64 << 10 // bytes

	// pipeWait is how long a process that the hook left behind may keep the
	// hook's streams open.
	pipeWait = 2 * time.Second
)

// An output is the result of a hook that exited by itself.
type output struct {
	code           int
	stdout, stderr []byte
	overflow       bool // stdout was truncated
}

// run runs the hook's command. It returns an error if the command does not start or
// does not exit by itself.
func (s *Set) run(ctx context.Context, h config.Hook, in []byte) (output, error) {
	if err := s.check(h); err != nil {
		return output{}, err
	}
	limit := h.TimeLimit()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("timed out after %v", limit))
	defer cancel()
	stdout, stderr := &bounded{max: maxStdout}, &bounded{max: maxStderr}
	cmd, err := s.shellCommand(ctx, h)
	if err != nil {
		return output{}, err
	}
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = pipeWait
	err = cmd.Run()
	if ctx.Err() != nil {
		return output{}, context.Cause(ctx)
	}
	p := output{stdout: stdout.kept, stderr: stderr.kept, overflow: stdout.over}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if p.code = exit.ExitCode(); p.code < 0 {
			return output{}, fmt.Errorf("ended by %v: %s", exit.ProcessState, reasonText(p.stderr))
		}
		return p, nil
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the hook succeeded; a process that it started keeps the streams open
	}
	return p, err
}

// bounded is a writer that keeps the first max bytes.
type bounded struct {
	kept []byte
	max  int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := min(b.max-len(b.kept), len(p))
	b.kept = append(b.kept, p[:room]...)
	b.over = b.over || room < len(p)
	return len(p), nil
}
