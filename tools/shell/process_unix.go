//go:build unix

package shell

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// setProcessGroup makes cmd the leader of a session and process group of its own.
func setProcessGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
}

// systemFolder is used on Windows only.
func systemFolder() string { return "" }

// signalled returns the signal that ended a process, or 0.
func signalled(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return int(ws.Signal())
	}
	return 0
}

// readNow reads what is available from a non-blocking descriptor.
func readNow(fd uintptr, buf []byte) int {
	n, err := unix.Read(int(fd), buf)
	if err != nil {
		return 0
	}
	return n
}
