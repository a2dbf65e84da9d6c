package sandbox_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/policy"
	"toolgate/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Main()
	if len(os.Args) > 2 && os.Args[1] == "op" {
		// Not os.Exit, which takes a second with the race detector.
		unix.Exit(runOp(os.Args[2], os.Args[3:]))
	}
	os.Setenv("SECRET", secret) // which no sandbox may see
	os.Exit(m.Run())
}

// required is set where a missing kernel feature is a fault, as in CI.
var required = os.Getenv("REQUIRE_SANDBOX") != ""

func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	if required {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// at returns the plan for p at level, or skips.
func at(t *testing.T, level sandbox.Level, p policy.Profile) sandbox.Plan {
	t.Helper()
	s := sandbox.Probe()
	switch {
	case level == sandbox.Full && !s.Namespaces.OK:
		skip(t, "no namespaces: %s", s.Namespaces.Why)
	case level == sandbox.Bwrap && !bubblewrap().Bwrap.OK:
		skip(t, "no bubblewrap: %s", bubblewrap().Bwrap.Why)
	case level == sandbox.Landlock && !s.Landlock.OK:
		skip(t, "no Landlock: %s", s.Landlock.Why)
	}
	plan, err := planAt(level, p)
	require.NoError(t, err)
	return plan
}

// planAt returns the plan for p at level. At level none, p is not confined.
func planAt(level sandbox.Level, p policy.Profile) (sandbox.Plan, error) {
	s := sandbox.Probe()
	switch level {
	case sandbox.Bwrap:
		s = bubblewrap()
	case sandbox.None:
		p.Mode = policy.DangerFullAccess
	case sandbox.Landlock:
		s.Namespaces, s.Bwrap = sandbox.Support{Why: "left out"}, sandbox.Support{Why: "left out"}
	}
	plan, err := sandbox.NewPlan(p, s)
	if err == nil && plan.Level != level {
		err = fmt.Errorf("level is %v, not %v", plan.Level, level)
	}
	return plan, err
}

// bubblewrap is this system as if it could make namespaces only through
// bubblewrap.
var bubblewrap = sync.OnceValue(func() sandbox.System {
	s := sandbox.Probe()
	s.Namespaces = sandbox.Support{Why: "left out"}
	s.BwrapPath, s.Bwrap = sandbox.ProbeBwrap()
	return s
})

// eachLevel runs f at every level that confines.
func eachLevel(t *testing.T, f func(t *testing.T, level sandbox.Level)) {
	for _, level := range []sandbox.Level{sandbox.Full, sandbox.Bwrap, sandbox.Landlock} {
		t.Run(level.String(), func(t *testing.T) { f(t, level) })
	}
}

// ops are what a confined child does. What an op prints, and the errno it
// fails with, is what the test sees.
var ops = map[string]func(args []string) error{
	"write":  func(args []string) error { return os.WriteFile(args[0], []byte("new"), 0o644) },
	"append": func(args []string) error { return appendTo(args[0]) },
	"read": func(args []string) error {
		text, err := os.ReadFile(args[0])
		fmt.Print(string(text))
		return err
	},
	"list": func(args []string) error {
		entries, err := os.ReadDir(args[0])
		for _, e := range entries {
			fmt.Println(e.Name())
		}
		return err
	},
	"mkdir":    func(args []string) error { return os.Mkdir(args[0], 0o755) },
	"remove":   func(args []string) error { return unix.Unlink(args[0]) },
	"rename":   func(args []string) error { return unix.Rename(args[0], args[1]) },
	"link":     func(args []string) error { return unix.Link(args[0], args[1]) },
	"chmod":    func(args []string) error { return os.Chmod(args[0], 0o777) },
	"truncate": func(args []string) error { return os.Truncate(args[0], 0) },
	"say":      func(args []string) error { fmt.Print(strings.Join(args, " ")); return nil },
	"exit":     func(args []string) error { unix.Exit(len(args[0])); return nil },
	"suicide":  func(args []string) error { return unix.Kill(os.Getpid(), unix.SIGTERM) },
	"env":      func(args []string) error { fmt.Print(strings.Join(os.Environ(), "\n")); return nil },
	"cwd":      func(args []string) error { dir, err := os.Getwd(); fmt.Print(dir); return err },
	"socket": func(args []string) error {
		var domain, kind, proto int
		fmt.Sscan(strings.Join(args, " "), &domain, &kind, &proto)
		_, err := unix.Socket(domain, kind, proto)
		return err
	},
	"dial": func(args []string) error {
		c, err := net.Dial("tcp", args[0])
		if err != nil {
			return err
		}
		text, err := io.ReadAll(c)
		fmt.Print(string(text))
		return err
	},
	"level": func(args []string) error {
		plan, ok := sandbox.Current()
		fmt.Print(ok, " ", plan.Level)
		return nil
	},
	"wait": func(args []string) error { fmt.Println("here"); return hang() },
	// brood leaves a daemon behind, forked twice and in a session of its own,
	// and then waits or, with an argument, ends.
	"brood": func(args []string) error {
		middle := again("orphan")
		if err := middle.Run(); err != nil || len(args) > 0 {
			return err
		}
		return hang()
	},
	"orphan": func(args []string) error {
		daemon := again("wait")
		daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return daemon.Start()
	},
	// gate starts a sandbox of the level with a brood in it.
	"gate": func(args []string) error {
		var level sandbox.Level
		if err := level.UnmarshalText([]byte(args[0])); err != nil {
			return err
		}
		plan, err := planAt(level, policy.Profile{})
		if err != nil {
			return err
		}
		cmd := plan.Command("", "op", "brood")
		cmd.Dir, cmd.Stdout = "/", os.Stdout
		if err := cmd.Start(); err != nil {
			return err
		}
		return cmd.Wait()
	},
}

// hang waits for ever, without the runtime taking it for a deadlock.
func hang() error {
	r, _, err := os.Pipe()
	if err != nil {
		return err
	}
	r.Read(make([]byte, 1))
	return errors.New("the pipe ended")
}

// again is a command of this binary that shares its output.
func again(op string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", append([]string{"op", op}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

func appendTo(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString("more")
	return err
}

// runOp runs an op and ends with its errno as exit code.
func runOp(name string, args []string) int {
	op, ok := ops[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no op %q\n", name)
		return 250
	}
	err := op(args)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	if errno, ok := asErrno(err); ok && errno < 250 {
		return int(errno)
	}
	return 251
}

func asErrno(err error) (syscall.Errno, bool) { return errors.AsType[syscall.Errno](err) }

// try runs an op of this binary under plan and returns its errno and output.
func try(t *testing.T, plan sandbox.Plan, op string, args ...string) (syscall.Errno, string) {
	t.Helper()
	cmd := plan.Command(append([]string{"", "op", op}, args...)...)
	cmd.Dir = "/"
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	code := sandbox.ExitCode(err)
	if code < 0 || code >= 250 {
		t.Fatalf("op %s %q: %v\n%s", op, args, err, errs.String())
	}
	return syscall.Errno(code), out.String()
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// refused is the errno of a write that a level refuses: a read-only mount
// answers before Landlock does.
var refused = map[sandbox.Level]syscall.Errno{sandbox.Full: unix.EROFS, sandbox.Bwrap: unix.EROFS, sandbox.Landlock: unix.EACCES}

func TestWrites(t *testing.T) {
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		root, outside := t.TempDir(), t.TempDir()
		inside := write(t, root+"/in", "old")
		victim := write(t, outside+"/out", "old")
		require.NoError(t, os.Symlink(outside, root+"/dirlink"))
		require.NoError(t, os.Symlink(victim, root+"/link"))
		require.NoError(t, os.Symlink(outside+"/missing", root+"/dangling"))
		plan := at(t, level, workspace(root))
		no := refused[level]
		for _, c := range []struct {
			want syscall.Errno
			op   string
			args []string
		}{
			{0, "append", []string{inside}},
			{0, "write", []string{root + "/new"}},
			{0, "mkdir", []string{root + "/dir"}},
			{0, "rename", []string{root + "/new", root + "/dir/new"}},
			{0, "remove", []string{root + "/dir/new"}},
			{0, "read", []string{victim}},
			{0, "write", []string{"/dev/null"}},
			{no, "append", []string{victim}},
			{no, "write", []string{outside + "/new"}},
			{no, "mkdir", []string{outside + "/dir"}},
			{no, "remove", []string{victim}},
			{no, "truncate", []string{victim}},
			{no, "append", []string{root + "/link"}},
			{no, "write", []string{root + "/dangling"}},
			{no, "write", []string{root + "/dirlink/new"}},
			{unix.EXDEV, "link", []string{victim, root + "/hard"}},
		} {
			errno, _ := try(t, plan, c.op, c.args...)
			require.Equal(t, c.want, errno, "%s %q", c.op, c.args)
		}
		require.Equal(t, "old", content(t, victim))
		require.Equal(t, "oldmore", content(t, inside))
		entries, err := os.ReadDir(outside)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	})
}

func TestProtectedSubpaths(t *testing.T) {
	root := t.TempDir()
	hook := write(t, root+"/.git/hooks/pre-commit", "old")
	plan := at(t, sandbox.Full, workspace(root))
	for _, c := range []struct {
		want syscall.Errno
		op   string
		args []string
	}{
		{0, "read", []string{hook}},
		{unix.EROFS, "append", []string{hook}},
		{unix.EROFS, "write", []string{root + "/.git/config"}},
		{unix.EROFS, "remove", []string{hook}},
		{unix.EROFS, "chmod", []string{hook}},
		{unix.EBUSY, "rename", []string{root + "/.git", root + "/gone"}},
		{unix.EXDEV, "rename", []string{hook, root + "/hook"}},
		{0, "write", []string{root + "/other"}},
	} {
		errno, _ := try(t, plan, c.op, c.args...)
		require.Equal(t, c.want, errno, "%s %q", c.op, c.args)
	}
	require.Equal(t, "old", content(t, hook))
	require.NoDirExists(t, root+"/.codex", "what is missing is not made")
}

// A folder that many programs share is searched no deeper than one folder
// down; a root inside it is searched all the same.
func TestSharedRoots(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.Full, sandbox.Bwrap} {
		t.Run(level.String(), func(t *testing.T) {
			shared := t.TempDir()
			link := t.TempDir() + "/link"
			require.NoError(t, os.Symlink(shared, link))
			p := workspace(link, shared+"/a/b/ws")
			p.SharedRoots = []string{link}
			wants := map[string]syscall.Errno{
				"/.git/config":           refused[level],
				"/a/.git/config":         refused[level],
				"/a/b/.git/config":       0,
				"/a/b/ws/.git/config":    refused[level],
				"/a/b/ws/x/.git/config":  refused[level],
				"/a/b/ws/x/.git2/config": 0,
			}
			for path := range wants {
				write(t, shared+path, "old")
			}
			plan := at(t, level, p)
			for path, want := range wants {
				errno, _ := try(t, plan, "append", shared+path)
				require.Equal(t, want, errno, path)
			}
		})
	}
}

