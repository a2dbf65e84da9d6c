package sandbox_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// escapeOps are the operations of attempts. Each returns nil when it got what
// it wanted.
var escapeOps = map[string]func(args ...string) error{
	// Files.
	"write": func(a ...string) error {
		return os.WriteFile(a[0], []byte(strings.Join(a[1:], " ")), 0o644)
	},
	"append":    func(a ...string) error { return appendTo(a[0]) },
	"read":      func(a ...string) error { _, err := os.ReadFile(a[0]); return err },
	"list":      func(a ...string) error { _, err := os.ReadDir(a[0]); return err },
	"symlink":   func(a ...string) error { return os.Symlink(a[0], a[1]) },
	"link":      func(a ...string) error { return unix.Link(a[0], a[1]) },
	"rename":    func(a ...string) error { return unix.Rename(a[0], a[1]) },
	"mkdir":     func(a ...string) error { return os.Mkdir(a[0], 0o755) },
	"mkdir_all": func(a ...string) error { return os.MkdirAll(a[0], 0o755) },
	"fifo":      func(a ...string) error { return unix.Mkfifo(a[0], 0o644) },
	"truncate":  func(a ...string) error { return os.Truncate(a[0], 0) },
	"unlink":    func(a ...string) error { return unix.Unlink(a[0]) },
	"remove":    func(a ...string) error { return os.Remove(a[0]) },
	"chmod":     func(a ...string) error { return unix.Chmod(a[0], octal(a[1])) },
	"chown":     func(a ...string) error { return unix.Chown(a[0], number(a[1]), number(a[1])) },
	// change_group gives a file the group that this process has.
	"change_group": func(a ...string) error { return unix.Chown(a[0], -1, os.Getgid()) },
	"open_first":   func(a ...string) error { return openFirst(a[0], a[1], openFor(openFlags(a[2]))) },
	"exchange": func(a ...string) error {
		return unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
	},
	"open": func(a ...string) error {
		mode := uint32(0o644)
		if len(a) > 2 {
			mode = octal(a[2])
		}
		return openMode(a[0], openFlags(a[1]), mode)
	},
	"open_any": func(a ...string) error {
		for _, path := range a[1:] {
			if openFor(openFlags(a[0]))(path) == nil {
				return nil
			}
		}
		return unix.EACCES
	},
	"create": func(a ...string) error {
		return putIn(unix.Open(a[0], unix.O_CREAT|unix.O_WRONLY, 0o600))
	},
	"create_and_remove": func(a ...string) error {
		fd, err := unix.Open(a[0], unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
		if err == nil {
			unix.Close(fd)
			os.Remove(a[0])
		}
		return err
	},
	// rewrite writes what the file holds already.
	"rewrite": func(a ...string) error {
		same, err := os.ReadFile(a[0])
		if err != nil {
			return err
		}
		return os.WriteFile(a[0], same, 0)
	},
	"link_descriptor": onReadable(func(fd int, a ...string) error {
		return unix.Linkat(unix.AT_FDCWD, procFd(fd), unix.AT_FDCWD, a[0], unix.AT_SYMLINK_FOLLOW)
	}),
	"link_unnamed": func(a ...string) error {
		fd, err := unix.Open(a[0], unix.O_TMPFILE|unix.O_WRONLY, octal(a[1]))
		if err != nil {
			return err
		}
		return unix.Linkat(unix.AT_FDCWD, procFd(fd), unix.AT_FDCWD, a[2], unix.AT_SYMLINK_FOLLOW)
	},
	"append_reopened":  onReadable(func(fd int, _ ...string) error { return appendTo(procFd(fd)) }),
	"chmod_descriptor": onReadable(func(fd int, a ...string) error { return unix.Fchmod(fd, octal(a[0])) }),
	"set_flags_descriptor": onReadable(func(fd int, _ ...string) error {
		flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
		if err != nil {
			return err
		}
		return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|0x40)
	}),
	"set_times": func(a ...string) error {
		at := time.Unix(int64(number(a[1])), 0)
		return os.Chtimes(a[0], at, at)
	},
	"set_attribute": func(a ...string) error { return unix.Setxattr(a[0], a[1], []byte("x"), 0) },
	"set_capabilities": func(a ...string) error {
		var every [20]byte // version 2, effective, every capability
		every[0], every[3] = 1, 2
		copy(every[4:], "\xff\xff\xff\xff")
		return unix.Setxattr(a[0], "security.capability", every[:], 0)
	},
	"write_by_handle": func(a ...string) error {
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, a[0], 0)
		if err != nil {
			return err
		}
		dir, err := unix.Open(a[1], unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		return putIn(unix.OpenByHandleAt(dir, h, unix.O_WRONLY))
	},
	"make_memory_device": func(a ...string) error {
		return unix.Mknod(a[0], unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1)))
	},
	"create_in_passed_folder": createInPassedFolder,
	"fanotify":                func(...string) error { _, err := unix.FanotifyInit(0x200, 0); return err },
	"inotify": func(a ...string) error {
		fd, err := unix.InotifyInit1(0)
		if err != nil {
			return err
		}
		_, err = unix.InotifyAddWatch(fd, a[0], unix.IN_ALL_EVENTS)
		return err
	},
	"read_secret": func(a ...string) error { return readSecret(a[0]) },
	"read_any_secret": func(a ...string) error {
		dir, file := filepath.Split(a[0])
		return openFirst(filepath.Clean(dir), filepath.Dir(filepath.Clean(dir))+"/", func(path string) error {
			return readSecret(path + "/" + file)
		})
	},

	// Descriptors and variables.
	"write_descriptor": func(a ...string) error { return putIn(number(a[0]), nil) },
	"create_in_descriptor": func(a ...string) error {
		return putIn(unix.Openat(number(a[0]), a[1], unix.O_CREAT|unix.O_WRONLY, 0o644))
	},
	"find_descriptor": func(a ...string) error {
		for fd := 3; fd < 200; fd++ {
			var st unix.Stat_t
			if unix.Fstat(fd, &st) != nil {
				continue
			}
			if path, _ := os.Readlink(procFd(fd)); strings.HasPrefix(path, a[0]) {
				return nil
			}
		}
		return unix.EBADF
	},
	"getenv": func(a ...string) error {
		if os.Getenv(a[0]) == "" {
			return unix.ENOENT
		}
		return nil
	},

	// Processes.
	"see_process": func(a ...string) error {
		text, err := os.ReadFile("/proc/" + a[0] + "/cmdline")
		if err == nil && !strings.Contains(string(text), "op\x00wait") {
			return unix.ESRCH
		}
		return err
	},
	"signal": func(a ...string) error { return unix.Kill(number(a[0]), unix.Signal(number(a[1]))) },
	"signal_descriptor": onProcess(func(fd int, a ...string) error {
		return unix.PidfdSendSignal(fd, unix.Signal(number(a[0])), nil, 0)
	}),
	"signal_parent": func(a ...string) error {
		if os.Getppid() == 0 {
			return unix.ESRCH
		}
		return unix.Kill(os.Getppid(), unix.Signal(number(a[0])))
	},
	// signal_by_owned_descriptor makes the kernel send SIGKILL when a socket of
	// its own becomes readable.
	"signal_by_owned_descriptor": func(a ...string) error {
		const setOwner, setSignal = 8, 10 // F_SETOWN, F_SETSIG
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		for _, set := range [][2]int{{setSignal, int(unix.SIGKILL)}, {setOwner, number(a[0])}, {unix.F_SETFL, unix.O_ASYNC}} {
			if _, err := unix.FcntlInt(uintptr(pair[0]), set[0], set[1]); err != nil {
				return err
			}
		}
		_, err = unix.Write(pair[1], []byte("x"))
		return err
	},
	"trace": func(a ...string) error { return raw(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(number(a[0])), 0) },
	"trace_me": func(...string) error {
		runtime.LockOSThread()
		return raw(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0)
	},
	"reach": func(a ...string) error { return reachByName(a[0], number(a[1])) },
	"set_priority": func(a ...string) error {
		which := map[string]int{"process": unix.PRIO_PROCESS, "user": unix.PRIO_USER}
		return unix.Setpriority(value(which, a[0]), number(a[1]), number(a[2]))
	},
	"take_descriptor": onProcess(func(fd int, _ ...string) error { _, err := unix.PidfdGetfd(fd, 0, 0); return err }),
	"enter_namespace": onReadable(func(fd int, _ ...string) error { return unix.Setns(fd, 0) }),
	// start_daemon forks twice, into a session of its own, and holds a lock.
	"start_daemon": func(a ...string) error {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		middle := exec.Command("/proc/self/exe", "op", "daemon", a[0])
		middle.Stdout = w
		if err := middle.Run(); err != nil {
			return err
		}
		w.Close()
		_, err = r.Read(make([]byte, 1))
		return err
	},

	// Sockets.
	"dial": func(a ...string) error {
		greeting := "x"
		if len(a) > 2 {
			greeting = value(greetings, a[2])
		}
		return dialSay(a[0], a[1], greeting)
	},
	"listen": func(a ...string) error { _, err := net.Listen(a[0], a[1]); return err },
	"socket": func(a ...string) error {
		return openSocket(value(socketNumbers, a[0]), value(socketNumbers, a[1]), value(socketNumbers, a[2]))
	},
	"connect_mptcp": func(a ...string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
		if err != nil {
			return err
		}
		return unix.Connect(fd, inet(a[0]))
	},
	"send_fast_open": func(a ...string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, inet(a[0]))
	},
	"sendmsg_from_pair": func(a ...string) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, value(socketNumbers, a[0]), 0)
		if err != nil {
			return err
		}
		return unix.Sendmsg(pair[0], []byte("x"), nil, &unix.SockaddrUnix{Name: a[1]}, 0)
	},
	"sendto_from_pair": func(a ...string) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: a[0]})
	},
	"setup_io_uring": func(...string) error {
		var params [120]byte
		return raw(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
	},
	"run": func(a ...string) error { return runOther(a[0]) },
	"x32_socket": func(...string) error {
		return reached(raw(0x40000000|unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0))
	},
	"systemd_run": func(a ...string) error {
		cmd := exec.Command("/usr/bin/systemd-run", "--user", "--no-block", "--quiet", "/bin/true")
		cmd.Env = []string{"XDG_RUNTIME_DIR=" + a[0], "DBUS_SESSION_BUS_ADDRESS=unix:path=" + a[1]}
		return cmd.Run()
	},

	// Namespaces and mounts.
	"clone": func(a ...string) error {
		flags := map[string]int{"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET}
		return cloneInto(uintptr(value(flags, a[0])))
	},
	"clone3_user":      clone3User,
	"unmount":          func(a ...string) error { return unix.Unmount(a[0], unix.MNT_DETACH) },
	"remount_writable": func(a ...string) error { return unix.Mount("", a[0], "", unix.MS_REMOUNT|unix.MS_BIND, "") },
	"bind":             func(a ...string) error { return unix.Mount(a[0], a[1], "", unix.MS_BIND, "") },
	"open_tree": func(a ...string) error {
		_, err := unix.OpenTree(unix.AT_FDCWD, a[0], unix.OPEN_TREE_CLONE)
		return err
	},
	"fsopen": func(a ...string) error { _, err := unix.Fsopen(a[0], 0); return err },
	"chroot": func(a ...string) error { return unix.Chroot(a[0]) },

	// Privileges and kernel interfaces.
	"set_user":          func(a ...string) error { return raw(unix.SYS_SETUID, uintptr(number(a[0])), 0, 0) },
	"find_capabilities": findCapabilities,
	"may_gain_privileges": func(...string) error {
		if v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || v != 0 {
			return unix.EPERM
		}
		return nil
	},
	"make_bpf_map": func(...string) error {
		attr := struct{ kind, key, value, max uint32 }{2, 4, 4, 1} // an array map
		return raw(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	},
	"open_perf_event": func(...string) error {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
		_, err := unix.PerfEventOpen(&attr, 0, -1, -1, 0)
		return err
	},
	"userfaultfd": func(...string) error { return raw(unix.SYS_USERFAULTFD, 0, 0, 0) },
	"make_session_keyring": func(...string) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
		return err
	},
	"load_module": func(...string) error {
		err := reached(raw(unix.SYS_FINIT_MODULE, ^uintptr(0), 0, 0))
		if err == unix.EBADF || err == unix.ENOEXEC {
			return nil // the call was allowed, only there is no module
		}
		return err
	},
	"raise_core_limit": func(...string) error {
		var lim unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_CORE, &lim); err != nil {
			return err
		}
		lim.Cur = lim.Max
		if lim.Max == 0 {
			return unix.EPERM
		}
		return unix.Setrlimit(unix.RLIMIT_CORE, &lim)
	},
	"run_from_memory": runFromMemory,

	// What processes share by number or name.
	"attach_shared_memory": func(a ...string) error { _, err := unix.SysvShmAttach(number(a[0]), 0, 0); return err },
	"stat_shared_memory": func(a ...string) error {
		_, err := unix.SysvShmCtl(number(a[0]), unix.IPC_STAT, new(unix.SysvShmDesc))
		return err
	},
	"read_semaphore": func(a ...string) error {
		return raw(unix.SYS_SEMCTL, uintptr(number(a[0])), 0, getSemaphore)
	},
	"stat_message_queue": func(a ...string) error {
		var status [256]byte
		return raw(unix.SYS_MSGCTL, uintptr(number(a[0])), unix.IPC_STAT, uintptr(unsafe.Pointer(&status[0])))
	},
	"open_queue": func(a ...string) error { _, err := openQueue(a[0], unix.O_RDWR); return err },

	// Terminals.
	"type_into_stdin": func(...string) error { return typeInto(0) },
	"type_into_controlling": func(...string) error {
		fd, err := unix.Open("/dev/tty", unix.O_RDWR, 0)
		if err != nil {
			return err
		}
		return typeInto(fd)
	},
	"type_into_own": func(...string) error {
		fd, err := ownTerminal()
		if err != nil {
			return err
		}
		return typeInto(fd)
	},
	"paste_into_own": func(...string) error {
		fd, err := ownTerminal()
		if err != nil {
			return err
		}
		c := byte(2)
		return raw(unix.SYS_IOCTL, uintptr(fd), 0x541c, uintptr(unsafe.Pointer(&c)))
	},

	// Limits.
	"fork_bomb": func(a ...string) error {
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // reaps what the bomb leaves
		err := runOther(a[0])
		for {
			if _, wait := unix.Wait4(-1, nil, 0, nil); wait == unix.ECHILD {
				return err
			}
		}
	},
	"raise_process_limit": func(...string) error {
		var lim unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NPROC, &lim); err != nil {
			return err
		}
		if lim.Max > fewProcesses {
			return nil
		}
		lim.Max = unix.RLIM_INFINITY
		return unix.Setrlimit(unix.RLIMIT_NPROC, &lim)
	},
	// use_all_inotify finds out whether it could, without doing so.
	"use_all_inotify": func(...string) error {
		var may, all int
		for file, n := range map[string]*int{"user/max_inotify_instances": &may, "fs/inotify/max_user_instances": &all} {
			text, err := os.ReadFile("/proc/sys/" + file)
			if err != nil {
				panic(err)
			}
			*n = number(strings.TrimSpace(string(text)))
		}
		if may < all {
			return unix.EMFILE
		}
		return nil
	},
	"fill_shared_memory": fillSharedMemory,
	"fill_and_remove": func(a ...string) error {
		if err := os.WriteFile(a[0], make([]byte, 1<<20), 0o600); err != nil {
			return err
		}
		return os.Remove(a[0])
	},
	"allocate": func(a ...string) error {
		fd, err := unix.Open(a[0], unix.O_CREAT|unix.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		return unix.Fallocate(fd, 0, 0, int64(number(a[1])))
	},
}

