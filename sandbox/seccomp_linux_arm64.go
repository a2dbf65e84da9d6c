package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// legacyRules is empty: this architecture never had the older calls.
var legacyRules []rule
