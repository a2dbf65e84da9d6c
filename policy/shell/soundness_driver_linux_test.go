package shell_test

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A bashRoot runs scripts in bash, in a root of its own that records them. Its
// programs are stubs that write down how they were started; those of
// soundnessWrappers then become what they are. A script can write /w and /tmp.
//
// The driver that runs there is this test binary, as process 1 of its namespaces.
type bashRoot struct {
	in  *gob.Encoder
	out *gob.Decoder
}

// A recording is what a script did.
type recording struct {
	Ran      []started
	Wrote    []string // files in /w and /tmp that are new or changed
	TimedOut bool
}

// A started program.
type started struct {
	Argv    []string // the program's name, or its path if it is not in PATH
	Changed string   // variables that change what programs load, as the script set them
}

// driverVariable holds the folder on which the driver mounts its root.
const driverVariable = "SOUNDNESS_ROOT"

const scriptTimeout = 2 * time.Second

// soundnessPrograms are the stubs that start nothing.
var soundnessPrograms = []string{"ls", "cat", "git", "rm", "touch", "curl"}

// soundnessWrappers are real programs that start others.
var soundnessWrappers = []string{"bash", "sh", "env", "nice", "timeout", "nohup", "setsid", "xargs", "find"}

// stubText is a stub, which only its first line gives -C. Shells read it as a script for
// `. ls` and `sh /bin/ls`; a real program would do nothing then.
const stubText = `#!/real/sh -C
case ${BASH_VERSINFO-none}$- in none*C*) ;; *) return 0 2>/dev/null || exit 0 ;; esac
case $PATH in /bin | /usr/local/*) path= ;; *) path=PATH ;; esac # the latter if it is unset
printf '%s\0' "$0" "$@" "$path ${LD_PRELOAD+LD_PRELOAD} ${LD_LIBRARY_PATH+LD_LIBRARY_PATH} ${BASH_ENV+BASH_ENV}" '` +
	recordEnd + `' >>/log/ran
`

