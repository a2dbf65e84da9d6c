package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// legacyRules are about calls that only this architecture still has.
var legacyRules = []rule{
	{calls: []uint32{unix.SYS_CHMOD}, when: []cond{bits(1, setID)}, do: eperm,
		why: "as for fchmod"},
	{calls: []uint32{unix.SYS_CREAT, unix.SYS_MKNOD}, when: []cond{bits(1, setID)}, do: eperm,
		why: "as for fchmod"},
	{calls: []uint32{unix.SYS_OPEN}, when: []cond{bits(1, unix.O_CREAT), bits(2, setID)}, do: eperm,
		why: "as for fchmod"},
	{calls: []uint32{unix.SYS_MKNOD}, when: []cond{{arg: 1, mask: unix.S_IFMT, op: oneOf, vals: []uint32{unix.S_IFCHR, unix.S_IFBLK}}}, do: eperm,
		why: "makes device files"},
	{calls: []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB}, do: eperm,
		why: "reaches the hardware, or code older than its checks"},
}
