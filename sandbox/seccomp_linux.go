package sandbox

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// namespaceFlags are the flags of clone and unshare that create namespaces. In a
// new user namespace a process has every capability, and so reaches parts of the
// kernel that were never meant for ordinary users.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

const setID = unix.S_ISUID | unix.S_ISGID

// openMakes are the flags with which open creates a file and uses its mode
// argument: O_TMPFILE does so without O_CREAT.
const openMakes = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

// bits is the condition that argument arg has one of the bits of mask.
func bits(arg int, mask uint32) cond {
	return cond{arg: arg, mask: mask, op: noneOf, vals: []uint32{0}}
}

var eperm = refuse(unix.EPERM)
var enosys = refuse(unix.ENOSYS)

// systemRules refuse calls that no command needs but that help to escape.
var systemRules = []rule{
	{calls: []uint32{unix.SYS_CLONE3}, do: enosys,
		why: "its flags are in memory, out of a filter's sight; programs fall back to clone"},
	{calls: []uint32{unix.SYS_CLONE}, when: []cond{bits(0, namespaceFlags)}, do: eperm,
		why: "a new user namespace gives every capability inside it"},
	{calls: []uint32{unix.SYS_UNSHARE}, when: []cond{bits(0, namespaceFlags|unix.CLONE_NEWTIME)}, do: eperm,
		why: "as for clone"},
	{calls: []uint32{unix.SYS_SETNS}, do: eperm,
		why: "enters other namespaces"},
	{calls: []uint32{
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
		unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	}, do: eperm,
		why: "changes what the file system looks like, which is the sandbox itself"},
	{calls: []uint32{
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
		unix.SYS_PROCESS_MADVISE, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	}, do: eperm,
		why: "reaches into another process"},
	{calls: []uint32{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}, do: eperm,
		why: "does system calls, such as socket, that no filter sees"},
	{calls: []uint32{unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD}, do: eperm,
		why: "large, and the usual way to attack the kernel"},
	{calls: []uint32{unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL}, do: eperm,
		why: "keyrings are shared with the user's other processes"},
	{calls: []uint32{
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
		unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_NFSSERVCTL,
	}, do: eperm,
		why: "administers the machine"},
	{calls: []uint32{unix.SYS_OPEN_BY_HANDLE_AT}, do: eperm,
		why: "opens files by number, past every mount and folder"},
	{calls: []uint32{unix.SYS_FANOTIFY_INIT}, do: eperm,
		why: "watches whole file systems"},
	{calls: []uint32{unix.SYS_IOCTL}, when: []cond{{arg: 1, op: oneOf, vals: []uint32{
		unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD, unix.TIOCCONS,
	}}}, do: eperm,
		why: "types into, or takes over, a terminal that someone else reads"},
	{calls: []uint32{unix.SYS_FCHMOD}, when: []cond{bits(1, setID)}, do: eperm,
		why: "a set-user-id file in a writable root is a trap outside"},
	{calls: []uint32{unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_MKNODAT}, when: []cond{bits(2, setID)}, do: eperm,
		why: "as for fchmod"},
	{calls: []uint32{unix.SYS_OPENAT}, when: []cond{bits(2, openMakes), bits(3, setID)}, do: eperm,
		why: "as for fchmod"},
	{calls: []uint32{unix.SYS_OPENAT2}, do: enosys,
		why: "its mode is in memory, out of a filter's sight; programs fall back to openat"},
	{calls: []uint32{unix.SYS_MKNODAT},
		when: []cond{{arg: 2, mask: unix.S_IFMT, op: oneOf, vals: []uint32{unix.S_IFCHR, unix.S_IFBLK}}}, do: eperm,
		why: "makes device files"},
}

// connectedPairs are the socket types, without flags, whose pairs can send only to
// each other.
var connectedPairs = []uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET}

// sockTypeMask removes SOCK_CLOEXEC and SOCK_NONBLOCK from a socket type.
const sockTypeMask = 0xf

// pairRules allow only socket pairs that can send only to each other. Datagram
// pairs are not among them: sendmsg can name another peer in memory, which no
// filter sees.
var pairRules = []rule{
	{calls: []uint32{unix.SYS_SOCKETPAIR}, when: []cond{{arg: 0, op: noneOf, vals: []uint32{unix.AF_UNIX}}}, do: eperm,
		why: "only unix pairs stay between the processes of the sandbox"},
	{calls: []uint32{unix.SYS_SOCKETPAIR},
		when: []cond{{arg: 1, mask: sockTypeMask, op: noneOf, vals: connectedPairs}}, do: eperm,
		why: "a datagram pair can send to any unix socket by name"},
}

// noNetworkRules leave no way to name a peer. Without sockets other than connected
// pairs, sendmsg and sendmmsg cannot either.
var noNetworkRules = []rule{
	{calls: []uint32{unix.SYS_SOCKET}, do: eperm,
		why: "the network is off; unix sockets reach the user's daemons"},
}

// workerSocketRules replace noNetworkRules in a worker with its own network
// namespace, where no peer can be reached. Its commands get noNetworkRules. If the
// worker's filter refused sockets, the filter of a command could not notify a
// [Watch] that the command needed the network.
var workerSocketRules = []rule{
	{calls: []uint32{unix.SYS_SOCKET},
		when: []cond{{arg: 0, op: noneOf, vals: []uint32{unix.AF_INET, unix.AF_INET6}}}, do: eperm,
		why: "the network is off; unix sockets reach the user's daemons"},
	{calls: []uint32{unix.SYS_SOCKET},
		when: []cond{{arg: 1, mask: sockTypeMask, op: noneOf, vals: []uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM}}},
		do:   eperm,
		why:  "raw packets"},
}

