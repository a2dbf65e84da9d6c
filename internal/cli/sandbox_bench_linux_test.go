package cli

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkSandboxCommand is one command in a sandbox of its own, as a whole
// process, in turn with the command alone and with bubblewrap's sandbox, both
// with one folder to write. The last is ours as it comes, with /tmp to write as
// well, which is searched for protected names: what that costs depends on who
// uses it. Medians; "/bwrap" is how many times bubblewrap's.
func BenchmarkSandboxCommand(b *testing.B) {
	needSandbox(b)
	exe := buildProgram(b)
	home, dir := b.TempDir(), b.TempDir()
	runs := [][]string{
		{"/bin/true"},
		{"bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--bind", dir, dir, "--dev", "/dev", "--proc", "/proc", "/bin/true"},
		{exe, "sandbox", "-c", "sandbox_workspace_write.exclude_slash_tmp=true", "-c", "sandbox_workspace_write.exclude_tmpdir_env_var=true", "--", "/bin/true"},
		{exe, "sandbox", "--", "/bin/true"},
	}
	if _, err := exec.LookPath("bwrap"); err != nil {
		b.Skip("bwrap is not installed")
	}
	times := make([][]time.Duration, len(runs))
	for b.Loop() {
		for i, argv := range runs {
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "TOOLGATE_HOME="+home)
			start := time.Now()
			out, err := cmd.CombinedOutput()
			times[i] = append(times[i], time.Since(start))
			require.NoError(b, err, string(out))
		}
	}
	median := func(list []time.Duration) float64 {
		slices.Sort(list)
		return float64(list[len(list)/2].Microseconds()) / 1000
	}
	plain, bwrap, own, tmp := median(times[0]), median(times[1]), median(times[2]), median(times[3])
	b.ReportMetric(plain, "plain-ms")
	b.ReportMetric(bwrap, "bwrap-ms")
	b.ReportMetric(own, "toolgate-ms")
	b.ReportMetric(own/bwrap, "/bwrap")
	b.ReportMetric(tmp, "with-tmp-ms")
	b.ReportMetric(tmp/bwrap, "with-tmp/bwrap")
	entries, err := os.ReadDir("/tmp")
	require.NoError(b, err)
	folders := slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() })
	b.ReportMetric(float64(len(folders)), "folders-in-tmp")
}
