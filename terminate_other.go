//go:build !linux

package main

import (
	"os"
	"runtime"
)

const isWindows = runtime.GOOS == "windows"

// terminate asks the process to end.
func terminate(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(os.Interrupt)
}
