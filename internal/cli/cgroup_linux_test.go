package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/testkit"
)

// TestLimitsByControlGroup gives toolgate a control group of its own. The kernel then holds
// each sandbox to the limits, and nothing of it is left when the sandbox has ended.
func TestLimitsByControlGroup(t *testing.T) {
	needSandbox(t)
	testkit.Cgroup(t, 0) // or skips the test
	const bomb = `exec 9< <(sleep 1000); while :; do read <&9 & done`
	inWorker := func(script string) []string {
		return []string{"call", "shell", fmt.Sprintf(`{"command":["bash","-c",%q],"timeout_ms":60000}`, script)}
	}
	for _, uid := range []int{0, 1500} {
		d := newDesk(t, smallLimits)
		for dir := d.toolgate; dir != os.TempDir(); dir = filepath.Dir(dir) {
			require.NoError(t, os.Chmod(dir, 0o755))
		}
		require.NoError(t, os.Chmod(filepath.Dir(d.home), 0o755))
		require.NoError(t, filepath.WalkDir(d.home, func(path string, _ fs.DirEntry, _ error) error {
			return os.Chown(path, uid, uid)
		}))
		for _, tt := range []struct {
			args []string
			want string
		}{
			{[]string{"doctor"}, "limits +pids.* by control group, others watched\n"},
			{[]string{"sandbox", "--", "bash", "-c", "exit 7"}, "^$"},
			{[]string{"sandbox", "--", "bash", "-c", bomb},
				`stopped: it had more than 300 processes and threads; the user can raise processes in \[limits\]`},
			{inWorker(bomb),
				`The command was ended: it had more than 300 processes and threads; the user can raise processes in \[limits\]`},
			{inWorker("cat /proc/self/cgroup"), `\n0::/\S+/toolgate-1/commands\n`},
			{inWorker(`cd "$GROUP" && echo max > toolgate-1/commands/pids.max`), "Permission denied|Read-only file system"},
			{inWorker(`cd "$GROUP" && echo $$ > toolgate/cgroup.procs`), "Permission denied|Read-only file system"},
			{[]string{"sandbox", "--", "tail", "/dev/zero"}, `stopped: it used more than 286.1 MiB of memory;`},
			{inWorker("tail /dev/zero"), `The command was ended: it used more than 286.1 MiB of memory;`},
		} {
			t.Run(fmt.Sprint(uid, tt.want), func(t *testing.T) {
				group := testkit.Cgroup(t, uid)
				require.NoError(t, os.MkdirAll(group.Name()+"/toolgate-99/commands", 0o755)) // a killed process left it
				require.NoError(t, os.Chown(group.Name()+"/toolgate-99", uid, uid))
				cmd := d.command(tt.args...)
				cmd.Env = append(cmd.Env, "GROUP="+group.Name())
				cmd.SysProcAttr = &syscall.SysProcAttr{
					UseCgroupFD: true, CgroupFD: int(group.Fd()),
					Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)},
				}
				out, err := cmd.CombinedOutput()
				require.Regexp(t, tt.want, string(out))
				if strings.HasSuffix(tt.args[len(tt.args)-1], "exit 7") {
					require.EqualError(t, err, "exit status 7")
				}
				left, err := filepath.Glob(group.Name() + "/toolgate-*")
				require.NoError(t, err)
				require.Empty(t, left)
			})
		}
	}
}
