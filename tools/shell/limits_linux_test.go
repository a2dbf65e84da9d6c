package shell_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/tools/shell"
)

// TestLimits asks a shell what it is held to. The limits come a moment after
// the start, so it waits for one that nothing else sets.
func TestLimits(t *testing.T) {
	const ask = `until [ "$(ulimit -f)" = 4096 ]; do :; done; ulimit -u; ulimit -n; ulimit -c; ulimit -Hc`
	raw, err := json.Marshal(ask)
	require.NoError(t, err)
	b := newBench(t, shell.Options{Limits: shell.Limits{Processes: 5000, OpenFiles: 100, FileSize: 4 << 20}})
	text := b.ask("shell", `{"command":%s,"timeout_ms":30000}`, raw)
	_, got, _ := strings.Cut(text, "Output:\n")
	require.Equal(t, "5000\n100\n0\n0\n", got)

	b = newBench(t, shell.Options{Limits: shell.Limits{FileSize: 1 << 20}})
	text = b.ask("shell", `{"command":"until [ \"$(ulimit -f)\" = 1024 ]; do :; done; head -c 2000000 /dev/zero > big; echo $?; wc -c < big","timeout_ms":30000}`)
	require.Contains(t, text, "1048576\n")
}

// TestCgroup runs a command in a cgroup of its own, which takes what gets away
// from everything else.
func TestCgroup(t *testing.T) {
	folder := ownCgroup(t)
	b := newBench(t, shell.Options{Limits: shell.Limits{Cgroup: folder}})
	text := b.ask("shell", `{"command":"until grep -q command- /proc/self/cgroup; do :; done; (env -i setsid sleep 1000 &); echo x","timeout_ms":30000}`)
	require.Regexp(t, `x\nThe command left a process \([a-z]+\) running in the background`, text) // perhaps not sleep yet
	id := b.open(map[string]any{"cmd": "trap '' TERM; echo begun; while :; do sleep 1; done", "wait_for": "begun"})
	groups, err := filepath.Glob(filepath.Join(folder, "command-*"))
	require.NoError(t, err)
	require.NotEmpty(t, groups)
	require.Contains(t, b.ask("write_stdin", `{"session_id":%s,"kill":true}`, id), "Process exited with code 137")
	b.tools["shell"].Close()
	groups, err = filepath.Glob(filepath.Join(folder, "command-*"))
	require.NoError(t, err)
	require.Empty(t, groups)
}

// ownCgroup makes a cgroup that commands may be put in.
func ownCgroup(t *testing.T) string {
	skip := func(why error) {
		if os.Getenv("REQUIRE_CGROUP") != "" {
			t.Fatalf("no cgroup to be had, and REQUIRE_CGROUP is set: %v", why)
		}
		t.Skipf("no cgroup to be had: %v", why)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		skip(err)
	}
	for line := range strings.Lines(string(own)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			folder := filepath.Join(root, path, fmt.Sprintf("toolgate-test-%d", os.Getpid()))
			if err = os.Mkdir(folder, 0o755); err != nil {
				continue
			}
			if _, err = os.Stat(filepath.Join(folder, "cgroup.kill")); err != nil {
				os.Remove(folder)
				continue
			}
			t.Cleanup(func() { require.NoError(t, os.Remove(folder), "the group must be empty") })
			return folder
		}
	}
	skip(err)
	return ""
}
