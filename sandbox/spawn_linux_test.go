package sandbox_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/policy"
	"toolgate/sandbox"
)

func init() {
	// worker runs an op in a command of its own, through a Spawner.
	ops["worker"] = func(args []string) error {
		plan, ok := sandbox.Current()
		if !ok {
			return fmt.Errorf("not in a sandbox")
		}
		s, err := sandbox.NewSpawner(plan)
		if err != nil {
			return err
		}
		cmd := again(args[0], args[1:]...)
		if err := s.Start(cmd); err != nil {
			return err
		}
		err = cmd.Wait()
		if exit, ok := err.(*exec.ExitError); ok {
			return syscall.Errno(exit.ExitCode())
		}
		return err
	}
	// terminal starts a shell with a terminal that this process has opened.
	ops["terminal"] = func([]string) error {
		plan, _ := sandbox.Current()
		s, err := sandbox.NewSpawner(plan)
		if err != nil {
			return err
		}
		ours, theirs, err := pty.Open()
		if err != nil {
			return err
		}
		cmd := exec.Command("/bin/sh", "-c", "(: > $(tty)) 2> /dev/null && echo opened; echo in use > /dev/tty")
		cmd.Stdin, cmd.Stdout = theirs, os.Stdout
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := s.Start(cmd); err != nil {
			return err
		}
		if err := cmd.Wait(); err != nil {
			return err
		}
		text := make([]byte, 100)
		n, err := ours.Read(text)
		fmt.Print(string(text[:n]))
		return err
	}
	// reach tries to reach its parent in every way, and says how each ended.
	ops["reach"] = func([]string) error {
		parent := os.Getppid()
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", parent))
		if err != nil {
			return err
		}
		for _, task := range tasks {
			tid, _ := strconv.Atoi(task.Name())
			for _, r := range reaches {
				fmt.Printf("%s %s\n", r.name, errnoName(r.try(parent, tid)))
			}
		}
		return nil
	}
}

func errnoName(err error) string {
	if err == nil {
		return "ok"
	}
	if errno, ok := asErrno(err); ok {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// reaches are ways of a command to reach the worker that started it, whose
// threads are each tried.
var reaches = []struct {
	name string
	try  func(pid, tid int) error
}{
	{"kill", func(pid, tid int) error { return unix.Kill(pid, 0) }},
	{"kill by thread", func(pid, tid int) error { return unix.Kill(tid, 0) }},
	{"tgkill", func(pid, tid int) error { return unix.Tgkill(pid, tid, 0) }},
	{"tkill", func(pid, tid int) error { return raw(unix.SYS_TKILL, uintptr(tid), 0, 0) }},
	{"sigqueue", func(pid, tid int) error {
		var info unix.Siginfo
		info.Code = -1 // SI_QUEUE
		return raw(unix.SYS_RT_SIGQUEUEINFO, uintptr(tid), 0, uintptr(unsafe.Pointer(&info)))
	}},
	{"signal by folder of /proc", func(pid, tid int) error {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d", tid), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.PidfdSendSignal(fd, 0, nil, 0)
	}},
	{"trace", func(pid, tid int) error {
		if err := raw(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(tid), 0); err != nil {
			return err
		}
		return nil // let go by ending
	}},
	{"read memory", func(pid, tid int) error { return openRead(fmt.Sprintf("/proc/%d/mem", pid)) }},
	{"read memory of thread", func(pid, tid int) error { return openRead(fmt.Sprintf("/proc/%d/task/%d/mem", pid, tid)) }},
	{"read environment", func(pid, tid int) error { return openRead(fmt.Sprintf("/proc/%d/environ", tid)) }},
	{"see open files", func(pid, tid int) error {
		_, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", tid))
		return err
	}},
	{"process_vm_readv", func(pid, tid int) error {
		var b [8]byte
		local := []unix.Iovec{{Base: &b[0], Len: 8}}
		remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&b[0])), Len: 8}}
		_, err := unix.ProcessVMReadv(tid, local, remote, 0)
		if err == unix.EFAULT {
			return nil // it was let in, only nothing is mapped there
		}
		return err
	}},
	{"limit", func(pid, tid int) error {
		var lim unix.Rlimit
		if err := unix.Prlimit(tid, unix.RLIMIT_CORE, nil, &lim); err != nil {
			return err
		}
		return unix.Prlimit(tid, unix.RLIMIT_CORE, &lim, nil)
	}},
}

