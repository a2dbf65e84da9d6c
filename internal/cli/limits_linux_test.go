package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"toolgate/internal/testkit"
	"toolgate/sandbox"
)

const smallLimits = "\n[limits]\nmemory = 300_000_000\nprocesses = 300\n"

// TestOtherCallersAreAnsweredWhileOneHogs: a caller's command uses up what there is,
// and another caller, and the gate itself, answer meanwhile.
func TestOtherCallersAreAnsweredWhileOneHogs(t *testing.T) {
	needSandbox(t)
	t.Run("watched", func(t *testing.T) { hog(t, nil) })
	t.Run("in a control group", func(t *testing.T) {
		attr := inCgroup(t)
		hog(t, attr)
		met, err := filepath.Glob(fmt.Sprintf("/proc/self/fd/%d/toolgate-*/commands/pids.events", attr.CgroupFD))
		require.NoError(t, err)
		counts := ""
		for _, name := range met {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			counts += string(text)
		}
		require.Regexp(t, "max [1-9]", counts) // it was the kernel
	})
}

// inCgroup has a process start in a control group that is delegated to it.
func inCgroup(t *testing.T) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(testkit.Cgroup(t, os.Geteuid()).Fd())}
}

func hog(t *testing.T, attr *syscall.SysProcAttr) {
	s := startWebAs(t, attr, "approval_wait = 0\n"+smallLimits)
	alices, bobs := t.TempDir(), t.TempDir()
	alice := strings.TrimSpace(s.run("http", "token", "add", "alice", "--workspace", alices))
	bob := strings.TrimSpace(s.run("http", "token", "add", "bob", "--workspace", bobs))
	s.until(func() bool {
		resp, _ := (&webCaller{s: s, token: bob}).do("GET", "/metrics", "")
		return resp.StatusCode == 200
	})
	a, b := s.session(alice), s.session(bob)
	for _, hog := range []struct{ script, want string }{
		{"echo > begun; exec 9< <(sleep 1000); while :; do read <&9 & done", "it had more than 300 processes and threads"},
		{"echo > begun; tail /dev/zero", "it used more than 286.1 MiB of memory"},
	} {
		var text string
		var ended sync.WaitGroup
		ended.Go(func() {
			m, _ := a.call("shell", `{"command":["bash","-c","`+hog.script+`"],"timeout_ms":60000}`)
			text = m.text()
		})
		begun := filepath.Join(alices, "begun")
		for _, err := os.Stat(begun); err != nil; _, err = os.Stat(begun) {
			runtime.Gosched()
		}
		m, _ := b.call("shell", `{"command":["echo","fine"]}`)
		require.Contains(t, m.text(), "fine\n")
		resp, _ := b.do("GET", "/metrics", "")
		require.Equal(t, 200, resp.StatusCode)
		ended.Wait()
		require.Contains(t, text, "The command was ended: "+hog.want+"; the user can raise ")
		require.NoError(t, os.Remove(begun))
		m, _ = a.call("shell", `{"command":["echo","fine"]}`)
		require.Contains(t, m.text(), "fine\n")
	}
}

// BenchmarkHogs is the slowest answer to other callers, of the gate itself and of a command, while one
// caller's commands use up what there is, again and again. Each iteration is one answer of each.
func BenchmarkHogs(b *testing.B) {
	for _, level := range []sandbox.Level{sandbox.Full, sandbox.Bwrap, sandbox.Landlock} {
		for _, hog := range []struct{ name, script string }{
			{"nothing", `sleep 1`},
			{"processor", `for i in $(seq 16); do (while :; do :; done) & done; sleep 5`},
			{"processes", `bomb() { bomb | bomb & }; bomb; sleep 5`},
			{"memory", `tail /dev/zero`},
			{"disk", `for i in $(seq 20); do head -c 200M /dev/zero > disk; sync disk; done; rm disk`},
			{"open files", `for i in $(seq 20); do (while exec {fd}< /dev/null; do :; done) & done 2> /dev/null; wait`},
			{"inotify", `for i in $(seq 200); do tail -f disk & done 2> /dev/null; sleep 2`},
			{"output", `yes`},
		} {
			b.Run(level.String()+"/"+hog.name, func(b *testing.B) { besideHog(b, level, hog.script) })
		}
	}
}