// internetProtocols are the protocols of ordinary internet sockets.
var internetProtocols = []uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_MPTCP}

// proxiedRules are for a network namespace in which only the proxy can be reached.
// They allow internet sockets and nothing else.
var proxiedRules = append(slices.Clip(workerSocketRules), rule{
	calls: []uint32{unix.SYS_SOCKET},
	when:  []cond{{arg: 2, op: noneOf, vals: internetProtocols}},
	do:    eperm,
	why:   "a protocol that nothing speaks here; the kernel would load a module for it",
})

// noPeerRules apply in addition to noNetworkRules or workerSocketRules.
var noPeerRules = []rule{
	{calls: []uint32{unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4}, do: eperm,
		why: "the network is off, also for a socket that was handed in"},
	{calls: []uint32{unix.SYS_SENDTO}, when: []cond{{arg: 4, op: nonZero}}, do: eperm,
		why: "names a peer"},
}

// networkRules allow the internet families. Unix sockets stay refused: the user's
// daemons behind them (docker, D-Bus, ssh-agent) would act outside the sandbox.
var networkRules = []rule{
	{calls: []uint32{unix.SYS_SOCKET},
		when: []cond{{arg: 0, op: noneOf, vals: []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}}}, do: eperm,
		why: "only the internet families; unix sockets reach the user's daemons"},
	{calls: []uint32{unix.SYS_SOCKET}, when: []cond{
		{arg: 0, op: oneOf, vals: []uint32{unix.AF_INET, unix.AF_INET6}},
		{arg: 1, mask: sockTypeMask, op: noneOf, vals: []uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM}},
	}, do: eperm,
		why: "raw packets"},
	{calls: []uint32{unix.SYS_SOCKET}, when: []cond{
		{arg: 0, op: oneOf, vals: []uint32{unix.AF_NETLINK}},
		{arg: 2, op: noneOf, vals: []uint32{unix.NETLINK_ROUTE}},
	}, do: eperm,
		why: "of netlink only the list of addresses, which resolvers read"},
}

// schedulerCalls change how a process is scheduled.
var schedulerCalls = []uint32{
	unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETAFFINITY,
}

// sharedPidRules replace a pid namespace in what Landlock does not cover.
var sharedPidRules = []rule{
	{calls: []uint32{unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET}, when: []cond{{arg: 1, op: nonZero}}, do: eperm,
		why: "slows the user's other processes down"},
	{calls: []uint32{unix.SYS_SETPRIORITY},
		when: []cond{{arg: 0, op: oneOf, vals: []uint32{unix.PRIO_USER}}}, do: eperm,
		why: "user 0 is oneself, with every process one has"},
	{calls: []uint32{unix.SYS_IOPRIO_SET}, when: []cond{{arg: 0, op: oneOf, vals: []uint32{ioprioWhoUser}}}, do: eperm,
		why: "as for setpriority"},
	{calls: schedulerCalls,
		when: []cond{{arg: 0, op: nonZero}}, do: eperm,
		why: "slows the user's other processes down"},
}

// ioprioWhoUser is IOPRIO_WHO_USER: all processes of a user.
const ioprioWhoUser = 3

// sharedIPCRules replace an ipc namespace.
var sharedIPCRules = []rule{
	{calls: []uint32{
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL,
		unix.SYS_SEMGET, unix.SYS_SEMCTL, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP,
		unix.SYS_MSGGET, unix.SYS_MSGCTL, unix.SYS_MSGSND, unix.SYS_MSGRCV,
		unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	}, do: eperm,
		why: "System V and POSIX queues are shared with the user's other processes, and their numbers can be guessed"},
}

// filterRules returns the filter rules for a command of plan.
func filterRules(plan Plan) []rule { return rulesWith(plan, noNetworkRules) }

// workerFilterRules returns the filter rules for a program from this executable,
// which starts commands through a [Spawner].
func workerFilterRules(plan Plan) []rule {
	if plan.namespaces() {
		return rulesWith(plan, workerSocketRules)
	}
	return rulesWith(plan, noNetworkRules)
}

// beyondWorkerRules returns the rules of filterRules that workerFilterRules lacks.
func beyondWorkerRules(plan Plan) []rule {
	if plan.namespaces() && plan.offline() {
		return noNetworkRules
	}
	return nil
}

func rulesWith(plan Plan, noNetwork []rule) []rule {
	rules := slices.Concat(systemRules, legacyRules, pairRules)
	switch {
	case plan.offline():
		rules = slices.Concat(rules, noNetwork, noPeerRules)
	case plan.proxied():
		rules = append(rules, proxiedRules...)
	default:
		rules = append(rules, networkRules...)
	}
	if plan.Level == Landlock {
		rules = append(rules, sharedIPCRules...)
		rules = append(rules, sharedPidRules...)
	}
	return rules
}

// installFilter installs prog on this thread and what it starts from now on. The
// thread must have no_new_privs. With the listener flag, it returns the descriptor
// that receives the notifications.
func installFilter(prog []bpfInstr, flags uintptr) (fd int, err error) {
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: (*unix.SockFilter)(unsafe.Pointer(&prog[0]))}
	r, _, errno := unix.RawSyscall(unix.SYS_SECCOMP,
		unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return -1, fmt.Errorf("seccomp: %w", errno)
	}
	return int(r), nil
}
