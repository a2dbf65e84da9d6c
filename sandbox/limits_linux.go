package sandbox

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// setLimits sets the resource limits of the program. They guard against accidents
// and are not part of a plan's guarantees, so errors are ignored.
func setLimits(plan Plan) {
	// A core file would contain the memory of the worker.
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	if plan.Processes > 0 {
		// This limit counts per user namespace. Without one, it would count the
		// user's processes outside.
		lim := unix.Rlimit{Cur: uint64(plan.Processes), Max: uint64(plan.Processes)}
		var old unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_NPROC, &old) == nil && old.Max < lim.Max {
			lim.Max = old.Max
			lim.Cur = min(old.Cur, lim.Max)
		}
		unix.Setrlimit(unix.RLIMIT_NPROC, &lim)
	}
}

// limitNamespaces sets the limits of the namespaces themselves, through their /proc,
// mounted at proc, while it is still writable.
func limitNamespaces(proc, release string, plan Plan) {
	os.WriteFile(proc+"/sys/user/max_user_namespaces", []byte("0"), 0)
	if limitsPids(release) {
		os.WriteFile(proc+"/sys/kernel/pid_max", []byte(strconv.Itoa(plan.Processes)), 0)
	}
	// When memory runs out, the kernel kills the sandbox first.
	os.WriteFile(proc+"/self/oom_score_adj", []byte("300"), 0)
}

// limitsPids reports whether pid_max belongs to each pid namespace, and so limits root
// in a sandbox too. Before Linux 6.14 (merge kernel-6.14-rc1.pid), it is the machine's,
// and root could write it from a sandbox. Only the version tells them apart.
func limitsPids(release string) bool {
	var major, minor int
	fmt.Sscanf(release, "%d.%d", &major, &minor)
	return major > 6 || major == 6 && minor >= 14
}

// kernelRelease returns the release of the kernel, such as "6.12.9-1".
func kernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}
