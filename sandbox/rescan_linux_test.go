package sandbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/policy"
	"toolgate/sandbox"
)

func init() {
	// obey runs an op a line from stdin, and answers with its errno.
	ops["obey"] = func([]string) error {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			args := strings.Fields(lines.Text())
			fmt.Printf("\nerrno %d\n", runOp(args[0], args[1:]))
		}
		return nil
	}
}

func init() {
	// unwatched starts a sandbox, puts a repository into its writable root,
	// rescans, and prints the result of an attempt to change it.
	ops["unwatched"] = func(args []string) error {
		plan, err := sandbox.NewPlan(workspace(args[0]), sandbox.Probe())
		if err != nil {
			return err
		}
		cmd := plan.Command("", "op", "obey")
		cmd.Dir, cmd.AllowRescan, cmd.Stdout = "/", true, os.Stdout
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		if err := errors.Join(cmd.Start(), cmd.Rescan(), os.MkdirAll(args[0]+"/a/.git", 0o755), cmd.Rescan()); err != nil {
			return err
		}
		fmt.Fprintln(in, "write", args[0]+"/a/.git/config")
		in.Close()
		return cmd.Wait()
	}
}

// Beyond the limit of inotify, folders are watched with fanotify.
func TestWatchBeyondInotify(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/a/b/c/file", "x")
	plan, err := sandbox.NewPlan(workspace(root), capable)
	require.NoError(t, err)
	changed, marked, failed := sandbox.WatchFolders(plan, 2)
	if failed && marked() == 0 {
		skip(t, "no fanotify")
	}
	require.False(t, failed)
	require.Equal(t, 2, marked(), "b and c")
	require.False(t, changed())
	write(t, root+"/a/b/c/other", "x")
	write(t, root+"/a/b/c/d/e/file", "x")
	require.False(t, changed())
	require.Equal(t, 4, marked())
	write(t, root+"/a/b/c/d/e/.git/config", "x")
	require.True(t, changed())
	require.False(t, changed())
	require.NoError(t, os.RemoveAll(root+"/a/b/c/d/e"))
	require.False(t, changed())
	require.Equal(t, 3, marked())
	require.NoError(t, os.Rename(root+"/a/b/c", root+"/c"))
	require.False(t, changed())
	write(t, root+"/c/d/.git/config", "x")
	require.True(t, changed(), "in a folder that was moved")
}

// Where folders cannot be watched, a rescan walks them.
func TestRescanWithoutInotify(t *testing.T) {
	if s := sandbox.Probe(); !s.Namespaces.OK {
		skip(t, "no namespaces: %s", s.Namespaces.Why)
	}
	for _, lacks := range [][]string{{"inotify"}, {"inotify", "fanotify"}} {
		args := append([]string{"op", "poorer to", "unwatched", t.TempDir()}, lacks...)
		out, err := exec.Command("/proc/self/exe", args...).Output()
		require.NoError(t, err)
		require.Contains(t, string(out), fmt.Sprintf("errno %d\n", unix.EROFS), "without %q", lacks)
	}
}

// A companion is a process in a sandbox that does what it is told.
type companion struct {
	cmd *sandbox.Cmd
	in  io.Writer
	out *bufio.Reader
}

func keep(t testing.TB, plan sandbox.Plan) *companion {
	t.Helper()
	cmd := plan.Command("", "op", "obey")
	cmd.Dir, cmd.AllowRescan = "/", true
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Kill(); cmd.Wait() })
	return &companion{cmd, in, bufio.NewReader(out)}
}

func (c *companion) do(t testing.TB, op string, args ...string) syscall.Errno {
	t.Helper()
	_, err := fmt.Fprintln(c.in, op, strings.Join(args, " "))
	require.NoError(t, err)
	for {
		line, err := c.out.ReadString('\n')
		require.NoError(t, err)
		var errno int
		if _, err := fmt.Sscanf(line, "errno %d", &errno); err == nil {
			return syscall.Errno(errno)
		}
	}
}