func raw(nr, a, b, c uintptr) error {
	if _, _, errno := unix.Syscall(nr, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

func openRead(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// Neither a command nor a program can reach the process that started it by any
// of its threads. The control: any other child of the same user can.
func TestStartedCannotReachTheStarter(t *testing.T) {
	outcomes := func(out string) map[string]map[string]bool {
		found := map[string]map[string]bool{}
		for line := range strings.Lines(out) {
			i := strings.LastIndexByte(line, ' ')
			name, errno := line[:i], strings.TrimSpace(line[i:])
			if found[name] == nil {
				found[name] = map[string]bool{}
			}
			found[name][errno] = true
		}
		return found
	}
	var out bytes.Buffer
	control := exec.Command("/proc/self/exe", "op", "reach")
	control.Stdout = &out
	require.NoError(t, control.Run())
	for name, errnos := range outcomes(out.String()) {
		require.True(t, errnos["ok"], "the control cannot %s: %v", name, errnos)
	}

	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		plan := at(t, level, policy.Profile{})
		for who, op := range map[string][]string{
			"a command its worker":     {"worker", "reach"},
			"a program its supervisor": {"reach"},
		} {
			errno, out := try(t, plan, op[0], op[1:]...)
			require.Zero(t, errno)
			found := outcomes(out)
			require.Len(t, found, len(reaches))
			for name, errnos := range found {
				require.False(t, errnos["ok"], "%s can %s: %v", who, name, errnos)
			}
		}
	})
}

func TestSpawnerHoldsCommandsToThePlan(t *testing.T) {
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		root, outside := t.TempDir(), t.TempDir()
		plan := at(t, level, workspace(root))
		errno, out := try(t, plan, "worker", "say", "hello")
		require.Zero(t, errno)
		require.Equal(t, "hello", out)
		errno, _ = try(t, plan, "worker", "write", root+"/a")
		require.Zero(t, errno)
		errno, _ = try(t, plan, "worker", "write", outside+"/a")
		require.Equal(t, refused[level], errno)
		errno, _ = try(t, plan, "worker", "socket", fmt.Sprint(unix.AF_INET), fmt.Sprint(unix.SOCK_DGRAM), "0")
		require.Equal(t, unix.EPERM, errno)
	})
}

// The restriction is the command's: it lies on one thread of this process,
// and on nothing else of it.
func TestSpawnerRestrictsOnlyItsThread(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	s, err := sandbox.NewSpawner(at(t, sandbox.Landlock, workspace(dir)))
	require.NoError(t, err)
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			inside := again("write", fmt.Sprintf("%s/%d", dir, i))
			if err := s.Start(inside); err != nil {
				t.Error(err)
				return
			}
			if err := inside.Wait(); err != nil {
				t.Error(err)
			}
			refused := exec.Command("/proc/self/exe", "op", "write", fmt.Sprintf("%s/%d", outside, i))
			if err := s.Start(refused); err != nil {
				t.Error(err)
				return
			}
			if err := refused.Wait(); refused.ProcessState.ExitCode() != int(unix.EACCES) {
				t.Error(err)
			}
			if err := os.WriteFile(fmt.Sprintf("%s/own%d", outside, i), nil, 0o644); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestSpawnerReportsStartErrors(t *testing.T) {
	s, err := sandbox.NewSpawner(at(t, sandbox.Landlock, policy.Profile{}))
	require.NoError(t, err)
	require.ErrorIs(t, s.Start(exec.Command("/no/such/program")), os.ErrNotExist)
	_, err = sandbox.NewSpawner(at(t, sandbox.Landlock, workspace(t.TempDir()+"/missing")))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestSpawnerOfAnUnconfinedPlan(t *testing.T) {
	s, err := sandbox.NewSpawner(at(t, sandbox.None, policy.Profile{}))
	require.NoError(t, err)
	cmd := exec.Command("/proc/self/exe", "op", "socket", fmt.Sprint(unix.AF_UNIX), fmt.Sprint(unix.SOCK_STREAM), "0")
	require.NoError(t, s.Start(cmd))
	require.NoError(t, cmd.Wait())
}

// TestTerminalOfWorker checks that a command has the terminal that its worker opened
// for it, also where it cannot open one itself.
func TestTerminalOfWorker(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		root := t.TempDir()
		cmd := at(t, level, workspace(root)).Command("", "op", "terminal")
		cmd.Dir, cmd.Env = root, []string{"PATH=/usr/bin:/bin"}
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		require.NoError(t, cmd.Run(), stderr.String())
		want := "opened\nin use\r\n"
		if level == sandbox.Landlock {
			want = "in use\r\n"
		}
		require.Equal(t, want, out.String())
	})
}
