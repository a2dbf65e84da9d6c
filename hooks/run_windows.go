package hooks

import (
	"cmp"
	"context"
	"os/exec"
	"strconv"
	"syscall"

	"toolgate/config"
)

// shellCommand hands the command to cmd, unquoted: cmd has its own rules.
func shellCommand(ctx context.Context, h config.Hook) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "cmd.exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd.exe /d /s /c "` + cmp.Or(h.CommandWindows, h.Command) + `"`}
	return cmd
}

// ownGroup lets cmd and all that it starts be ended together.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr.CreationFlags = syscall.CREATE_NEW_PROCESS_GROUP
	cmd.Cancel = func() error {
		err := exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
		if err != nil {
			err = cmd.Process.Kill()
		}
		return err
	}
}
