//go:build !windows

package hooks

import (
	"context"
	"os/exec"
	"syscall"

	"toolgate/internal/config"
)

// shellCommand runs the command with sh. Codex uses the user's login shell, but a
// profile that prints something would break every answer.
func (s *Set) shellCommand(ctx context.Context, h config.Hook) *exec.Cmd {
	return exec.CommandContext(ctx, "/bin/sh", "-c", h.Command)
}

// setProcessGroup makes cmd.Cancel kill cmd and all of its children.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
