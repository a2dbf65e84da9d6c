package applypatch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/policy"
	"toolgate/tools"
	"toolgate/tools/applypatch"
)

// An escape is a patch that writes where it may not, after a change where it
// may.
type escape struct {
	name, patch string
	path        string // that the denial names
}

// escapes write outside the workspace.
var escapes = []escape{
	{"add", "*** Add File: ../outside/new.txt\n+x\n", "../outside/new.txt"},
	{"add in a new folder", "*** Add File: ../outside/sub/new.txt\n+x\n", "../outside/sub/new.txt"},
	{"update", "*** Update File: ../outside/file.txt\n@@\n-text\n+changed\n", "../outside/file.txt"},
	{"delete", "*** Delete File: ../outside/file.txt\n", "../outside/file.txt"},
	{"move out", "*** Update File: b.txt\n*** Move to: ../outside/moved.txt\n", "../outside/moved.txt"},
	{"move in", "*** Update File: ../outside/file.txt\n*** Move to: moved.txt\n", "../outside/file.txt"},
	{"hard link", "*** Update File: ../outside/linked.txt\n@@\n-text\n+changed\n", "../outside/linked.txt"},
}

// layEscapes makes a workspace beside a folder that is not in it, and returns
// the folder of both.
func layEscapes(t testing.TB) string {
	dir := t.TempDir()
	for name, data := range map[string]string{
		"ws/a.txt": "one\n", "ws/b.txt": "b\n", "outside/file.txt": "text\n", "outside/linked.txt": "text\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
	}
	require.NoError(t, os.Link(filepath.Join(dir, "outside/linked.txt"), filepath.Join(dir, "outside/other.txt")))
	return dir
}

func escapePatch(body string) string {
	return "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+ONE\n" + body + "*** End Patch\n"
}

// requireDenied checks that a result says it was the sandbox.
func requireDenied(t testing.TB, res *mcp.CallToolResult, path string) {
	t.Helper()
	text := res.Content[0].(*mcp.TextContent).Text
	require.True(t, res.IsError, text)
	require.Contains(t, text, "apply_patch: denied by the sandbox: write "+path)
	require.NotContains(t, text, ".toolgate-")
	d, ok := res.Meta[policy.DeniedKey].(*tools.Denial)
	require.True(t, ok, "no denial in _meta: %s", text)
	require.Equal(t, "write", d.Op)
	require.Equal(t, path, d.Path)
}

func TestLandlockDenies(t *testing.T) {
	for _, e := range escapes {
		t.Run(e.name, func(t *testing.T) {
			dir := layEscapes(t)
			before := wholeTree(t, dir)
			t.Chdir(filepath.Join(dir, "ws"))
			args, err := json.Marshal(patchArgs{escapePatch(e.patch)})
			require.NoError(t, err)
			var res *mcp.CallToolResult
			onLandlockedThread(t, filepath.Join(dir, "ws"), func() {
				res = applypatch.New(applypatch.Options{})[0].Run(t.Context(), args)
			})
			requireDenied(t, res, e.path)
			require.Equal(t, before, wholeTree(t, dir), "a denied patch changed something")
		})
	}
}

// onLandlockedThread runs f on a thread that may write below dir only.
func onLandlockedThread(t *testing.T, dir string, f func()) {
	t.Helper()
	if abi, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); e != 0 || abi < 3 {
		missing(t, "Landlock")
	}
	var err error
	done := make(chan struct{})
	go func() { // ends with f; its thread ends with it, for it is never unlocked
		defer close(done)
		runtime.LockOSThread()
		if err = landlockThisThread(dir); err == nil {
			f()
		}
	}()
	<-done
	require.NoError(t, err)
}

func landlockThisThread(dir string) error {
	const write = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: write}
	ruleset, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if e != 0 {
		return e
	}
	defer unix.Close(int(ruleset))
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: write, Parent_fd: int32(fd)}
	if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); e != 0 {
		return e
	}
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); e != 0 {
		return e
	}
	return nil
}

// readOnlyDir tells the child of TestReadOnlyMountDenies where to work.
const readOnlyDir = "APPLYPATCH_TEST_READ_ONLY"

