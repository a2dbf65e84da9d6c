package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"toolgate/internal/config"
)

const (
	maxStdout = 1 << 20  // bytes of a hook's answer
	maxStderr = 64 << 10 // bytes of its reason

	// pipeWait is how long a process that the hook left behind may hold its
	// streams open.
	pipeWait = 2 * time.Second
)

// output is what a hook that ended by itself left behind.
type output struct {
	code           int
	stdout, stderr []byte
	overflow       bool // there was more on stdout
}

// run runs the hook's command. An error means that it did not end by itself.
func (s *Set) run(ctx context.Context, h config.Hook, in []byte) (output, error) {
	if err := s.check(h); err != nil {
		return output{}, err
	}
	limit := h.TimeLimit()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it ran longer than %v and was ended", limit))
	defer cancel()
	stdout, stderr := &bounded{max: maxStdout}, &bounded{max: maxStderr}
	cmd := s.shellCommand(ctx, h)
	cmd.Dir = s.opts.Dir
	cmd.Env = s.opts.Programs.Env(os.Environ())
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = pipeWait
	setProcessGroup(cmd)
	err := cmd.Run()
	if ctx.Err() != nil {
		return output{}, context.Cause(ctx)
	}
	p := output{stdout: stdout.kept, stderr: stderr.kept, overflow: stdout.over}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if p.code = exit.ExitCode(); p.code < 0 {
			return output{}, fmt.Errorf("it was ended: %v: %s", exit.ProcessState, reasonText(p.stderr))
		}
		return p, nil
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it ended well; what it started goes on and keeps its streams
	}
	return p, err
}

// bounded keeps the first bytes written to it.
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