// Who looks at top sees what the processes of a sandbox are.
func TestProcessNames(t *testing.T) {
	plan := at(t, sandbox.Full, workspace())
	for path, want := range map[string]string{"/proc/1/comm": "toolgate-init\n", "/proc/self/comm": "toolgate\n"} {
		errno, out := try(t, plan, "read", path)
		require.Zero(t, errno)
		require.Equal(t, want, out, path)
	}
}

// Who reads what the program writes sees its end when the program closes it.
func TestTheProgramClosesItsOutput(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.Full, sandbox.Landlock} {
		t.Run(level.String(), func(t *testing.T) {
			cmd := at(t, level, workspace()).Command("/bin/sh", "-c", "echo said; exec >&- 2>&-; read line")
			cmd.Dir = "/"
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			said, err := io.ReadAll(out)
			require.NoError(t, err)
			require.Equal(t, "said\n", string(said))
			_, err = io.WriteString(in, "end\n")
			require.NoError(t, err, "it has not ended before")
			require.NoError(t, cmd.Wait())
		})
	}
}

func init() {
	// open up makes a folder readable and appends to a file in it.
	ops["open up"] = func(args []string) error {
		if err := os.Chmod(args[0], 0o700); err != nil {
			return err
		}
		return errors.Join(ops["append"](args[1:]), os.Chmod(args[0], 0))
	}
}

