package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// terminateProcess sends SIGTERM to the descendants of the process. The process itself is the init
// of a sandbox: ending it would kill them at once.
func terminateProcess(pid int) error {
	var errs []error
	for _, child := range childrenOf(pid) {
		errs = append(errs, terminateProcess(child))
		if err := syscall.Kill(child, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// childrenOf returns the children of all threads of the process.
func childrenOf(pid int) []int {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	var pids []int
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		for _, word := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(word); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}