// escapeEffects report, from outside, whether an attempt had an effect.
var escapeEffects = map[string]func(f *fixture, args ...string) bool{
	"exists": func(_ *fixture, a ...string) bool { _, err := os.Lstat(a[0]); return err == nil },
	// created is exists for a file outside of what the test removes.
	"created": func(_ *fixture, a ...string) bool {
		defer os.Remove(a[0])
		_, err := os.Stat(a[0])
		return err == nil
	},
	// changed is about a file that may be at any of the paths.
	"changed": func(_ *fixture, a ...string) bool {
		for _, path := range a {
			if !changed(path) {
				return false
			}
		}
		return true
	},
	"exchanged": func(f *fixture, a ...string) bool {
		return changed(a[0]) || sameFile(a[1], a[0]) || moved(f)
	},
	"pointer_changed": func(_ *fixture, a ...string) bool {
		text, err := os.ReadFile(a[0])
		return err != nil || string(text) != "gitdir: "+a[1]+"\n"
	},
	"symlink_changed": func(_ *fixture, a ...string) bool {
		to, err := os.Readlink(a[0])
		return err != nil || to != a[1]
	},
	"mode_changed": func(_ *fixture, a ...string) bool {
		st, err := os.Stat(a[0])
		return err != nil || st.Mode().Perm() != 0o644
	},
	"set_user_id": func(_ *fixture, a ...string) bool {
		st, err := os.Stat(a[0])
		return err == nil && st.Mode()&os.ModeSetuid != 0
	},
	"owner": func(_ *fixture, a ...string) bool {
		var st unix.Stat_t
		return unix.Stat(a[0], &st) == nil && int(st.Uid) == number(a[1])
	},
	"modified_at": func(_ *fixture, a ...string) bool {
		st, err := os.Stat(a[0])
		return err == nil && st.ModTime().Unix() == int64(number(a[1]))
	},
	"attribute": func(_ *fixture, a ...string) bool {
		_, err := unix.Getxattr(a[0], a[1], make([]byte, 100))
		return err == nil
	},
	"size": func(_ *fixture, a ...string) bool {
		st, err := os.Stat(a[0])
		return err == nil && st.Size() == int64(number(a[1]))
	},
	"received":     func(f *fixture, _ ...string) bool { return f.received() },
	"typed":        func(f *fixture, _ ...string) bool { return f.typed() },
	"lock_held":    func(_ *fixture, a ...string) bool { return lockHeld(a[0]) },
	"starter_died": func(f *fixture, _ ...string) bool { return f.died },
}

