package shell_test

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/internal/limits"
	"toolgate/sandbox"
	"toolgate/tools/shell"
)

// TestLimits asks a shell what the kernel holds it to.
func TestLimits(t *testing.T) {
	for name, system := range levels(t) {
		t.Run(name, func(t *testing.T) {
			c := startConfined(t, system, t.TempDir(), shell.Options{Limits: limits.Limits{Processes: 5000, OpenFiles: 100, FileSize: 4 << 20}})
			text := textOf(c.call("shell", map[string]any{"command": "ulimit -u; ulimit -n; ulimit -Hn; ulimit -f; ulimit -Hc"}))
			_, got, _ := strings.Cut(text, "Output:\n")
			require.Equal(t, "13192\n100\n100\n4096\n0\n", got)
			text = textOf(c.call("shell", map[string]any{"command": "head -c 5000000 /dev/zero > big; wc -c < big"}))
			require.Contains(t, text, "4194304\n")
		})
	}
}

// TestHogs has a command use up each resource, at every level. Others are answered
// meanwhile, and the result names the limit.
func TestHogs(t *testing.T) {
	systems := levels(t)
	if path, err := exec.LookPath("bwrap"); err == nil && systems["full"].Namespaces.OK { // else levels has it
		s := systems["full"]
		s.Namespaces, s.Bwrap, s.BwrapPath = sandbox.Support{}, sandbox.Support{OK: true}, path
		systems["bwrap"] = s
	}
	for name, system := range systems {
		t.Run(name, func(t *testing.T) {
			other := startConfined(t, system, t.TempDir(), shell.Options{})
			for _, hog := range []struct{ name, script, want string }{
				{"processes", `bomb() { echo > begun; while :; do sleep 1000 & done; }; bomb`,
					"The command was ended: it had more than 200 processes and threads; the user can raise processes in [limits] of toolgate's config.\n"},
				{"orphans", `echo > begun; while :; do (setsid sleep 1000 &); done`,
					"The command was ended: it had more than 200 processes and threads;"},
				{"memory", `echo > begun; tail /dev/zero`,
					"The command was ended: it used more than 300.0 MiB of memory; the user can raise memory in [limits]"},
				{"output", `echo > begun; exec yes`,
					"The command was ended: it printed more than 30.0 MiB; the user can raise output in [limits]"},
				{"disk", `echo > begun; head -c 1020M /dev/zero > disk/x; head -c 1020M /dev/zero > /dev/shm/x; sleep 1000`,
					"The command was ended: less than "},
				{"open files", `echo > begun; for i in $(seq 100); do exec {fd}< /dev/null; done; exit 1`,
					"It may have met a limit: open_files is 64; the user can raise it in [limits]"},
				{"inotify", `echo > begun; echo "Couldn't initialize inotify: Too many open files"; exit 1`,
					"It may have met a limit: at level full, a sandbox has half of the user's inotify instances and watches.\n"},
				{"file size", `echo > begun; truncate -s 2G large`,
					"It may have met a limit: file_size is 1073741824;"},
			} {
				t.Run(hog.name, func(t *testing.T) {
					root := t.TempDir()
					folders := []string{"/dev/shm"} // in namespaces, it has 1 GiB
					if hog.name == "disk" {
						require.NoError(t, os.Mkdir(root+"/disk", 0o777))
						if unix.Mount("tmpfs", root+"/disk", "tmpfs", 0, "size=40m") == nil {
							defer unix.Unmount(root+"/disk", unix.MNT_DETACH)
							folders = []string{root + "/disk"}
						} else if name == "landlock" {
							t.Skip("a small disk needs root")
						}
					}
					c := startConfined(t, system, root, shell.Options{Folders: folders, Limits: limits.Limits{
						Processes: 200, Memory: 300 << 20, Output: 30 << 20, FileSize: 1 << 30, OpenFiles: 64,
					}})
					var text string
					var ended sync.WaitGroup
					ended.Go(func() {
						text = textOf(c.call("shell", map[string]any{"command": []string{"bash", "-c", hog.script}, "timeout_ms": 60000}))
					})
					for !exists(root + "/begun") {
						runtime.Gosched()
					}
					require.Contains(t, textOf(other.call("shell", map[string]any{"command": []string{"echo", "fine"}})), "fine\n")
					require.Contains(t, textOf(c.call("list_sessions", nil)), "ession")
					ended.Wait()
					require.Contains(t, text, hog.want)
					require.Contains(t, textOf(c.call("shell", map[string]any{"command": []string{"echo", "fine"}})), "fine\n", "the worker is alive")
				})
			}
		})
	}
}

// TestForkBomb: processes are ended that use more memory than they may while they fork.
func TestForkBomb(t *testing.T) {
	for name, system := range levels(t) {
		t.Run(name, func(t *testing.T) {
			c := startConfined(t, system, t.TempDir(), shell.Options{Limits: limits.Limits{Processes: 1000, Memory: 200 << 20}})
			text := textOf(c.call("shell", map[string]any{
				"command": []string{"bash", "-c", "bomb() { bomb | bomb & }; bomb; sleep 1000"}, "timeout_ms": 60000,
			}))
			require.Contains(t, text, "The command was ended: it ")
		})
	}
}
