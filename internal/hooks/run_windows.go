package hooks

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"toolgate/internal/config"
)

// shellCommand passes the command to cmd.exe unquoted, because cmd.exe has its own
// quoting rules. When ctx ends, the command and all of its children are killed.
func shellCommand(ctx context.Context, h config.Hook) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(systemFolder(), "cmd.exe"))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		CmdLine:       `cmd.exe /d /s /c "` + cmp.Or(h.CommandWindows, h.Command) + `"`,
		CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP,
	}
	cmd.Cancel = func() error {
		taskkill := filepath.Join(systemFolder(), "taskkill.exe")
		err := exec.Command(taskkill, "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
		if err != nil {
			err = cmd.Process.Kill()
		}
		return err
	}
	return cmd
}

// systemFolder returns the folder of the system's programs.
func systemFolder() string {
	return filepath.Join(cmp.Or(os.Getenv("SystemRoot"), `C:\Windows`), "System32")
}
