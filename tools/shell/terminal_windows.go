package shell

import (
	"errors"
	"os"
	"os/exec"
)

var errNoTerminal = errors.New("terminals are not available on windows; run it with tty false")

func openTerminal(*exec.Cmd, terminalSize) (ours, theirs *os.File, err error) {
	return nil, nil, errNoTerminal
}

func resizeTerminal(*os.File, terminalSize) error { return errNoTerminal }

// interruptGroup kills the command: a process cannot be interrupted from outside its
// console.
func interruptGroup(p *process) error { return p.cmd.Process.Kill() }
