//go:build !linux

package app

import "os"

// terminateProcess asks the process to end.
func terminateProcess(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(os.Interrupt)
}