func TestMain(m *testing.M) {
	root := os.Getenv(driverVariable)
	if root == "" {
		os.Exit(m.Run())
	}
	if err := drive(root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// newBashRoot starts a driver, or skips the test where there can be none.
func newBashRoot(t testing.TB) *bashRoot {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		if os.Getenv("REQUIRE_BASH") != "" {
			t.Fatal("bash is required and not there")
		}
		t.Skip("no bash")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), driverVariable+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWIPC,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	err = cmd.Start()
	r := &bashRoot{in: gob.NewEncoder(stdin), out: gob.NewDecoder(stdout)}
	if err == nil {
		t.Cleanup(func() {
			_ = stdin.Close()
			_ = cmd.Wait()
		})
		var ready recording
		err = r.out.Decode(&ready)
	}
	if err != nil {
		if os.Getenv("REQUIRE_SANDBOX") != "" {
			t.Fatalf("REQUIRE_SANDBOX is set, but bash has no root of its own: %v, %s", err, &stderr)
		}
		t.Skipf("bash has no root of its own here: %v, %s", err, &stderr)
	}
	return r
}

// run runs `bash -lc script` and everything that it leaves in the background.
func (r *bashRoot) run(t testing.TB, script string) recording {
	t.Helper()
	var out recording
	require.NoError(t, r.in.Encode(script), "%q", script)
	require.NoError(t, r.out.Decode(&out), "%q", script)
	return out
}

// drive reads scripts from stdin and writes what they did to stdout.
func drive(root string) error {
	if err := buildRoot(root); err != nil {
		return err
	}
	if err := errors.Join(syscall.Chroot(root), os.Chdir("/"), fillWorkspace()); err != nil {
		return err
	}
	for resource, limit := range map[int]uint64{syscall.RLIMIT_FSIZE: 1 << 20, syscall.RLIMIT_CORE: 0} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	before, err := listFiles()
	if err != nil {
		return err
	}
	in, out := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	if err := out.Encode(recording{}); err != nil {
		return err
	}
	for {
		var script string
		if err := in.Decode(&script); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var r recording
		if r.TimedOut, err = runScript(script); err != nil {
			return err
		}
		if r.Ran, err = readRan(); err != nil {
			return err
		}
		after, err := listFiles()
		if err != nil {
			return err
		}
		for name, state := range after {
			if before[name] != state {
				r.Wrote = append(r.Wrote, name)
			}
		}
		if len(r.Wrote) > 0 || len(before) != len(after) {
			if err := fillWorkspace(); err != nil {
				return err
			}
			if before, err = listFiles(); err != nil {
				return err
			}
		}
		slices.Sort(r.Wrote)
		if err := out.Encode(r); err != nil {
			return err
		}
	}
}

// runScript runs a script and waits for all its processes.
func runScript(script string) (timedOut bool, err error) {
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer null.Close()
	_, err = syscall.ForkExec("/real/bash", []string{"bash", "-lc", script}, &syscall.ProcAttr{
		Dir: "/w",
		// FUNCNEST keeps functions that call themselves from filling the machine.
		Env:   []string{"PATH=/bin", "HOME=/home", "LANG=C.UTF-8", "FUNCNEST=6"},
		Files: []uintptr{null.Fd(), null.Fd(), null.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return false, fmt.Errorf("starting bash: %w", err)
	}
	done := make(chan bool)
	var killer sync.WaitGroup
	killer.Go(func() { // ends when all processes have
		timer := time.NewTimer(scriptTimeout)
		defer timer.Stop()
		for {
			select {
			case <-done:
				return
			case <-timer.C:
				timedOut = true
				_ = syscall.Kill(-1, syscall.SIGKILL)
				timer.Reset(10 * time.Millisecond)
			}
		}
	})
	for err = nil; err == nil || errors.Is(err, syscall.EINTR); {
		_, err = syscall.Wait4(-1, nil, 0, nil) // orphans too
	}
	close(done)
	killer.Wait()
	if !errors.Is(err, syscall.ECHILD) {
		return false, fmt.Errorf("waiting: %w", err)
	}
	return timedOut, nil
}

// readRan returns what the stubs recorded, and empties the record.
func readRan() ([]started, error) {
	b, err := os.ReadFile("/log/ran")
	if err != nil || len(b) == 0 {
		return nil, err
	}
	var list []started
	for record := range bytes.SplitSeq(b, []byte("\x00"+recordEnd+"\x00")) {
		words := strings.Split(string(record), "\x00")
		if n := len(words) - 1; n > 0 {
			words[0] = strings.TrimPrefix(words[0], "/bin/")
			list = append(list, started{words[:n], strings.TrimSpace(words[n])})
		}
	}
	return list, os.Truncate("/log/ran", 0)
}

// buildRoot mounts a root for bash on a folder: read-only but for /w, /tmp and
// /log.
func buildRoot(root string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Mount("soundness", root, "tmpfs", 0, "size=64m"); err != nil {
		return fmt.Errorf("tmpfs: %w", err)
	}
	at := func(name string) string { return filepath.Join(root, name) }
	for _, dir := range []string{"bin", "real", "dev", "proc", "home", "w", "tmp", "log"} {
		if err := os.MkdirAll(at(dir), 0o755); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/nix/store"} {
		if err := showFolder(dir, at(dir)); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	if err := unix.Mount("proc", at("proc"), "proc", unix.MS_RDONLY, ""); err != nil {
		if err := unix.Mount("/proc", at("proc"), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("proc: %w", err)
		}
	}
	if err := os.WriteFile(at("dev/null"), nil, 0o666); err != nil {
		return err
	}
	if err := unix.Mount("/dev/null", at("dev/null"), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("/dev/null: %w", err)
	}
	for link, to := range map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"} {
		if err := os.Symlink("/proc/self/fd"+to, at("dev/"+link)); err != nil {
			return err
		}
	}
	if err := addPrograms(at); err != nil {
		return err
	}
	for _, dir := range []string{"w", "tmp", "log"} {
		if err := unix.Mount("soundness", at(dir), "tmpfs", 0, "size=16m"); err != nil {
			return fmt.Errorf("tmpfs: %w", err)
		}
	}
	if err := os.WriteFile(at("log/ran"), nil, 0o666); err != nil {
		return err
	}
	return unix.MountSetattr(-1, root, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// addPrograms makes the stubs and copies the real programs behind some of them.
func addPrograms(at func(string) string) error {
	for _, name := range soundnessPrograms {
		if err := os.WriteFile(at("bin/"+name), []byte(stubText), 0o755); err != nil {
			return err
		}
	}
	for _, name := range soundnessWrappers {
		path, err := exec.LookPath(name)
		if err != nil {
			continue // its stub is missing, so nothing starts
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		stub := fmt.Sprintf("%sexec /real/%s \"$@\"\n", stubText, name)
		err = errors.Join(os.WriteFile(at("real/"+name), b, 0o755), os.WriteFile(at("bin/"+name), []byte(stub), 0o755))
		if err != nil {
			return err
		}
	}
	return nil
}

// showFolder makes a folder of the system, or a symlink, available read-only.
func showFolder(dir, at string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(dir)
		if err != nil {
			return err
		}
		return os.Symlink(target, at)
	}
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(dir, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.MountSetattr(-1, at, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// fillWorkspace makes /w and /tmp what they are before each script.
func fillWorkspace() error {
	for _, dir := range []string{"/w", "/tmp"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.Mkdir("/w/sub", 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"a": "a\n", "b.txt": "b\n", "rm": "", "x.sh": "echo from x.sh\n", "list": "a\nb\n", "sub/c": "c\n",
		"x[$(touch from-a-name)]": "",
	} {
		if err := os.WriteFile("/w/"+name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile("/w/sub/ls", []byte(stubText), 0o755)
}

// listFiles returns the state of every file in /w and /tmp.
func listFiles() (map[string]string, error) {
	states := make(map[string]string)
	for _, dir := range []string{"/w", "/tmp"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || path == dir { // bash has temporary files of its own in /tmp
				return err
			}
			var st syscall.Stat_t
			if err := syscall.Lstat(path, &st); err != nil {
				return err
			}
			states[path] = fmt.Sprint(st.Mode, st.Ino, st.Size, st.Ctim)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return states, nil
}
