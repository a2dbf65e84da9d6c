package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// legacyRules is empty: this architecture never had the older calls.
var legacyRules []rule

var legacyWatchedCalls = map[uint32]watchedCall{
	unix.SYS_RENAMEAT: {paths: []watchedPath{{0, 1, present, true, 0}, {2, 3, anyState, true, 0}}},
}
