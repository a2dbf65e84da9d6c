//go:build linux

package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/policy"
	"toolgate/sandbox"
)

// attempts are all of them, in the order of the document.
var attempts = slices.Concat(fileAttempts, socketAttempts, limitAttempts, endAttempts)

// socketAttempts reach daemons of the user by the names that programs look
// for, in their own protocols.
var socketAttempts = []attempt{
	{name: "net.dbus_session", happened: (*field).heard,
		try: func(f *field) error { return dialSay("unix", f.Bus, "\x00AUTH EXTERNAL 30\r\n") }},
	{name: "net.ssh_agent", happened: (*field).heard,
		try: func(f *field) error { return dialSay("unix", f.Agent, "\x00\x00\x00\x01\x0b") }}, // its list of keys
	{name: "net.x11", happened: (*field).heard,
		try: func(f *field) error { return dialSay("unix", f.Display, helloX11) }},
	{name: "net.x11_abstract", happened: (*field).heard,
		try: func(f *field) error { return dialSay("unix", f.Screen, helloX11) }},
	{name: "net.systemd_private", happened: (*field).heard,
		try: func(f *field) error {
			return dialSay("unix", f.Runtime+"/systemd/private", "\x00AUTH EXTERNAL 30\r\n")
		}},
	{name: "net.systemd_run", needs: "systemd-run", happened: (*field).heard,
		try: func(f *field) error {
			cmd := exec.Command("/usr/bin/systemd-run", "--user", "--no-block", "--quiet", "/bin/true")
			cmd.Env = []string{"XDG_RUNTIME_DIR=" + f.Runtime, "DBUS_SESSION_BUS_ADDRESS=unix:path=" + f.Bus}
			return cmd.Run()
		}},
}

// helloX11 asks a display for a connection: least byte first, version 11, no
// name, no key.
const helloX11 = "l\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// limitAttempts use something up.
var limitAttempts = []attempt{
	{name: "limits.fork_bomb", needs: "room for many processes", open: landlockOnly(noPids),
		partly: map[sandbox.Level]partly{
			sandbox.Full:  {"for root before Linux 6.14", noPidLimit},
			sandbox.Bwrap: {"for root", isRoot},
		},
		try: func(f *field) error {
			// What it leaves is buried here.
			unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
			err := runOther(f.Bomb)
			for {
				if _, err := unix.Wait4(-1, nil, 0, nil); err == unix.ECHILD {
					break
				}
			}
			return err
		}},
	{name: "limits.raise_processes", open: landlockOnly(noPids),
		try: func(f *field) error {
			var lim unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NPROC, &lim); err != nil {
				return err
			}
			if lim.Max > fewProcesses {
				return nil
			}
			lim.Max = unix.RLIM_INFINITY
			return unix.Setrlimit(unix.RLIMIT_NPROC, &lim)
		}},
	{name: "limits.fill_shared_memory", needs: "a large /dev/shm",
		try: func(f *field) error {
			path := fmt.Sprintf("/dev/shm/toolgate-fill-%d", f.Pid)
			fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			defer os.Remove(path)
			defer unix.Close(fd)
			// How much there would be, without taking it.
			var fs unix.Statfs_t
			if err := unix.Fstatfs(fd, &fs); err != nil {
				return err
			}
			if fs.Blocks*uint64(fs.Bsize) <= 1<<30 {
				return unix.ENOSPC
			}
			return nil
		}},
	{name: "limits.fill_dev", needs: "root",
		try: func(f *field) error {
			path := fmt.Sprintf("/dev/toolgate-fill-%d", f.Pid)
			if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
				return err
			}
			return os.Remove(path)
		}},
	{name: "limits.fill_disk", open: byDesign("the writable roots are on the user's disk, and a quota is the file system's matter"),
		try: func(f *field) error {
			fd, err := unix.Open(f.Root+"/large", unix.O_CREAT|unix.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			return unix.Fallocate(fd, 0, 0, 16<<20)
		},
		happened: func(f *field) bool {
			st, err := os.Stat(f.Root + "/large")
			return err == nil && st.Size() == 16<<20
		}},
}

func isRoot() bool { return os.Geteuid() == 0 }

// noPidLimit reports whether nothing counts root's processes: the kernel has
// no limit for each pid namespace.
func noPidLimit() bool {
	var name unix.Utsname
	if !isRoot() || unix.Uname(&name) != nil {
		return false
	}
	var major, minor int
	fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	return major < 6 || major == 6 && minor < 14
}

