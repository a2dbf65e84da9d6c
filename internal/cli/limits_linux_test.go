package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/testkit"
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
