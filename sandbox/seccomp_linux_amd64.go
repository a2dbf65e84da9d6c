package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// legacyRules are about calls that only this architecture still has.
var legacyRules = []rule{
	{calls: []uint32{unix.SYS_CHMOD}, when: []cond{bits(1, setID)}, do: eperm,
		why: "as for fchmod"},
	{calls: []uint32{unix.SYS_CREAT, unix.SYS_MKNOD}, when: []cond{bits(1, setID)}, do: eperm,
		why: "as for fchmod"},
	{calls: []uint32{unix.SYS_OPEN}, when: []cond{bits(1, openMakes), bits(2, setID)}, do: eperm,
		why: "as for fchmod"},
	{calls: []uint32{unix.SYS_MKNOD},
		when: []cond{{arg: 1, mask: unix.S_IFMT, op: oneOf, vals: []uint32{unix.S_IFCHR, unix.S_IFBLK}}}, do: eperm,
		why: "makes device files"},
	{calls: []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB}, do: eperm,
		why: "reaches the hardware, or code older than its checks"},
}

var legacyWatchedCalls = map[uint32]watchedCall{
	unix.SYS_OPEN:     {when: []cond{bits(1, openForWriting)}, paths: []watchedPath{{-1, 0, openPresent, false, 1}}},
	unix.SYS_CREAT:    {paths: []watchedPath{{-1, 0, anyState, false, 0}}},
	unix.SYS_MKDIR:    {paths: []watchedPath{{-1, 0, absent, true, 0}}},
	unix.SYS_MKNOD:    {paths: []watchedPath{{-1, 0, absent, true, 0}}},
	unix.SYS_UNLINK:   {paths: []watchedPath{{-1, 0, present, true, 0}}},
	unix.SYS_RMDIR:    {paths: []watchedPath{{-1, 0, present, true, 0}}},
	unix.SYS_RENAME:   {paths: []watchedPath{{-1, 0, present, true, 0}, {-1, 1, anyState, true, 0}}},
	unix.SYS_RENAMEAT: {paths: []watchedPath{{0, 1, present, true, 0}, {2, 3, anyState, true, 0}}},
	unix.SYS_LINK:     {paths: []watchedPath{{-1, 1, absent, true, 0}}},
	unix.SYS_SYMLINK:  {paths: []watchedPath{{-1, 1, absent, true, 0}}},
	unix.SYS_CHMOD:    {paths: []watchedPath{{-1, 0, present, false, 0}}},
	unix.SYS_CHOWN:    {paths: []watchedPath{{-1, 0, present, false, 0}}},
}
