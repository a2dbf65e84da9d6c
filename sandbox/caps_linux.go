package sandbox

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ownerCapabilities returns, as a bit set, the capabilities that root needs to
// write roots owned by others. It is 0 if root owns them all.
func ownerCapabilities(roots []string) uint64 {
	for _, root := range roots {
		var st unix.Stat_t
		if unix.Stat(root, &st) == nil && st.Uid != 0 {
			return 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER
		}
	}
	return 0
}

// dropCapabilities removes every capability that is not in keep from this thread,
// including its bounding and ambient sets.
func dropCapabilities(keep uint64) error {
	for c := uintptr(0); c <= 63; c++ {
		if keep&(1<<c) != 0 {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL {
			break // past the kernel's last one
		}
		if err == unix.EPERM && !hasCapability(unix.CAP_SETPCAP) {
			break // without capabilities, no_new_privs is enough
		}
		if err != nil {
			return fmt.Errorf("bounding set: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient set: %w", err)
	}
	header, data := capabilities(keep)
	return unix.Capset(&header, &data[0])
}

// dropCapabilitiesElsewhere removes all capabilities from every thread of this
// process. It stops each thread, which takes a while; the program, which has been
// started already, cannot reach them. In a binary built with cgo it does nothing.
func dropCapabilitiesElsewhere() error {
	header, data := capabilities(0)
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET,
		uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if errno != 0 && errno != syscall.ENOTSUP {
		return errno
	}
	return nil
}

// capabilities returns the arguments of capset for the set keep: permitted and
// effective, not inheritable.
func capabilities(keep uint64) (unix.CapUserHeader, [2]unix.CapUserData) {
	return unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{
		{Effective: uint32(keep), Permitted: uint32(keep)},
		{Effective: uint32(keep >> 32), Permitted: uint32(keep >> 32)},
	}
}

// hasCapability reports whether c is effective in this thread.
func hasCapability(c int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[c/32].Effective&(1<<(c%32)) != 0
}