// greetings begin a conversation in the protocol of a daemon.
var greetings = map[string]string{
	"dbus":      "\x00AUTH EXTERNAL 30\r\n",
	"ssh_agent": "\x00\x00\x00\x01\x0b",                          // asks for its list of keys
	"x11":       "l\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00", // little endian, version 11, no key
}

// socketNumbers are the families, types and protocols of sockets.
var socketNumbers = map[string]int{
	"inet": unix.AF_INET, "unix": unix.AF_UNIX, "netlink": unix.AF_NETLINK, "packet": unix.AF_PACKET,
	"vsock": unix.AF_VSOCK, "alg": unix.AF_ALG, "bluetooth": unix.AF_BLUETOOTH,
	"stream": unix.SOCK_STREAM, "dgram": unix.SOCK_DGRAM, "raw": unix.SOCK_RAW, "seqpacket": unix.SOCK_SEQPACKET,
	"0": 0, "icmp": unix.IPPROTO_ICMP,
	"netlink_route": unix.NETLINK_ROUTE, "netlink_audit": unix.NETLINK_AUDIT,
}

// value returns m[key]. It panics when there is none.
func value[V any](m map[string]V, key string) V {
	v, ok := m[key]
	if !ok {
		panic(fmt.Sprintf("unknown name %q", key))
	}
	return v
}

