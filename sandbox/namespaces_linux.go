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

// setupCapabilities are what the first process needs in its namespaces: to
// mount, to bound and to drop capabilities, to reach every path that is to be
// hidden, and to set limits. Without them a user other than root would lose
// all of them when this binary is executed again.
var setupCapabilities = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH,
	unix.CAP_SYS_RESOURCE,
}

// useNamespaces makes attr start a process in namespaces of its own, and
// reports whether every user id is mapped.
//
// Root maps all ids it has, or it could not write a workspace that others
// own: the kernel changes no file whose owner it cannot name. Others may map
// only themselves.
func useNamespaces(attr *syscall.SysProcAttr, network policy.Network) (wide bool) {
	attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
		syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	attr.AmbientCaps = setupCapabilities
	if network != policy.NetworkAll {
		attr.Cloneflags |= syscall.CLONE_NEWNET
	}
	if network == policy.NetworkHosts {
		attr.AmbientCaps = append(slices.Clone(setupCapabilities), unix.CAP_NET_ADMIN) // to switch loopback on
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

// ownIDs returns the identity mapping of every id that this process has.
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