// What the starting process may not read, who owns it can make readable
// inside: the first process of the sandbox, which has the capabilities, looks
// into it.
func TestSharedRootWithAClosedFolder(t *testing.T) {
	shared := t.TempDir()
	config := write(t, shared+"/a/.git/config", "old")
	other := write(t, shared+"/a/other", "old")
	require.NoError(t, os.Chmod(shared+"/a", 0))
	t.Cleanup(func() { os.Chmod(shared+"/a", 0o700) })
	p := workspace(shared, t.TempDir())
	p.SharedRoots = []string{shared}
	plan := at(t, sandbox.Full, p)
	errno, out := try(t, plan, "open up", shared+"/a", other)
	require.Zero(t, errno, out)
	errno, out = try(t, plan, "open up", shared+"/a", config)
	require.Equal(t, unix.EROFS, errno, out)
}

func TestHidden(t *testing.T) {
	root, home := t.TempDir(), t.TempDir()
	key := write(t, home+"/.ssh/id", "secret")
	token := write(t, home+"/token", "secret")
	inRoot := write(t, root+"/.env", "secret")
	p := workspace(root)
	p.Hidden = []string{home + "/.ssh", token, inRoot, home + "/missing"}
	plan := at(t, sandbox.Full, p)
	for _, c := range []struct {
		op, path string
	}{
		{"read", key}, {"list", home + "/.ssh"}, {"read", token}, {"read", inRoot}, {"append", inRoot},
	} {
		errno, out := try(t, plan, c.op, c.path)
		require.Equal(t, syscall.Errno(unix.EACCES), errno, "%s %s", c.op, c.path)
		require.NotContains(t, out, "secret")
		require.NotContains(t, out, "id")
	}
	require.Equal(t, "secret", content(t, key))
}