// number returns the decimal number s.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// octal returns the octal number s.
func octal(s string) uint32 {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil {
		panic(err)
	}
	return uint32(n)
}

// openFlags returns the flags of open named in s, such as "rdonly|trunc".
func openFlags(s string) int {
	names := map[string]int{
		"rdonly": unix.O_RDONLY, "wronly": unix.O_WRONLY, "creat": unix.O_CREAT, "trunc": unix.O_TRUNC,
	}
	flags := 0
	for name := range strings.SplitSeq(s, "|") {
		flags |= value(names, name)
	}
	return flags
}

func procFd(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// onReadable returns an operation on a descriptor of the file named by its
// first argument, opened for reading.
func onReadable(op func(fd int, args ...string) error) func(...string) error {
	return func(args ...string) error {
		fd, err := unix.Open(args[0], unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return op(fd, args[1:]...)
	}
}

// onProcess returns an operation on a descriptor of the process whose id is its
// first argument.
func onProcess(op func(fd int, args ...string) error) func(...string) error {
	return func(args ...string) error {
		fd, err := unix.PidfdOpen(number(args[0]), 0)
		if err != nil {
			return err
		}
		return op(fd, args[1:]...)
	}
}

// createInPassedFolder creates a file in a folder that was received as a
// descriptor over a socket.
func createInPassedFolder(args ...string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	dir, err := unix.Open(args[0], unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(dir), nil, 0); err != nil {
		return err
	}
	control := make([]byte, 100)
	_, n, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), control, 0)
	if err != nil {
		return err
	}
	msgs, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return err
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		return err
	}
	return putIn(unix.Openat(fds[0], args[1], unix.O_CREAT|unix.O_WRONLY, 0o644))
}

