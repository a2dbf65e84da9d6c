package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const isWindows = false

// terminate asks everything below the process to end. The process itself is
// the first of a sandbox, whose end would kill the others at once.
func terminate(pid int) error {
	var errs []error
	for _, child := range childrenOf(pid) {
		errs = append(errs, terminate(child))
		if err := syscall.Kill(child, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func childrenOf(pid int) []int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var pids []int
	for _, word := range strings.Fields(string(text)) {
		if n, err := strconv.Atoi(word); err == nil {
			pids = append(pids, n)
		}
	}
	return pids
}
