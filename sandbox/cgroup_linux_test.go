package sandbox_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/testkit"
	"toolgate/sandbox"
)

// TestControlGroup starts a sandbox in a control group that it can neither leave nor change.
func TestControlGroup(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.Full, sandbox.Bwrap, sandbox.Landlock} {
		t.Run(level.String(), func(t *testing.T) {
			plan := at(t, level, workspace(t.TempDir()))
			parent := testkit.Cgroup(t, 0).Name()
			dir := parent + "/box"
			require.NoError(t, os.WriteFile(parent+"/cgroup.subtree_control", []byte("+pids"), 0))
			require.NoError(t, os.Mkdir(dir, 0o755))
			require.NoError(t, os.WriteFile(dir+"/pids.max", []byte("100"), 0))
			group, err := os.Open(dir)
			require.NoError(t, err)
			defer group.Close()
			cmd := plan.Command("/bin/bash", "-c", `
				echo max > "$1"/pids.max && echo raised
				echo $$ > "$2"/cgroup.procs && echo left
				echo $$ > "$1"/../cgroup.threads && echo left
				echo -pids > "$2"/cgroup.subtree_control && echo freed
				mkdir "$1"/below && echo divided
				rmdir "$1" && echo removed
				cat /proc/self/cgroup
			`, "bash", dir, parent)
			var out bytes.Buffer
			cmd.Stdout, cmd.Cgroup = &out, group
			require.NoError(t, cmd.Run())
			require.Regexp(t, `^([1-9].*\n)*0::/test-\S+/box\n$`, out.String())
			require.NoDirExists(t, dir+"/below")
			got, err := os.ReadFile(dir + "/pids.max")
			require.NoError(t, err)
			require.Equal(t, "100\n", string(got))
		})
	}
}