// What is created after the start, by any process, is protected from the next
// rescan on, at any depth.
func TestRescan(t *testing.T) {
	root, base := t.TempDir(), t.TempDir()
	write(t, root+"/src/deep/file", "old")
	write(t, base+"/conf/a.txt", "plain")
	p := workspace(root)
	p.ReadOnlySubpaths = sandbox.Protected(false)
	p.Hidden = []string{base + "/later", write(t, base+"/token", "x")}
	p.Paths = policy.Paths{
		ReadOnly: []string{root + "/docs"}, Denied: []string{root + "/key", base + "/gone"},
		DeniedGlobs: []string{root + "/**/*.env", base + "/**/*.pem"},
	}
	c := keep(t, at(t, sandbox.Full, p))
	rescan := func() { t.Helper(); require.NoError(t, c.cmd.Rescan()) }
	ok := func(op string, args ...string) {
		t.Helper()
		require.Equal(t, syscall.Errno(0), c.do(t, op, args...), "%s %q", op, args)
	}
	no := func(want syscall.Errno, op string, args ...string) {
		t.Helper()
		require.Equal(t, want, c.do(t, op, args...), "%s %q", op, args)
	}
	rescan() // nothing has changed

	// By the command itself, as git clone does; by somebody else.
	ok("mkdir", root+"/src/deep/repo")
	ok("mkdir", root+"/src/deep/repo/.git")
	ok("write", root+"/src/deep/repo/.git/config")
	write(t, root+"/other/.mcp.json", "{}")
	ok("append", root+"/other/.mcp.json")
	rescan()
	no(unix.EROFS, "append", root+"/src/deep/repo/.git/config")
	no(unix.EROFS, "write", root+"/src/deep/repo/.git/hook")
	no(unix.EBUSY, "rename", root+"/src/deep/repo/.git", root+"/x")
	no(unix.EROFS, "append", root+"/other/.mcp.json")
	ok("write", root+"/src/deep/repo/file")

	// A folder with a protected name in it cannot be moved: another could take its
	// place. What is made in a folder that is moved is found where it is now.
	no(unix.EBUSY, "rename", root+"/src", root+"/moved")
	no(unix.EBUSY, "rename", root+"/src/deep/repo", root+"/moved")
	ok("rename", root+"/src/deep/file", root+"/src/deep/repo/moved")
	require.NoError(t, os.Rename(root+"/src", root+"/moved"))
	no(unix.EROFS, "append", root+"/moved/deep/repo/.git/config")
	ok("mkdir", root+"/moved/deep/.vscode")
	ok("write", root+"/moved/deep/.vscode/tasks.json")
	rescan()
	no(unix.EROFS, "append", root+"/moved/deep/.vscode/tasks.json")
	no(unix.EROFS, "append", root+"/moved/deep/repo/.git/config")

	// A folder that came from outside, with all in it.
	write(t, base+"/tree/a/b/.envrc", "x")
	if os.Rename(base+"/tree", root+"/tree") == nil {
		ok("append", root+"/tree/a/b/.envrc")
		rescan()
		no(unix.EROFS, "append", root+"/tree/a/b/.envrc")
	}

	// Read-only and denied paths that were missing, and files that match.
	ok("mkdir", root+"/docs")
	ok("write", root+"/docs/a")
	ok("write", root+"/key")
	ok("write", root+"/moved/b.env")
	write(t, base+"/later/secret", "x")
	write(t, base+"/conf/deep/x.pem", "x")
	ok("read", base+"/conf/deep/x.pem")
	rescan()
	no(unix.EROFS, "append", root+"/docs/a")
	no(unix.EACCES, "read", root+"/key")
	no(unix.EACCES, "read", root+"/moved/b.env")
	no(unix.EACCES, "read", base+"/later/secret")
	no(unix.EACCES, "read", base+"/conf/deep/x.pem")
	ok("read", base+"/conf/a.txt")
	rescan()

	// What its owner replaced from outside is held anew.
	require.NoError(t, os.Remove(root+"/moved/b.env"))
	write(t, root+"/moved/b.env", "again")
	rescan()
	no(unix.EACCES, "read", root+"/moved/b.env")
	require.Equal(t, unix.EACCES, c.do(t, "read", base+"/token"))
	write(t, base+"/token.new", "renewed")
	require.NoError(t, os.Rename(base+"/token.new", base+"/token")) // as programs save
	ok("read", base+"/token")                                       // which takes the mask away
	rescan()
	no(unix.EACCES, "read", base+"/token")
	require.FileExists(t, root+"/key", "nothing is changed on disk")
	require.Equal(t, "again", content(t, root+"/moved/b.env"))
}