func clone3User(...string) error {
	args := struct{ flags, pidfd, childTid, parentTid, exit, stack, stackSize, tls uint64 }{
		flags: unix.CLONE_NEWUSER, exit: uint64(unix.SIGCHLD),
	}
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}

// findCapabilities is nil when this process has any capability.
func findCapabilities(...string) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		name, set, _ := strings.Cut(line, ":")
		if !strings.HasPrefix(name, "Cap") || strings.Trim(set, "\t\n0") == "" {
			continue
		}
		// Users other than root cannot shrink the bounding set, and with
		// no_new_privs nothing comes out of it.
		if name != "CapBnd" || os.Geteuid() == 0 {
			return nil
		}
	}
	return unix.EPERM
}

// runFromMemory runs the program at args[0] from an anonymous file.
func runFromMemory(args ...string) error {
	fd, err := unix.MemfdCreate("program", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, text); err != nil {
		return err
	}
	return exec.Command(procFd(fd)).Run()
}

// fillSharedMemory finds out how much could be written, without writing it.
func fillSharedMemory(args ...string) error {
	fd, err := unix.Open(args[0], unix.O_CREAT|unix.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(args[0])
	defer unix.Close(fd)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if fs.Blocks*uint64(fs.Bsize) <= 1<<30 {
		return unix.ENOSPC
	}
	return nil
}

// changed reports whether the file at path is other than "old".
func changed(path string) bool {
	text, err := os.ReadFile(path)
	return err != nil || string(text) != "old"
}

// lockHeld reports whether a process that wrote its id into the file at path
// still holds a lock on it. If it is an orphan of this test, it is killed.
func lockHeld(path string) bool {
	fd, err := unix.Open(path, unix.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != unix.EWOULDBLOCK {
		return false
	}
	text, _ := os.ReadFile(path)
	if pid, err := strconv.Atoi(string(text)); err == nil && parentIsGone(pid) {
		unix.Kill(pid, unix.SIGKILL)
	}
	return true
}

// typed reports whether there is something to read from the terminal, and
// discards it.
func (f *fixture) typed() bool {
	n, err := unix.IoctlGetInt(f.tty, unix.TIOCINQ)
	unix.IoctlSetInt(f.tty, unix.TCFLSH, unix.TCIFLUSH)
	return err == nil && n > 0
}

func openSocket(family, kind, proto int) error {
	_, err := unix.Socket(family, kind, proto)
	return reached(err)
}

// openQueue opens a queue of messages, as in POSIX.
func openQueue(name string, flags uintptr) (int, error) {
	path := append([]byte(name), 0)
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&path[0])), flags, 0o600, 0, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func openFor(flags int) func(path string) error {
	return func(path string) error { return openMode(path, flags, 0o644) }
}

// openMode opens the file at path, created with mode, and closes it.
func openMode(path string, flags int, mode uint32) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, mode)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// putTwo writes to path by way of the writer fd.
func putIn(fd int, err error) error {
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte("new"))
	return err
}

