package shell

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/windows"
)

// systemFolder returns the folder of the system's programs. It does not use the
// environment, which others can set.
func systemFolder() string {
	dir, err := windows.GetSystemDirectory()
	if err != nil {
		return `C:\Windows\System32`
	}
	return dir
}

// setProcessGroup makes cmd the root of a process group of its own.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func adopt() {}

func (f *processTracker) reap() {}

func (m *member) identify() {}

func isFree(int) bool { return false }

// terminate does nothing: Windows has no signal that asks any program to end.
func terminate(member) {}

// kill ends a process and the descendants whose parents are alive.
func kill(m member) {
	exec.Command(systemFolder()+`\taskkill.exe`, "/T", "/F", "/PID", strconv.Itoa(m.pid)).Run()
}

func (f *processTracker) members(p *process) []member {
	if !slices.Contains(f.running(), p) {
		return nil
	}
	return []member{{pid: p.pid()}}
}

func readNow(uintptr, []byte) int { return 0 }

var errNoTerminal = errors.New("terminals are not available on windows; run it with tty false")

func openTerminal(*exec.Cmd, terminalSize) (ours, theirs *os.File, err error) {
	return nil, nil, errNoTerminal
}

func resizeTerminal(*os.File, terminalSize) error { return errNoTerminal }

// interruptGroup kills the command: a process cannot be interrupted from outside its
// console.
func interruptGroup(p *process) error { return p.cmd.Process.Kill() }