// A workspace can be anywhere.
func TestWorkspacePlaces(t *testing.T) {
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		base := t.TempDir()
		real := base + "/real"
		require.NoError(t, os.MkdirAll(real+"/sub/deep", 0o755))
		require.NoError(t, os.Symlink(real, base+"/link"))

		t.Run("symlink in the path", func(t *testing.T) {
			plan := at(t, level, workspace(base+"/link/sub"))
			errno, _ := try(t, plan, "write", base+"/link/sub/a")
			require.Zero(t, errno)
			errno, _ = try(t, plan, "write", real+"/sub/b")
			require.Zero(t, errno)
			errno, _ = try(t, plan, "write", real+"/c")
			require.Equal(t, refused[level], errno)
		})
		t.Run("nested roots", func(t *testing.T) {
			plan := at(t, level, workspace(real, real+"/sub/deep"))
			for _, path := range []string{"/1", "/sub/2", "/sub/deep/3"} {
				errno, _ := try(t, plan, "write", real+path)
				require.Zero(t, errno)
			}
		})
		t.Run("shared memory", func(t *testing.T) {
			dir, err := os.MkdirTemp("/dev/shm", "toolgate")
			if err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			errno, _ := try(t, at(t, level, workspace(dir)), "write", dir+"/a")
			require.Zero(t, errno)
			require.Equal(t, "new", content(t, dir+"/a"))
		})
		t.Run("missing", func(t *testing.T) {
			err := at(t, level, workspace(base+"/missing")).Command("", "op", "say").Run()
			require.ErrorContains(t, err, base+"/missing")
			require.ErrorContains(t, err, "no such file")
			require.NotErrorIs(t, err, sandbox.ErrUnsupported)
		})
		t.Run("a file", func(t *testing.T) {
			err := at(t, level, workspace(write(t, base+"/file", ""))).Command("", "op", "say").Run()
			require.ErrorContains(t, err, base+"/file")
		})
		t.Run("a link to the root", func(t *testing.T) {
			require.NoError(t, os.Symlink("/", base+"/all"))
			err := at(t, level, workspace(base+"/all")).Command("", "op", "say").Run()
			require.ErrorContains(t, err, "whole file system")
		})
	})
}

// As root, a workspace of another user can be written all the same.
func TestForeignWorkspace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		if level == sandbox.Bwrap {
			t.Skip("bubblewrap maps no id but root's")
		}
		root := t.TempDir()
		file := write(t, root+"/file", "old")
		require.NoError(t, os.Chown(root, 1500, 1500))
		require.NoError(t, os.Chown(file, 1500, 1500))
		plan := at(t, level, workspace(root))
		errno, _ := try(t, plan, "append", file)
		require.Zero(t, errno)
		errno, _ = try(t, plan, "write", root+"/new")
		require.Zero(t, errno)
		errno, _ = try(t, plan, "chmod", file)
		require.Zero(t, errno)
		errno, _ = try(t, plan, "write", "/etc/toolgate-test")
		require.Equal(t, refused[level], errno)
	})
}

