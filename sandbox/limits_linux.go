package sandbox

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// setLimits limits what the program may use up. All of it is help against
// accidents, not part of what a plan promises, so a kernel that lacks one of
// them goes without.
func setLimits(plan Plan) {
	// A core file would hold the memory of the worker.
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	if plan.Processes > 0 {
		// Counted per user namespace; without one, it would count the user's
		// processes outside.
		lim := unix.Rlimit{Cur: uint64(plan.Processes), Max: uint64(plan.Processes)}
		var old unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_NPROC, &old) == nil && old.Max < lim.Max {
			lim.Max = old.Max
			lim.Cur = min(old.Cur, lim.Max)
		}
		unix.Setrlimit(unix.RLIMIT_NPROC, &lim)
	}
}

// limitNamespaces sets the limits of the namespaces themselves, through the
// fresh /proc while it can still be written. Processes are numbered per pid
// namespace since Linux 6.14, which limits root too.
func limitNamespaces(plan Plan) {
	os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.Itoa(plan.Processes)), 0)
	// When memory runs out, the sandbox goes before the rest of the system.
	os.WriteFile("/proc/self/oom_score_adj", []byte("300"), 0)
}
