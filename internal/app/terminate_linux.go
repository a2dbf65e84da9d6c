package app

import (
	"errors"
	"syscall"

	"toolgate/internal/limits"
)

// terminateProcess sends SIGTERM to the descendants of the process. The process itself is the init
// of a sandbox: ending it would kill them at once.
func terminateProcess(pid int) error {
	var errs []error
	for _, child := range limits.Children(pid) {
		errs = append(errs, terminateProcess(child))
		if err := syscall.Kill(child, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
