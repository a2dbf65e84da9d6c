//go:build !windows

package hooks

import (
	"context"
	"os/exec"
	"syscall"

	"toolgate/internal/config"
)

// shellCommand hands the command to sh. Not to the user's login shell, as
// Codex does: a profile that prints something would break every answer.
func (s *Set) shellCommand(ctx context.Context, h config.Hook) *exec.Cmd {
	return exec.CommandContext(ctx, "/bin/sh", "-c", h.Command)
}

// setProcessGroup lets cmd and all that it starts be ended together.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
