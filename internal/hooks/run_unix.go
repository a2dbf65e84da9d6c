//go:build !windows

package hooks

import (
	"context"
	"os"
	"os/exec"
	"syscall"

	"toolgate/internal/config"
)

// shellCommand runs the command with sh. Codex uses the user's login shell, but a
// profile that prints something would break every answer. When ctx ends, the command and
// all of its children are killed.
func (s *Set) shellCommand(ctx context.Context, h config.Hook) (*exec.Cmd, error) {
	cmd, err := s.opts.Programs.Command(ctx, s.opts.Dir, os.Environ(), "/bin/sh", "-c", h.Command)
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd, nil
}
