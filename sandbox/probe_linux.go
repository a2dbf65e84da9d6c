package sandbox

import (
	"errors"
	"io"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Probe returns what this kernel and this user can enforce. It tries features
// instead of checking versions, except for PidLimit, once per process, which takes
// some milliseconds.
func Probe() System { return probed() }

// Guess returns what Probe most likely would, without starting a process: it
// assumes that namespaces can be created. A plan for it is as strict as any. If
// the guess is wrong, [Cmd.Start] fails with [ErrUnsupported] before the program
// has run, and the caller should use Probe.
func Guess() System {
	s := System{OS: "linux", Root: os.Geteuid() == 0}
	s.PidLimit = limitsPids(kernelRelease())
	s.Seccomp = supported(probeSeccomp())
	abi, err := landlockABI()
	s.ABI, s.Landlock = abi, supported(landlockError(err))
	s.Namespaces = Support{OK: true}
	s.Bwrap = Support{Why: "not tried: own namespaces work"}
	return s
}

var probed = sync.OnceValue(func() System {
	s := Guess()
	s.Namespaces = supported(probeNamespaces())
	if !s.Namespaces.OK {
		s.BwrapPath = findBwrap()
		s.Bwrap = supported(probeBwrap(s.BwrapPath))
	}
	return s
})

func supported(err error) Support {
	if err != nil {
		return Support{Why: err.Error()}
	}
	return Support{OK: true}
}

// landlockError explains the errors of landlock_create_ruleset.
func landlockError(err error) error {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return errors.New("the kernel was built without Landlock, or a container's filter refuses it")
	case errors.Is(err, unix.EOPNOTSUPP):
		return errors.New("the kernel has Landlock switched off (see the boot parameter lsm=)")
	}
	return err
}

// probeSeccomp tests the one action that every filter needs.
func probeSeccomp() error {
	if auditArch == 0 {
		return errors.New("no system call table for this architecture")
	}
	return probeAction(unix.SECCOMP_RET_ERRNO)
}

// probeAction tests whether a filter can take the action do. It fails on a kernel
// without filters, or if a filter on this process refuses the call.
func probeAction(do uint32) error {
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&do)))
	if errno != 0 {
		return errno
	}
	return nil
}

// probeNamespaces sets up a sandbox that runs nothing.
func probeNamespaces() error { return probePlan(Plan{Level: Full}, nil) }

// probePlan sets up a sandbox for plan that runs nothing.
func probePlan(plan Plan, stderr io.Writer) error {
	cmd := plan.Command("")
	cmd.Stderr = stderr
	if err := cmd.launch(initConfig{Plan: plan, Args: []string{""}, Dir: "/", Probe: true}); err != nil {
		return err
	}
	cmd.Wait() // there is no second report
	return nil
}