// Where mounts cannot be added, a rescan says that the sandbox is stale, and
// a new one holds what was found.
func TestRescanFindsStaleSandbox(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.Bwrap, sandbox.Landlock} {
		t.Run(level.String(), func(t *testing.T) {
			root, base := t.TempDir(), t.TempDir()
			write(t, base+"/conf/deep/a.txt", "plain")
			p := workspace(root)
			p.Paths.DeniedGlobs = []string{base + "/**/*.pem"}
			plan := at(t, level, p)
			c := keep(t, plan)
			require.NoError(t, c.cmd.Rescan())
			write(t, base+"/conf/plain", "x")
			require.NoError(t, c.cmd.Rescan())
			write(t, base+"/conf/deep/x.pem", "x")
			err := c.cmd.Rescan()
			require.ErrorIs(t, err, sandbox.ErrStale)
			require.ErrorContains(t, err, "/conf/deep/x.pem")
			c = keep(t, plan)
			require.NoError(t, c.cmd.Rescan())
			require.Equal(t, unix.EACCES, c.do(t, "read", base+"/conf/deep/x.pem"))
			if level == sandbox.Bwrap {
				write(t, root+"/sub/.git/config", "x")
				require.ErrorIs(t, c.cmd.Rescan(), sandbox.ErrStale)
				c = keep(t, plan)
				require.NoError(t, c.cmd.Rescan())
				require.Equal(t, unix.EROFS, c.do(t, "append", root+"/sub/.git/config"))
			}
		})
	}
}

// A hidden path that did not exist at the start is hidden at each level when it is
// created, as a file and as a symlink.
func TestRescanHidesWhatIsCreated(t *testing.T) {
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		root, base := t.TempDir(), t.TempDir()
		target := write(t, base+"/elsewhere/token", "x")
		p := workspace(root)
		p.Hidden = []string{base + "/home/.cloud", base + "/home/.token"}
		plan := at(t, level, p)
		c := keep(t, plan)
		rescan := func() {
			t.Helper()
			if err := c.cmd.Rescan(); level == sandbox.Full {
				require.NoError(t, err)
			} else if errors.Is(err, sandbox.ErrStale) {
				c = keep(t, plan)
				require.NoError(t, c.cmd.Rescan())
			}
		}
		rescan()
		require.Equal(t, syscall.Errno(0), c.do(t, "read", target))
		write(t, base+"/home/.cloud/key", "x")
		rescan()
		require.Equal(t, unix.EACCES, c.do(t, "read", base+"/home/.cloud/key"))
		require.NoError(t, os.Symlink(target, base+"/home/.token"))
		rescan()
		require.Equal(t, unix.EACCES, c.do(t, "read", base+"/home/.token"))
		require.Equal(t, unix.EACCES, c.do(t, "read", target))
	})
}

func TestRescanAfterEnd(t *testing.T) {
	plan := at(t, sandbox.Full, workspace(t.TempDir()))
	require.EqualError(t, plan.Command("", "op", "say").Rescan(), "sandbox: not started with AllowRescan")
	cmd := plan.Command("", "op", "exit", "seven..")
	cmd.Dir, cmd.AllowRescan = "/", true
	require.NoError(t, cmd.Start())
	for cmd.Rescan() == nil {
		// until it has ended
	}
	require.EqualError(t, cmd.Rescan(), "sandbox: it has ended")
	require.Equal(t, 7, sandbox.ExitCode(cmd.Wait()))
}

