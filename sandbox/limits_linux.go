package sandbox

import (
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

// limitNamespaces sets the limits of the namespaces themselves, through the new
// /proc while it is still writable. Since Linux 6.14, process ids are limited per
// pid namespace, which limits root too.
func limitNamespaces(plan Plan) {
	os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.Itoa(plan.Processes)), 0)
	// When memory runs out, the kernel kills the sandbox first.
	os.WriteFile("/proc/self/oom_score_adj", []byte("300"), 0)
}