func besideHog(b *testing.B, level sandbox.Level, script string) {
	if bestAt(level).Level() != level {
		b.Skipf("no level %v", level)
	}
	if level == sandbox.Landlock && os.Geteuid() == 0 && strings.Contains(script, "bomb") {
		b.Skip("it would take all process ids of the machine")
	}
	b.Setenv(levelVariable, level.String())
	s := startWeb(b, "approval_wait = 0\n[limits]\nmemory = 2_000_000_000\n"+ownTemp)
	alices, bobs := b.TempDir(), b.TempDir()
	alice := strings.TrimSpace(s.run("http", "token", "add", "alice", "--workspace", alices))
	bob := strings.TrimSpace(s.run("http", "token", "add", "bob", "--workspace", bobs))
	s.until(func() bool {
		resp, _ := (&webCaller{s: s, token: bob}).do("GET", "/metrics", "")
		return resp.StatusCode == 200
	})
	hog, other := s.session(alice), s.session(bob)
	other.call("shell", `{"command":["true"]}`)
	require.NoError(b, os.WriteFile(filepath.Join(alices, "disk"), nil, 0o666))
	// In a file, because a fork bomb on the command line would be a question.
	require.NoError(b, os.WriteFile(filepath.Join(alices, "hog"), []byte("touch begun; "+script), 0o666))
	var stop atomic.Bool
	var hogs sync.WaitGroup
	begun := filepath.Join(alices, "begun")
	hogs.Go(func() { // ends with stop
		for !stop.Load() {
			m, _ := hog.call("shell", `{"command":["bash","hog"],"timeout_ms":20000}`)
			if !assert.FileExists(b, begun, m.text()) {
				return
			}
		}
	})
	s.until(func() bool {
		_, err := os.Stat(begun)
		return err == nil || b.Failed()
	})
	var gate, caller time.Duration
	tick := time.NewTicker(200 * time.Millisecond) // for them to meet the hog in each state
	defer tick.Stop()
	for b.Loop() {
		<-tick.C
		began := time.Now()
		resp, body := other.do("POST", "/mcp", `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
		require.Equal(b, 200, resp.StatusCode, body)
		gate = max(gate, time.Since(began))
		began = time.Now()
		m, _ := other.call("shell", `{"command":["echo","fine"]}`)
		require.Contains(b, m.text(), "fine\n")
		caller = max(caller, time.Since(began))
	}
	b.ReportMetric(float64(gate.Milliseconds()), "gate-slowest-ms")
	b.ReportMetric(float64(caller.Milliseconds()), "command-slowest-ms")
	stop.Store(true)
	hogs.Wait()
}

// TestAServerThatHogsIsEnded: the call says why.
func TestAServerThatHogsIsEnded(t *testing.T) {
	needSandbox(t)
	for name, attr := range map[string]func(*testing.T) *syscall.SysProcAttr{
		"watched":            func(*testing.T) *syscall.SysProcAttr { return nil },
		"in a control group": inCgroup,
	} {
		t.Run(name, func(t *testing.T) {
			p := newProbed(t, smallLimits)
			cmd := p.command("call", "mcp__probe__try", `{"allocate":2000000000}`)
			cmd.SysProcAttr = attr(t)
			out, err := cmd.CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(out), "it used more than 286.1 MiB of memory; the user can raise memory in [limits]")
		})
	}
}

// TestSandboxCommandHasLimits: it ends, and says why.
func TestSandboxCommandHasLimits(t *testing.T) {
	needSandbox(t)
	d := newDesk(t, smallLimits)
	out, err := d.command("sandbox", "--", "tail", "/dev/zero").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "stopped: it used more than 286.1 MiB of memory; the user can raise memory in [limits]")
}