// endAttempts are on the process that starts them, or on the end of all.
var endAttempts = []attempt{
	{name: "end.daemon_survives", own: true,
		try: func(f *field) error {
			// Forked twice, in a session of its own, and holding a lock.
			r, w, err := os.Pipe()
			if err != nil {
				return err
			}
			middle := exec.Command("/proc/self/exe", "op", "daemon", f.Root+"/lock")
			middle.Stdout = w
			if err := middle.Run(); err != nil {
				return err
			}
			w.Close()
			_, err = r.Read(make([]byte, 1))
			return err
		},
		happened: func(f *field) bool {
			fd, err := unix.Open(f.Root+"/lock", unix.O_RDWR, 0)
			if err != nil {
				return false
			}
			defer unix.Close(fd)
			if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != unix.EWOULDBLOCK {
				return false
			}
			text, _ := os.ReadFile(f.Root + "/lock")
			if pid, err := strconv.Atoi(string(text)); err == nil && parentIsGone(pid) {
				unix.Kill(pid, unix.SIGKILL)
			}
			return true
		}},
	{name: "worker.kill_group", own: true,
		try:      func(f *field) error { return unix.Kill(0, unix.SIGKILL) },
		happened: (*field).starterDied},
	{name: "worker.kill_by_owned_descriptor", own: true,
		try: func(f *field) error {
			const setOwner, setSignal = 8, 10 // F_SETOWN, F_SETSIG
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			for _, set := range [][2]int{{setSignal, int(unix.SIGKILL)}, {setOwner, os.Getppid()}, {unix.F_SETFL, unix.O_ASYNC}} {
				if _, err := unix.FcntlInt(uintptr(pair[0]), set[0], set[1]); err != nil {
					return err
				}
			}
			_, err = unix.Write(pair[1], []byte("x"))
			return err
		},
		happened: (*field).starterDied},
	{name: "worker.kill_everyone", alone: "unconfined it would be the end of the user's processes",
		try: func(f *field) error { return unix.Kill(-1, 0) }},
	{name: "worker.slow_user", alone: "unconfined it would be for all of the user's processes",
		try: func(f *field) error { return unix.Setpriority(unix.PRIO_USER, 0, 0) }},
}

// starterDied reports whether the process that started the attempt did not
// live to say how it ended.
func (f *field) starterDied() bool { return f.died }

// parentIsGone reports whether pid is an orphan of this test: one whose number
// it told from a namespace of its own is not.
func parentIsGone(pid int) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.Contains(string(cmdline), "op\x00hold")
}

func init() {
	ops["daemon"] = func(args []string) error {
		daemon := again("hold", args...)
		daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return daemon.Start()
	}
	// hold locks a file, writes its own number into it, says so, and waits.
	ops["hold"] = func(args []string) error {
		fd, err := unix.Open(args[0], unix.O_CREAT|unix.O_RDWR, 0o644)
		if err != nil {
			return err
		}
		if err := unix.Flock(fd, unix.LOCK_EX); err != nil {
			return err
		}
		if _, err := unix.Write(fd, []byte(strconv.Itoa(os.Getpid()))); err != nil {
			return err
		}
		fmt.Println("held")
		return hang()
	}
	// pinger is in a network where every group may ping. It does, and then
	// tries at each level; it prints what came of it.
	ops["pinger"] = func([]string) error {
		if err := os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 0"), 0); err != nil {
			return err
		}
		fmt.Println("control", errnoName(socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP)(nil)))
		for _, level := range []sandbox.Level{sandbox.Landlock, sandbox.Bwrap, sandbox.Full} {
			plan, err := planAt(level, policy.Profile{})
			if err != nil {
				continue
			}
			cmd := plan.Command("", "op", "worker", "socket", fmt.Sprint(unix.AF_INET), fmt.Sprint(unix.SOCK_DGRAM), fmt.Sprint(unix.IPPROTO_ICMP))
			cmd.Dir = "/"
			code := sandbox.ExitCode(cmd.Run())
			if code < 0 {
				return errors.New("it could not be tried")
			}
			fmt.Println(level, unix.ErrnoName(syscall.Errno(code)))
		}
		return nil
	}
}

// Ping sockets are for groups that may, of which most networks have none: so
// this is tried in one where all may.
func TestPing(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "op", "pinger")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	out, err := cmd.Output()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		skip(t, "no user namespaces: %v", err)
	}
	require.NoError(t, err, string(out))
	said := string(out)
	require.Contains(t, said, "control ok")
	require.Contains(t, said, "landlock EPERM")
	require.NotContains(t, strings.ReplaceAll(said, "control ok", ""), "ok")
}

// A root that leads elsewhere by a symlink that a sandbox could make is none.
func TestSymlinkedRootInARoot(t *testing.T) {
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		base, err := filepath.EvalSymlinks(t.TempDir())
		require.NoError(t, err)
		shared, elsewhere := base+"/shared", base+"/elsewhere"
		require.NoError(t, os.MkdirAll(shared+"/ws", 0o755))
		require.NoError(t, os.MkdirAll(elsewhere, 0o755))
		plan := at(t, level, workspace(shared, shared+"/ws"))
		errno, _ := try(t, plan, "write", shared+"/ws/a")
		require.Zero(t, errno)

		require.NoError(t, os.RemoveAll(shared+"/ws"))
		require.NoError(t, os.Symlink(elsewhere, shared+"/ws"))
		err = plan.Command("", "op", "write", shared+"/ws/a").Run()
		require.ErrorContains(t, err, "by a symlink in another writable root")
		require.NoFileExists(t, elsewhere+"/a")
	})
}