func TestNoNetwork(t *testing.T) {
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		plan := at(t, level, policy.Profile{})
		for _, family := range []int{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK, unix.AF_PACKET, unix.AF_VSOCK, unix.AF_ALG} {
			errno, _ := try(t, plan, "worker", "socket", fmt.Sprint(family), fmt.Sprint(unix.SOCK_STREAM), "0")
			require.Equal(t, unix.EPERM, errno, "family %d, of a worker's command", family)
			err := plan.Command("/proc/self/exe", "op", "socket", fmt.Sprint(family), fmt.Sprint(unix.SOCK_STREAM), "0").Run()
			require.Equal(t, int(unix.EPERM), sandbox.ExitCode(err), "family %d, of a program", family)
		}
		p := policy.Profile{Network: policy.NetworkAll}
		errno, _ := try(t, at(t, level, p), "socket", fmt.Sprint(unix.AF_INET), fmt.Sprint(unix.SOCK_STREAM), "0")
		require.Zero(t, errno)
		errno, _ = try(t, at(t, level, p), "worker", "socket", fmt.Sprint(unix.AF_UNIX), fmt.Sprint(unix.SOCK_STREAM), "0")
		require.Equal(t, unix.EPERM, errno, "the user's daemons are not the network")
	})
}

func TestNetwork(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() { // ends with listener
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("hello"))
			c.Close()
		}
	}()
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		plan := at(t, level, policy.Profile{Network: policy.NetworkAll})
		for _, op := range [][]string{{"dial", listener.Addr().String()}, {"worker", "dial", listener.Addr().String()}} {
			errno, out := try(t, plan, op[0], op[1:]...)
			require.Zero(t, errno)
			require.Equal(t, "hello", out)
		}
	})
}

func TestEverythingEndsWhenAsked(t *testing.T) {
	everyLevel(t, func(t *testing.T, level sandbox.Level) {
		r, w := holders(t)
		cmd := at(t, level, policy.Profile{}).Command("", "op", "brood")
		cmd.Dir, cmd.Stdout = "/", w
		require.NoError(t, cmd.Start())
		w.Close()
		_, err := r.ReadString('\n')
		require.NoError(t, err)
		require.NoError(t, unix.Kill(cmd.Pid(), unix.SIGTERM))
		require.Error(t, cmd.Wait())
		awaitDeath(t, r)
	})
}

