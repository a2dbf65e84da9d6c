package sandbox

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"toolgate/policy"
)

// setupCapabilities are the capabilities that the first process needs in its
// namespaces: to mount, to drop capabilities, to reach every path that is to be
// hidden, and to set limits. They are ambient, because a user other than root
// would lose them when this executable is started again.
var setupCapabilities = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH,
	unix.CAP_SYS_RESOURCE,
}

// useNamespaces makes attr start a process in its own namespaces, and reports
// whether all user ids are mapped.
//
// Root maps all ids it has: otherwise it could not write a workspace owned by
// others, because the kernel does not change files whose owner has no mapping.
// Other users may map only themselves.
func useNamespaces(attr *syscall.SysProcAttr, network policy.Network) (wide bool) {
	attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
		syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	attr.AmbientCaps = setupCapabilities
	if network != policy.NetworkAll {
		attr.Cloneflags |= syscall.CLONE_NEWNET
	}
	if network == policy.NetworkHosts {
		attr.AmbientCaps = append(slices.Clone(setupCapabilities), unix.CAP_NET_ADMIN) // to bring up loopback
	}
	uid, gid := os.Geteuid(), os.Getegid()
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	if uid != 0 {
		return false
	}
	uids, gids := ownIDs("/proc/self/uid_map"), ownIDs("/proc/self/gid_map")
	if uids == nil || gids == nil {
		return false
	}
	attr.UidMappings, attr.GidMappings = uids, gids
	attr.GidMappingsEnableSetgroups = true
	return true
}

// ownIDs returns the identity mapping of every id that this process has, or nil.
func ownIDs(file string) []syscall.SysProcIDMap {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var ids []syscall.SysProcIDMap
	for line := range strings.Lines(string(text)) {
		var inside, outside, size int
		if _, err := fmt.Sscan(line, &inside, &outside, &size); err != nil {
			return nil
		}
		ids = append(ids, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
	}
	return ids
}
