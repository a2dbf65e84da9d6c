package sandbox_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/sandbox"
)

// TestPidMaxOfTheMachineIsLeftAlone checks that the limit of process ids is written
// only where a pid namespace has its own.
func TestPidMaxOfTheMachineIsLeftAlone(t *testing.T) {
	for release, want := range map[string]string{
		"6.14.0-rc1": "1024", "6.18.44-fc": "1024", "7.0": "1024",
		"6.13.12": "old", "6.1.0-28-amd64": "old", "5.15.167.4-microsoft-standard-WSL2": "old", "": "old", "unknown": "old",
	} {
		proc := t.TempDir()
		for _, name := range []string{"/sys/user/max_user_namespaces", "/sys/kernel/pid_max", "/self/oom_score_adj"} {
			write(t, proc+name, "old")
		}
		sandbox.LimitNamespaces(proc, release, sandbox.Plan{}.Holding(1024))
		got, err := os.ReadFile(proc + "/sys/kernel/pid_max")
		require.NoError(t, err)
		require.Equal(t, want, string(got), "Linux %s", release)
		got, err = os.ReadFile(proc + "/self/oom_score_adj")
		require.NoError(t, err)
		require.Equal(t, "300", string(got))
	}
}
