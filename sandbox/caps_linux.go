package sandbox

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ownerCapabilities returns the capabilities that root needs to write roots
// that belong to others, as a bit set: none when all roots are its own.
func ownerCapabilities(roots []string) uint64 {
	for _, root := range roots {
		var st unix.Stat_t
		if unix.Stat(root, &st) == nil && st.Uid != 0 {
			return 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER
		}
	}
	return 0
}

// dropCapabilities takes from this thread every capability that is not in
// keep, also as something to be had again.
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
			break // without capabilities there is nothing to bound: no_new_privs
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

// dropCapabilitiesElsewhere takes every capability from all threads of this
// process. It stops each of them, which takes a while; the program that was
// started meanwhile can reach none. In a binary with cgo it does nothing, and
// they keep theirs.
func dropCapabilitiesElsewhere() error {
	header, data := capabilities(0)
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if errno != 0 && errno != syscall.ENOTSUP {
		return errno
	}
	return nil
}

// capabilities are the arguments of capset for the set keep, permitted and in
// effect, with nothing to inherit.
func capabilities(keep uint64) (unix.CapUserHeader, [2]unix.CapUserData) {
	return unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{
		{Effective: uint32(keep), Permitted: uint32(keep)},
		{Effective: uint32(keep >> 32), Permitted: uint32(keep >> 32)},
	}
}

// hasCapability reports whether this thread has the capability c in effect.
func hasCapability(c int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[c/32].Effective&(1<<(c%32)) != 0
}