func TestCommand(t *testing.T) {
	t.Parallel()
	levels := []sandbox.Level{sandbox.Full, sandbox.Bwrap, sandbox.Landlock, sandbox.None}
	for _, level := range levels {
		t.Run(level.String(), func(t *testing.T) {
			plan := at(t, level, policy.Profile{})
			run := func(change func(*sandbox.Cmd), argv ...string) (string, error) {
				cmd := plan.Command(argv...)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, "/"
				if change != nil {
					change(cmd)
				}
				err := cmd.Run()
				return out.String(), err
			}
			t.Run("output", func(t *testing.T) {
				out, err := run(nil, "", "op", "say", "hello", "there")
				require.NoError(t, err)
				require.Equal(t, "hello there", out)
			})
			t.Run("exit code", func(t *testing.T) {
				_, err := run(nil, "", "op", "exit", "seven..")
				require.Equal(t, &sandbox.ExitError{Code: 7}, err)
				require.Equal(t, 7, sandbox.ExitCode(err))
			})
			t.Run("signal", func(t *testing.T) {
				_, err := run(nil, "/bin/sh", "-c", "kill -TERM $$")
				require.Equal(t, &sandbox.ExitError{Code: 143, Signal: syscall.SIGTERM}, err)
			})
			t.Run("stdin", func(t *testing.T) {
				out, err := run(func(c *sandbox.Cmd) { c.Stdin = strings.NewReader("typed") }, "/bin/cat")
				require.NoError(t, err)
				require.Equal(t, "typed", out)
			})
			t.Run("empty environment", func(t *testing.T) {
				out, err := run(nil, "", "op", "env")
				require.NoError(t, err)
				require.Empty(t, out)
			})
			t.Run("environment", func(t *testing.T) {
				out, err := run(func(c *sandbox.Cmd) { c.Env = []string{"A=1"} }, "", "op", "env")
				require.NoError(t, err)
				require.Equal(t, "A=1", out)
			})
			t.Run("folder", func(t *testing.T) {
				dir, err := filepath.EvalSymlinks(t.TempDir())
				require.NoError(t, err)
				out, err := run(func(c *sandbox.Cmd) { c.Dir = dir }, "", "op", "cwd")
				require.NoError(t, err)
				require.Equal(t, dir, out)
				_, err = run(func(c *sandbox.Cmd) { c.Dir = dir + "/missing" }, "", "op", "cwd")
				require.ErrorContains(t, err, "working folder "+dir+"/missing")
			})
			t.Run("path", func(t *testing.T) {
				out, err := run(func(c *sandbox.Cmd) { c.Env = []string{"PATH=/nowhere:/bin"} }, "echo", "x")
				require.NoError(t, err)
				require.Equal(t, "x\n", out)
				_, err = run(nil, "echo", "x")
				require.ErrorContains(t, err, "echo: program not found")
				_, err = run(nil, "/bin/no-such-program")
				require.ErrorContains(t, err, "/bin/no-such-program: no such file")
			})
			t.Run("extra file", func(t *testing.T) {
				r, w, err := os.Pipe()
				require.NoError(t, err)
				_, err = run(func(c *sandbox.Cmd) { c.ExtraFiles = []*os.File{w} }, "/bin/sh", "-c", "echo extra >&3")
				w.Close()
				require.NoError(t, err)
				text, err := io.ReadAll(r)
				require.NoError(t, err)
				require.Equal(t, "extra\n", string(text))
			})
			t.Run("current", func(t *testing.T) {
				out, err := run(nil, "", "op", "level")
				require.NoError(t, err)
				require.Equal(t, "true "+level.String(), out)
			})
			t.Run("once", func(t *testing.T) {
				cmd := plan.Command("/bin/true")
				require.NoError(t, cmd.Run())
				require.ErrorContains(t, cmd.Start(), "already started")
			})
		})
	}
}

func TestForgedPlanIsNotCurrent(t *testing.T) {
	plan := at(t, sandbox.None, policy.Profile{})
	cmd := plan.Command("", "op", "level")
	var out bytes.Buffer
	cmd.Stdout = &out
	cmd.Env = []string{`TOOLGATE_SANDBOX={"level":"full"}`}
	require.NoError(t, cmd.Run())
	_, ok := sandbox.Current()
	require.False(t, ok, "this process is not confined")
}

// everyLevel runs f at every level, also at the one that does not confine:
// what is started must end at each of them.
func everyLevel(t *testing.T, f func(t *testing.T, level sandbox.Level)) {
	t.Run(sandbox.None.String(), func(t *testing.T) { f(t, sandbox.None) })
	eachLevel(t, f)
}

// holders returns a pipe whose end of file says that all processes that were
// given its writing end are dead.
func holders(t *testing.T) (r *bufio.Reader, w *os.File) {
	t.Helper()
	pr, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { pr.Close(); w.Close() })
	return bufio.NewReader(pr), w
}

// awaitDeath returns when the holders of the pipe's writing end are dead.
func awaitDeath(t *testing.T, r *bufio.Reader) {
	t.Helper()
	_, err := io.ReadAll(r)
	require.NoError(t, err)
}

func TestEverythingEndsWithTheProgram(t *testing.T) {
	everyLevel(t, func(t *testing.T, level sandbox.Level) {
		r, w := holders(t)
		cmd := at(t, level, policy.Profile{}).Command("", "op", "brood", "end")
		cmd.Dir, cmd.Stdout = "/", w
		require.NoError(t, cmd.Start())
		w.Close()
		require.NoError(t, cmd.Wait())
		awaitDeath(t, r)
	})
}

func TestEverythingEndsByKill(t *testing.T) {
	everyLevel(t, func(t *testing.T, level sandbox.Level) {
		r, w := holders(t)
		cmd := at(t, level, policy.Profile{}).Command("", "op", "brood")
		cmd.Dir, cmd.Stdout = "/", w
		require.NoError(t, cmd.Start())
		w.Close()
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "here\n", line, "the daemon runs")
		require.NoError(t, cmd.Kill())
		require.Equal(t, &sandbox.ExitError{Code: 137, Signal: syscall.SIGKILL}, cmd.Wait())
		awaitDeath(t, r)
	})
}