// With git writes, what would make git run programs is held when it comes.
func TestRescanWritableRepository(t *testing.T) {
	root := t.TempDir()
	p := workspace(root)
	p.ReadOnlySubpaths = sandbox.Protected(true)
	c := keep(t, at(t, sandbox.Full, p))
	require.NoError(t, c.cmd.Rescan())
	write(t, root+"/r/.git/hooks/pre-commit", "x")
	write(t, root+"/r/.git/config", "x")
	write(t, root+"/r/.git/info/x", "x")
	write(t, root+"/r/.git/HEAD", "x")
	require.NoError(t, c.cmd.Rescan())
	require.Equal(t, unix.EROFS, c.do(t, "append", root+"/r/.git/hooks/pre-commit"))
	require.Equal(t, unix.EROFS, c.do(t, "append", root+"/r/.git/config"))
	require.Equal(t, syscall.Errno(0), c.do(t, "append", root+"/r/.git/HEAD"))
	require.Equal(t, unix.EBUSY, c.do(t, "rename", root+"/r/.git", root+"/r/x"))
	require.Equal(t, syscall.Errno(0), c.do(t, "write", root+"/r/.git/commondir"))
	require.NoError(t, c.cmd.Rescan())
	require.Equal(t, unix.EROFS, c.do(t, "append", root+"/r/.git/commondir"))
}

// BenchmarkRescan rescans a tree in which nothing has changed, and, for comparison,
// walks all of it, as the first rescan after a start does.
func BenchmarkRescan(b *testing.B) {
	for _, folders := range []int{10, 1_000, 10_000} {
		root := b.TempDir()
		for i := range folders {
			dir := filepath.Join(root, fmt.Sprint(i%100), fmt.Sprint(i))
			require.NoError(b, os.MkdirAll(dir, 0o755))
			for j := range 5 {
				require.NoError(b, os.WriteFile(filepath.Join(dir, fmt.Sprint(j)), nil, 0o644))
			}
		}
		p := workspace(root)
		p.ReadOnlySubpaths = sandbox.Protected(false)
		plan, err := planAt(sandbox.Full, p)
		if err != nil {
			b.Skip(err)
		}
		b.Run(fmt.Sprintf("%d folders/watched", folders), func(b *testing.B) {
			c := keep(b, plan)
			require.NoError(b, c.cmd.Rescan())
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, c.cmd.Rescan())
			}
		})
		b.Run(fmt.Sprintf("%d folders/start and first rescan", folders), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c := keep(b, plan)
				require.NoError(b, c.cmd.Rescan())
				c.cmd.Kill()
			}
		})
		b.Run(fmt.Sprintf("%d folders/start", folders), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				keep(b, plan).cmd.Kill()
			}
		})
	}
}

// BenchmarkLargeWorkspace compares what a call costs in a workspace with 100,000
// folders and in an empty one: the first call with the start of its sandbox, and
// later ones, which begin with a rescan.
func BenchmarkLargeWorkspace(b *testing.B) {
	large, empty := b.TempDir(), b.TempDir()
	for i := range 100_000 {
		require.NoError(b, os.MkdirAll(fmt.Sprintf("%s/%d/%d", large, i%300, i), 0o755))
	}
	var first, later [2]time.Duration
	call := func(c *companion, root string) {
		require.NoError(b, c.cmd.Rescan())
		require.Zero(b, c.do(b, "write", root+"/made"))
	}
	var running [2]*companion
	for i, root := range []string{empty, large} {
		p := workspace(root)
		p.ReadOnlySubpaths = sandbox.Protected(false)
		plan, err := planAt(sandbox.Full, p)
		if err != nil {
			b.Skip(err)
		}
		start := time.Now()
		running[i] = keep(b, plan)
		call(running[i], root)
		first[i] = time.Since(start)
		for range 8 {
			call(running[i], root)
		}
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		for i, root := range []string{empty, large} {
			start := time.Now()
			call(running[i], root)
			later[i] += time.Since(start)
		}
	}
	b.ReportMetric(float64(first[1])/float64(first[0]), "first-ratio")
	b.ReportMetric(float64(later[1])/float64(later[0]), "later-ratio")
	b.ReportMetric(float64(first[1].Milliseconds()), "first-ms")
	b.ReportMetric(float64(later[1].Nanoseconds())/float64(n), "later-ns")
}
