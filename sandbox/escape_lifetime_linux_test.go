package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/policy"
	"toolgate/sandbox"
)

// parentIsGone reports whether pid is an orphan of this test. It is false for an
// id from another pid namespace.
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
	// hold locks a file, writes its own id into it, prints a line, and waits.
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
	// pinger runs in a network namespace where every group may ping. It opens a
	// ping socket, then again at each level, and prints the results.
	ops["pinger"] = func([]string) error {
		if err := os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 0"), 0); err != nil {
			return err
		}
		fmt.Println("control", errnoName(openSocket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP)))
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

// Ping sockets are allowed for some groups only, and in most network namespaces
// for none. So this is tried in one where all groups may.
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

// A root must not lead elsewhere through a symlink that a sandbox could create.
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
