package tools_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/tools"
)

// An attempt on the file system, made inside the folder dir.
type deed struct {
	name string
	do   func(dir string) error
}

var deeds = []deed{
	{"create", func(dir string) error { return os.WriteFile(filepath.Join(dir, "new"), nil, 0o600) }},
	{"overwrite", func(dir string) error { return os.WriteFile(filepath.Join(dir, "file"), nil, 0o600) }},
	{"truncate", func(dir string) error { return os.Truncate(filepath.Join(dir, "file"), 0) }},
	{"remove", func(dir string) error { return os.Remove(filepath.Join(dir, "file")) }},
	{"mkdir", func(dir string) error { return os.Mkdir(filepath.Join(dir, "sub"), 0o700) }},
	{"rename", func(dir string) error { return os.Rename(filepath.Join(dir, "file"), filepath.Join(dir, "moved")) }},
	{"symlink", func(dir string) error { return os.Symlink("file", filepath.Join(dir, "link")) }},
}

// place returns a folder with one file in it.
func place(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600))
	return dir
}

func requireDenied(t *testing.T, err error, path string) {
	t.Helper()
	require.Error(t, err)
	denied := tools.AsDenial(err, "write", path)
	d, ok := errors.AsType[*tools.Denial](denied)
	require.True(t, ok, "not recognised: %v", err)
	require.Equal(t, "write", d.Op)
	require.Equal(t, path, d.Path)
	require.ErrorIs(t, denied, errno(err), "the cause is lost")
}

func errno(err error) error {
	e, _ := errors.AsType[unix.Errno](err)
	return e
}

func TestLandlockIsADenial(t *testing.T) {
	for _, d := range deeds {
		t.Run(d.name, func(t *testing.T) {
			dir := place(t)
			var probed error
			err := onLandlockedThread(t, func() error {
				err := d.do(dir)
				// Recognised from inside, where the tools look too.
				probed = tools.AsDenial(err, "write", "as/written")
				return err
			})
			require.ErrorIs(t, err, unix.EACCES)
			_, ok := errors.AsType[*tools.Denial](probed)
			require.True(t, ok, "not recognised: %v", err)
			require.EqualError(t, probed, "denied by the sandbox: write as/written: it is outside what the sandbox opens for that")
			requireDenied(t, err, "as/written")
		})
	}
}

// onLandlockedThread runs f on a thread that may read everything and write
// nothing. The restriction dies with the thread.
func onLandlockedThread(t *testing.T, f func() error) error {
	t.Helper()
	if abi, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); e != 0 || abi < 3 {
		missing(t, "Landlock")
	}
	var setup, err error
	done := make(chan struct{})
	go func() { // ends with f; its thread ends with it, for it is never unlocked
		defer close(done)
		runtime.LockOSThread()
		if setup = landlockThisThread(); setup == nil {
			err = f()
		}
	}()
	<-done
	require.NoError(t, setup)
	return err
}

func landlockThisThread() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_SYM}
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if e != 0 {
		return e
	}
	defer unix.Close(int(fd))
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); e != 0 {
		return e
	}
	return nil
}

// readOnlyDir tells a child started by [TestReadOnlyMountIsADenial] where to work.
const readOnlyDir = "TOOLS_TEST_READ_ONLY_DIR"

func TestReadOnlyMountIsADenial(t *testing.T) {
	if dir := os.Getenv(readOnlyDir); dir != "" {
		mountReadOnly(t, dir)
		for _, d := range deeds {
			err := d.do(dir)
			require.ErrorIs(t, err, unix.EROFS, d.name)
			requireDenied(t, err, d.name)
		}
		// The mount point itself, not only its contents.
		file := filepath.Join(dir, "file")
		require.NoError(t, unix.Mount(file, file, "", unix.MS_BIND, ""))
		remountReadOnly(t, file)
		for _, d := range deeds[3:6] {
			if d.name != "mkdir" {
				requireDenied(t, d.do(dir), d.name)
			}
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReadOnlyMountIsADenial$", "-test.v")
	cmd.Env = append(os.Environ(), readOnlyDir+"="+place(t))
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
	require.Contains(t, string(out), "--- PASS: TestReadOnlyMountIsADenial")
}

func mountReadOnly(t *testing.T, dir string) {
	require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	require.NoError(t, unix.Mount(dir, dir, "", unix.MS_BIND, ""))
	remountReadOnly(t, dir)
}

func remountReadOnly(t *testing.T, dir string) {
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &st))
	// A mount of another user namespace keeps its nosuid, nodev and noexec.
	kept := uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME)
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|kept, ""))
}

// The file's own permissions, and everything that is no refusal, are no denials.
func TestOwnPermissionsAreNoDenial(t *testing.T) {
	plain := errors.New("plain")
	require.NoError(t, tools.AsDenial(nil, "write", "x"))
	require.NoError(t, tools.AsDenial(plain, "write", "x"))
	missing := &fs.PathError{Op: "open", Path: "/nowhere/at/all", Err: unix.ENOENT}
	require.NoError(t, tools.AsDenial(missing, "write", "x"))

	if os.Geteuid() == 0 {
		t.Skip("root may do all that modes forbid; run as an ordinary user too")
	}
	for _, d := range deeds {
		t.Run(d.name, func(t *testing.T) {
			dir := place(t)
			require.NoError(t, os.Chmod(filepath.Join(dir, "file"), 0o400))
			require.NoError(t, os.Chmod(dir, 0o500))
			t.Cleanup(func() { os.Chmod(dir, 0o700) })
			err := d.do(dir)
			require.ErrorIs(t, err, unix.EACCES)
			require.NoError(t, tools.AsDenial(err, "write", "x"))
		})
	}
}

// A file of another in a sticky folder cannot be removed, whatever access(2)
// says of the folder.
func TestStickyFolderIsNoDenial(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may remove any file; run as an ordinary user too")
	}
	var tmp unix.Stat_t
	require.NoError(t, unix.Stat("/tmp", &tmp))
	if tmp.Mode&unix.S_ISVTX == 0 || tmp.Uid == uint32(os.Geteuid()) {
		t.Skip("/tmp is not a sticky folder of another")
	}
	entries, err := os.ReadDir("/tmp")
	require.NoError(t, err)
	for _, e := range entries {
		var st unix.Stat_t
		if unix.Lstat("/tmp/"+e.Name(), &st) != nil || st.Uid == uint32(os.Geteuid()) {
			continue
		}
		// Refused as unlink would be, without trying it on a stranger's file.
		err := &fs.PathError{Op: "remove", Path: "/tmp/" + e.Name(), Err: unix.EPERM}
		require.NoError(t, tools.AsDenial(err, "write", "x"))
		return
	}
	t.Skip("/tmp holds no file of another")
}

// missing skips for want of what, and fails where the sandbox is required.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("REQUIRE_SANDBOX") == "1" {
		t.Fatalf("REQUIRE_SANDBOX=1, but this system refuses %s", what)
	}
	t.Skipf("this system refuses %s", what)
}
