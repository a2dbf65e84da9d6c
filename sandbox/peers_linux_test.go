package sandbox_test

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"toolgate/internal/filelock"
)

var peersOut = flag.String("peers", "", "make the attempts in the sandboxes of others, and write what came of them to this file")

// A peer is another sandbox, with its defaults and a workspace that may be written.
type peer struct {
	name    string
	command func(home, root string) []string // what comes before the confined command
}

var peerList = []peer{
	{"Codex", func(string, string) []string {
		return []string{"codex", "sandbox", "-c", `sandbox_mode="workspace-write"`, "--"}
	}},
	{"srt", func(home, _ string) []string { return []string{"srt", "--settings", home + "/srt.json"} }},
	{"bubblewrap", func(_, root string) []string {
		return []string{
			"bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/", "/", "--dev", "/dev",
			"--proc", "/proc", "--bind", root, root, "--",
		}
	}},
}

const srtSettings = `{"network": {"allowedDomains": [], "deniedDomains": []},
	"filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}`

// peerFiles have a line for each attempt that works unconfined: s for stopped or o for open by
// each of peerList.
//
//go:embed testdata/peers_root.txt testdata/peers_user.txt
var peerFiles embed.FS

// notForPeers reports whether an attempt is on what only toolgate has, or on /tmp, where not only the
// workspace may be written by default.
func notForPeers(a attempt) bool {
	return strings.HasPrefix(a.name, "worker.") || a.name == "fs.write_tmp" || slices.ContainsFunc(slices.Concat(a.tries...), func(word string) bool {
		return strings.Contains(word, "$HIDDEN") || word == "$PPID" || word == "signal_parent"
	})
}

// TestPeers measures testdata/peers_root.txt and testdata/peers_user.txt, as root and as an
// ordinary user. It needs codex, srt and bwrap.
func TestPeers(t *testing.T) {
	if *peersOut == "" {
		require.Empty(t, os.Getenv("REQUIRE_PEERS"), "run with -args -peers FILE")
		t.Skip("run with -args -peers FILE")
	}
	h := newHost(t)
	var b strings.Builder
	for _, a := range attempts {
		if notForPeers(a) {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			if a.alone == "" {
				if o := tryInPeer(t, h, peer{}, a); !o.escaped {
					require.Empty(t, os.Getenv("REQUIRE_PEERS"), "it does not work unconfined: %s", o.errno)
					t.Skipf("it does not work unconfined: %s", o.errno)
				}
			}
			cells := ""
			for _, p := range peerList {
				o := tryInPeer(t, h, p, a)
				cells += map[bool]string{false: "s", true: "o"}[o.escaped]
				t.Logf("%s: %s", p.name, o.errno)
			}
			fmt.Fprintf(&b, "%s %s\n", a.name, cells)
		})
	}
	require.NoError(t, os.WriteFile(*peersOut, []byte(b.String()), 0o644))
}

func init() {
	// peer makes an attempt in a child, because some attempts are on the parent.
	ops["peer"] = func(args []string) error {
		fmt.Println(tried)
		cmd := again("escape", args...)
		cmd.Stdin, cmd.Env = os.Stdin, append(os.Environ(), strictly+"=1")
		if err := cmd.Run(); cmd.ProcessState == nil {
			return err
		}
		unix.Exit(cmd.ProcessState.ExitCode() & 0xff) // not 0 after a signal
		return nil
	}
}

// tried is what a process prints whose child is about to make an attempt.
const tried = "this attempt is made"

// tryInPeer makes the attempt in a workspace of its own, unconfined if p has no command.
func tryInPeer(t *testing.T, h *Host, p peer, a attempt) outcome {
	t.Helper()
	base, err := os.MkdirTemp("/var/tmp", "toolgate") // not /tmp, which some of them let be written
	require.NoError(t, err)
	defer os.RemoveAll(base)
	f := newFixture(t, h, base+"/base")
	if area, _, _ := strings.Cut(a.name, "."); area == "git" || area == "persist" {
		f.plant(t)
	}
	home := base + "/home"
	write(t, home+"/srt.json", srtSettings)
	tty, _ := openTerminal(t)
	f.tty, f.Attempt = int(tty.Fd()), a.name
	// Only these descriptors are inherited, with the first free numbers.
	unix.CloseOnExec(f.DirFd)
	unix.CloseOnExec(f.FileFd)
	dir, err := os.Open(f.Outside)
	require.NoError(t, err)
	defer dir.Close()
	file, err := os.OpenFile(f.Victim, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer file.Close()
	told := *f
	told.DirFd, told.FileFd = 3, 4

	self, err := os.Executable()
	require.NoError(t, err)
	argv := []string{self, "op", "peer", a.name, told.String()}
	if p.command != nil {
		argv = append(p.command(home, f.Root), argv...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // srt does not end when some attempts do
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = f.Root
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CODEX_HOME=" + home}
	if a.name == "env.secret" {
		cmd.Env = append(cmd.Env, "SECRET="+secret)
	}
	cmd.ExtraFiles = []*os.File{dir, file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if strings.HasPrefix(a.name, "tty.") {
		cmd.Stdin, cmd.SysProcAttr.Setctty = tty, true
	}
	out, err := os.Create(filepath.Join(base, "out")) // not a pipe, which a daemon would hold open
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	said, readErr := os.ReadFile(out.Name())
	require.NoError(t, readErr)
	if lock, err := os.Open(f.Root + "/lock"); err == nil { // what a daemon holds, which may be about to end
		filelock.Lock(ctx, lock, 5*time.Second)
		lock.Close()
	}
	require.Contains(t, string(said), tried, "%s did not start: %v", p.name, err)
	return a.judge(f, exitReport{cmd.ProcessState.ExitCode(), string(said)})
}

// readPeers returns what came of each attempt in each of peerList, for the document.
func readPeers(t *testing.T) map[string][]string {
	t.Helper()
	cells := map[string][2]string{}
	for i, file := range []string{"root", "user"} {
		text, err := peerFiles.ReadFile("testdata/peers_" + file + ".txt")
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			name, cell, ok := strings.Cut(strings.TrimSpace(line), " ")
			require.True(t, ok && len(cell) == len(peerList), line)
			both := cells[name]
			both[i] = cell
			cells[name] = both
		}
	}
	words := map[string]string{
		"ss": "stopped", "oo": "open", "os": "open for root", "so": "open, but not for root",
		"s": "stopped", "o": "open for root",
	}
	peers := map[string][]string{}
	for name, both := range cells {
		for i := range peerList {
			key := ""
			for _, cell := range both {
				if cell != "" {
					key += cell[i : i+1]
				}
			}
			peers[name] = append(peers[name], words[key])
		}
	}
	return peers
}