func TestReadOnlyMountDenies(t *testing.T) {
	if dir := os.Getenv(readOnlyDir); dir != "" {
		insideReadOnlyMount(t, dir)
		return
	}
	dir := layEscapes(t)
	write(t, filepath.Join(dir, "ws/foreign.txt"), "foreign\n")
	require.NoError(t, os.Chmod(filepath.Join(dir, "ws/foreign.txt"), 0o666))
	if os.Geteuid() == 0 { // then there are owners that the child's namespace does not know
		require.NoError(t, os.Chown(filepath.Join(dir, "ws/foreign.txt"), 1500, 1500))
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReadOnlyMountDenies$", "-test.v")
	cmd.Env = append(os.Environ(), readOnlyDir+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		missing(t, "user namespaces")
	}
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestReadOnlyMountDenies")
}

func insideReadOnlyMount(t *testing.T, dir string) {
	require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	for _, sub := range []string{"outside", "ws"} {
		path := filepath.Join(dir, sub)
		require.NoError(t, unix.Mount(path, path, "", unix.MS_BIND, ""))
	}
	outside := filepath.Join(dir, "outside")
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(outside, &st))
	kept := uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME)
	require.NoError(t, unix.Mount("", outside, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|kept, ""))

	t.Chdir(filepath.Join(dir, "ws"))
	require.NoError(t, os.Mkdir("mount", 0o755))
	require.NoError(t, unix.Mount("tmpfs", "mount", "tmpfs", 0, ""))
	require.NoError(t, os.WriteFile("mount/m.sh", []byte("m\n"), 0o750))
	text, isError := call(t, applypatch.Tool, patchArgs{"*** Begin Patch\n*** Update File: mount/m.sh\n*** Move to: m.sh\n@@\n-m\n+M\n*** End Patch\n"})
	require.False(t, isError, "a file cannot be moved from one mount to another: %s", text)
	require.NoFileExists(t, "mount/m.sh")
	info, err := os.Stat("m.sh")
	require.NoError(t, err)
	require.Equal(t, "-rwxr-x---", info.Mode().String())

	// A file whose owner has no number here is rewritten, and stays its owner's.
	before, err := os.Stat("foreign.txt")
	require.NoError(t, err)
	must(t, applypatch.Tool, updatePatch("foreign.txt", "foreign", "changed"))
	after, err := os.Stat("foreign.txt")
	require.NoError(t, err)
	require.Equal(t, before.Sys().(*syscall.Stat_t).Uid, after.Sys().(*syscall.Stat_t).Uid)
	require.Equal(t, "changed\n", read(t, "foreign.txt"))

	// A file that is itself a mount point cannot be replaced, but rewritten.
	require.NoError(t, unix.Mount("b.txt", "b.txt", "", unix.MS_BIND, ""))
	text, isError = call(t, applypatch.Tool, patchArgs{"*** Begin Patch\n*** Update File: b.txt\n@@\n-b\n+B\n*** End Patch\n"})
	require.False(t, isError, text)
	got, err := os.ReadFile("b.txt")
	require.NoError(t, err)
	require.Equal(t, "B\n", string(got))

	// A file below the workspace that is read-only, as .git is.
	write(t, "protected.txt", "text\n")
	require.NoError(t, unix.Mount("protected.txt", "protected.txt", "", unix.MS_BIND, ""))
	require.NoError(t, unix.Mount("", "protected.txt", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|kept, ""))

	all := wholeTree(t, dir)
	for _, e := range append(escapes, []escape{
		{"update protected", "*** Update File: protected.txt\n@@\n-text\n+changed\n", "protected.txt"},
		{"delete protected", "*** Delete File: protected.txt\n", "protected.txt"},
		{"move protected", "*** Update File: protected.txt\n*** Move to: p.txt\n", "protected.txt"},
	}...) {
		args, err := json.Marshal(patchArgs{escapePatch(e.patch)})
		require.NoError(t, err)
		requireDenied(t, applypatch.New(applypatch.Options{})[0].Run(t.Context(), args), e.path)
		require.Equal(t, all, wholeTree(t, dir), "%s: a denied patch changed something", e.name)
	}
}

// A link that leads out of the workspace is refused before anything is
// written, also where no sandbox would.
func TestLinkOutOfTheWorkspace(t *testing.T) {
	dir := layEscapes(t)
	ws := filepath.Join(dir, "ws")
	require.NoError(t, os.Symlink("../outside/file.txt", filepath.Join(ws, "link.txt")))
	require.NoError(t, os.Symlink("../outside", filepath.Join(ws, "folder")))
	before := wholeTree(t, dir)
	t.Chdir(ws)
	for i, e := range []struct{ patch, path string }{
		{"*** Update File: link.txt\n@@\n-text\n+changed\n", "outside/file.txt"},
		{"*** Add File: folder/new.txt\n+x\n", "outside/new.txt"},
		{"*** Update File: folder/file.txt\n@@\n-text\n+changed\n", "outside/file.txt"},
		{"*** Delete File: folder/file.txt\n", "outside/file.txt"},
		{"*** Update File: b.txt\n*** Move to: folder/b.txt\n", "outside/b.txt"},
	} {
		args, err := json.Marshal(patchArgs{escapePatch(e.patch)})
		require.NoError(t, err)
		res := applypatch.Tool.Run(t.Context(), args)
		requireDenied(t, res, filepath.Join(dir, e.path))
		require.Equal(t, before, wholeTree(t, dir), fmt.Sprint(i))
	}

	// The link itself is in the workspace.
	text, isError := call(t, applypatch.Tool, patchArgs{"*** Begin Patch\n*** Delete File: link.txt\n*** End Patch\n"})
	require.False(t, isError, text)
	require.FileExists(t, filepath.Join(dir, "outside/file.txt"))

	// Roots are where links may lead.
	tool := applypatch.New(applypatch.Options{Roots: []string{filepath.Join(dir, "outside")}})[0]
	text, isError = call(t, tool, patchArgs{escapePatch("*** Update File: folder/file.txt\n@@\n-text\n+changed\n")})
	require.False(t, isError, text)
	got, err := os.ReadFile(filepath.Join(dir, "outside/file.txt"))
	require.NoError(t, err)
	require.Equal(t, "changed\n", string(got))
}

// missing skips for want of what, and fails where the sandbox is required.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("REQUIRE_SANDBOX") == "1" {
		t.Fatalf("REQUIRE_SANDBOX=1, but this system refuses %s", what)
	}
	t.Skipf("this system refuses %s", what)
}
