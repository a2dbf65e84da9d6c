//go:build unix

package shell

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"toolgate/tools"
)

// setProcessGroup makes cmd the leader of a session and process group of its own.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// systemFolder is used on Windows only.
func systemFolder() string { return "" }

func terminate(m member) { unix.Kill(m.pid, unix.SIGTERM) }

// isFree reports whether no process has this id, so that a group of that id is the one that it led.
func isFree(pid int) bool { return unix.Kill(pid, 0) == unix.ESRCH }

// kill kills m and, at once, its whole process group: one by one, what starts processes faster than
// they are killed would never end. Commands have sessions, and so groups, of their own.
func kill(m member) {
	own, _ := unix.Getpgid(0)
	if group, err := unix.Getpgid(m.pid); err == nil && group > 1 && group != own {
		unix.Kill(-group, unix.SIGKILL)
	}
	unix.Kill(m.pid, unix.SIGKILL)
}

// readNow reads what is available from a non-blocking descriptor.
func readNow(fd uintptr, buf []byte) int {
	n, err := unix.Read(int(fd), buf)
	if err != nil {
		return 0
	}
	return n
}

// openTerminal opens a terminal of the given size as the stdin, stdout, stderr and
// controlling terminal of cmd. Writes to ours are input of the command, and reads
// from it return output. The caller closes theirs once cmd has started.
func openTerminal(cmd *exec.Cmd, size terminalSize) (ours, theirs *os.File, err error) {
	master, theirs, err := pty.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("no terminal can be had here: %s; run it with tty false", tools.Reason(err))
	}
	defer master.Close()
	// The library leaves the descriptor in blocking mode, in which reads have no
	// deadline. Use a non-blocking copy.
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	ours = os.NewFile(uintptr(fd), master.Name())
	resizeTerminal(ours, size)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr.Setctty = true // of descriptor 0
	return ours, theirs, nil
}

// resizeTerminal sets the size of the terminal f, which signals its program.
func resizeTerminal(f *os.File, size terminalSize) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	ws := &unix.Winsize{Row: uint16(size.rows), Col: uint16(size.cols)}
	cerr := conn.Control(func(fd uintptr) { err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, ws) })
	if cerr != nil {
		return cerr
	}
	return err
}

// interruptGroup sends SIGINT to the process group of the command.
func interruptGroup(p *process) error { return syscall.Kill(-p.pid(), syscall.SIGINT) }