// getSemaphore is GETVAL.
const getSemaphore = 12

// typeInto types a line into the terminal fd.
func typeInto(fd int) error {
	for _, c := range []byte("x\n") {
		if err := raw(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&c))); err != nil {
			return err
		}
	}
	return nil
}

const strictly = "TOOLGATE_TEST_STRICTLY"

// reached is err, but nil when a call got as far as the kernel's own lists,
// on which there is nothing of the kind: no filter stopped it. With the variable
// strictly, that is no success.
func reached(err error) error {
	if os.Getenv(strictly) == "" && (err == unix.ENOSYS || err == unix.EAFNOSUPPORT) {
		return nil
	}
	return err
}

// reachByName does one of the reaches to the process pid.
func reachByName(name string, pid int) error {
	for _, r := range reaches {
		if r.name == name {
			return r.try(pid, pid)
		}
	}
	return fmt.Errorf("no reach %q", name)
}

// dialSay connects to addr and says text.
func dialSay(network, addr, text string) error {
	c, err := net.Dial(network, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte(text))
	return err
}

// inet returns the IPv4 address addr for a system call.
func inet(addr string) unix.Sockaddr {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		panic(err)
	}
	return &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())}
}

// cloneInto starts a process in new namespaces.
func cloneInto(flags uintptr) error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	return cmd.Run()
}

// ownTerminal returns the terminal end of a new pair.
func ownTerminal() (int, error) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	_, err = unix.Setsid()
	if err != nil && err != unix.EPERM {
		return -1, err
	}
	return fd, unix.IoctlSetInt(fd, unix.TIOCSCTTY, 0)
}

func runOther(path string) error {
	err := exec.Command(path).Run()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() > 0 {
		return syscall.Errno(exit.ExitCode())
	}
	return err
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// moved reports whether Victim is another file than it was: the one it was
// is open for writing here.
func moved(f *fixture) bool {
	var was, is unix.Stat_t
	return unix.Fstat(f.FileFd, &was) == nil && unix.Stat(f.Victim, &is) == nil && was.Ino != is.Ino
}

// readSecret is nil when path can be read and holds what it should.
func readSecret(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), secret) {
		return unix.ENODATA
	}
	return nil
}

// openFirst opens, in the folder dir, the first thing named as a match of
// pattern.
func openFirst(pattern, dir string, open func(string) error) error {
	names, _ := filepath.Glob(pattern)
	err := error(unix.ENOENT)
	for _, name := range names {
		if err = open(dir + filepath.Base(name)); err == nil {
			return nil
		}
	}
	return err
}
