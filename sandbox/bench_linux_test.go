package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/sandbox"
)

func init() {
	// bench runs the named benchmark inside a worker and prints its result.
	ops["bench"] = func(args []string) error {
		plan, ok := sandbox.Current()
		if !ok {
			return fmt.Errorf("not in a sandbox")
		}
		s, err := sandbox.NewSpawner(plan)
		if err != nil {
			return err
		}
		start := map[string]func(*exec.Cmd) error{
			"plain":   (*exec.Cmd).Start,
			"spawner": s.Start,
			"watched": func(cmd *exec.Cmd) error { _, err := s.StartWatched(cmd); return err },
		}[args[0]]
		null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		r := testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				cmd := exec.Command(args[1], args[2:]...)
				cmd.Stdin, cmd.Stdout, cmd.Stderr = null, null, null
				if err := start(cmd); err != nil {
					b.Fatal(err)
				}
				if err := cmd.Wait(); err != nil {
					b.Fatal(err)
				}
			}
		})
		fmt.Println(float64(r.T.Nanoseconds()) / float64(r.N))
		return nil
	}
}

// BenchmarkWarmCommand is a command of a worker, as a tool call starts one:
// without a restriction of its own, with one, and watched.
func BenchmarkWarmCommand(b *testing.B) {
	plan, err := planAt(sandbox.Full, workspace(b.TempDir()))
	if err != nil {
		b.Skip(err)
	}
	for _, script := range []string{"true", "100 files"} {
		argv := []string{"/bin/true"}
		if script == "100 files" {
			argv = []string{"/bin/sh", "-c", "i=0; while [ $i -lt 100 ]; do echo > f$i; i=$((i+1)); done"}
		}
		for _, how := range []string{"plain", "spawner", "watched"} {
			b.Run(script+"/"+how, func(b *testing.B) {
				for b.Loop() {
					// One iteration is one benchmark inside.
				}
				cmd := plan.Command(append([]string{"", "op", "bench", how}, argv...)...)
				cmd.Dir = plan.Profile.WritableRoots[0]
				out, err := output(cmd)
				require.NoError(b, err)
				var ns float64
				fmt.Sscan(out, &ns)
				b.ReportMetric(ns, "ns/command")
			})
		}
	}
}

// BenchmarkOneShot is a sandbox for one command, against the command alone
// and against bubblewrap.
func BenchmarkOneShot(b *testing.B) {
	root := b.TempDir()
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.NoError(b, exec.Command("/bin/true").Run())
		}
	})
	b.Run("bubblewrap alone", func(b *testing.B) {
		path, bwrap := sandbox.ProbeBwrap()
		if !bwrap.OK {
			b.Skip(bwrap.Why)
		}
		b.ReportAllocs()
		for b.Loop() {
			require.NoError(b, exec.Command(path, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--bind", root, root, "--dev", "/dev", "--proc", "/proc", "/bin/true").Run())
		}
	})
	for _, level := range []sandbox.Level{sandbox.None, sandbox.Landlock, sandbox.Bwrap, sandbox.Full} {
		b.Run(level.String(), func(b *testing.B) {
			p := workspace(root)
			p.Hidden = sandbox.Credentials(os.Getenv("HOME"))
			plan, err := planAt(level, p)
			if err != nil {
				b.Skip(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, plan.Command("/bin/true").Run())
			}
		})
	}
}

// BenchmarkProbe is finding out what the system can do, which a process does
// once.
func BenchmarkProbe(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, sandbox.ProbeNamespaces())
	}
}

// BenchmarkPlan is the pure part.
func BenchmarkPlan(b *testing.B) {
	p := workspace("/home/u/w", "/tmp")
	p.Hidden = sandbox.Credentials("/home/u")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := sandbox.NewPlan(p, capable); err != nil {
			b.Fatal(err)
		}
	}
}

func output(cmd *sandbox.Cmd) (string, error) {
	r, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	text := make([]byte, 200)
	n, _ := r.Read(text)
	return string(text[:n]), cmd.Wait()
}