func TestEverythingEndsWithTheStarter(t *testing.T) {
	everyLevel(t, func(t *testing.T, level sandbox.Level) {
		at(t, level, policy.Profile{})
		r, w := holders(t)
		gate := exec.Command("/proc/self/exe", "op", "gate", level.String())
		gate.Stdout, gate.Stderr = w, os.Stderr
		require.NoError(t, gate.Start())
		w.Close()
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "here\n", line, "the daemon runs")
		require.NoError(t, gate.Process.Kill())
		require.Error(t, gate.Wait())
		awaitDeath(t, r)
	})
}

// What cannot be searched for protected names is read-only, and a note names it.
func TestUnsearchableFolders(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.Full, sandbox.Bwrap} {
		t.Run(level.String(), func(t *testing.T) {
			root := t.TempDir()
			open := write(t, root+"/open/file", "old")
			closed := write(t, root+"/closed/.git/config", "old")
			require.NoError(t, os.Chmod(root+"/closed", 0o300))
			t.Cleanup(func() { os.Chmod(root+"/closed", 0o700) })
			deep := makeDeep(t, root)
			cmd := at(t, level, workspace(root)).Command("", "op", "append in", deep, ".git/config")
			cmd.Dir = "/"
			out, err := output(cmd)
			require.NoError(t, err)
			require.Equal(t, "read-only file system", out)
			notes := strings.Join(cmd.Notes(), "\n")
			require.Contains(t, notes, "x\" is read-only: it cannot be searched for protected names: file name too long")
			if level == sandbox.Bwrap && os.Geteuid() != 0 {
				require.Contains(t, notes, `closed" is read-only: it cannot be searched for protected names: permission denied`)
			}
			plan := at(t, level, workspace(root))
			errno, _ := try(t, plan, "append", closed)
			require.Equal(t, unix.EROFS, errno)
			errno, _ = try(t, plan, "append", open)
			require.Zero(t, errno)
		})
	}
}

func init() {
	// append in appends to the file args[1] in the folder args[0], however long its path is.
	ops["append in"] = func(args []string) error {
		if err := chdirDeep(args[0]); err != nil {
			return err
		}
		err := appendTo(args[1])
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			fmt.Print(errno)
			return nil
		}
		return err
	}
}

// chdirDeep changes to dir name by name.
func chdirDeep(dir string) error {
	if err := os.Chdir("/"); err != nil {
		return err
	}
	for _, name := range strings.Split(dir, "/")[1:] {
		if err := unix.Chdir(name); err != nil {
			return err
		}
	}
	return nil
}

// makeDeep makes a repository in a folder of root whose path has over 4096 bytes.
func makeDeep(t *testing.T, root string) string {
	t.Helper()
	was, err := os.Getwd()
	require.NoError(t, err)
	defer os.Chdir(was)
	require.NoError(t, chdirDeep(root))
	for name := strings.Repeat("x", 250); len(root) < 4300; root += "/" + name {
		require.NoError(t, unix.Mkdir(name, 0o755))
		require.NoError(t, unix.Chdir(name))
	}
	require.NoError(t, unix.Mkdir(".git", 0o755))
	require.NoError(t, os.WriteFile(".git/config", []byte("old"), 0o644))
	return root
}

// Beyond the limit of names, folders are read-only, and the notes are few.
func TestTooManyNames(t *testing.T) {
	root := t.TempDir()
	for i := range 2_200 {
		write(t, fmt.Sprintf("%s/%d/%d/.envrc", root, i/300, i), "old")
	}
	first := write(t, root+"/first", "old")
	p := workspace(root)
	p.ReadOnlySubpaths = sandbox.Protected(false)
	cmd := at(t, sandbox.Full, p).Command("", "op", "append", root+"/7/2150/.envrc")
	cmd.Dir = "/"
	require.NoError(t, cmd.Start())
	require.Error(t, cmd.Wait())
	require.Equal(t, "old", content(t, root+"/7/2150/.envrc"))
	require.NotEmpty(t, cmd.Notes())
	require.LessOrEqual(t, len(cmd.Notes()), 100)
	require.Contains(t, cmd.Notes()[0], "is read-only: it cannot be searched for protected names: there is too much in the writable root")
	errno, _ := try(t, at(t, sandbox.Full, p), "append", first)
	require.Zero(t, errno)
}
