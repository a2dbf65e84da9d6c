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
func (s *Set) shellCommand(ctx context.Context, h config.Hook) (*exec.Cmd, error) {
	find, system := s.opts.Programs, systemFolder()
	cmd, err := find.Command(ctx, s.opts.Dir, os.Environ(), filepath.Join(system, "cmd.exe"))
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		CmdLine:       `cmd.exe /d /s /c "` + cmp.Or(h.CommandWindows, h.Command) + `"`,
		CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP,
	}
	cmd.Cancel = func() error {
		kill, err := find.Command(context.Background(), system, os.Environ(),
			filepath.Join(system, "taskkill.exe"), "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid))
		if err == nil {
			err = kill.Run()
		}
		if err != nil {
			err = cmd.Process.Kill()
		}
		return err
	}
	return cmd, nil
}

// systemFolder returns the folder of the system's programs.
func systemFolder() string {
	return filepath.Join(cmp.Or(os.Getenv("SystemRoot"), `C:\Windows`), "System32")
}
