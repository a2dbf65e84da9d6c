package grep_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/tools/grep"
)

// benchTree writes a tree of source-like text of about size bytes, with a
// .gitignore and folders it names, and returns its path.
func benchTree(b *testing.B, size int) string {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 5000)
	for i := range words {
		w := make([]byte, 2+r.IntN(9))
		for j := range w {
			w[j] = "etaoinshrdlucmfwypvbgkjqxz"[min(r.IntN(26), r.IntN(26))]
		}
		words[i] = string(w)
	}
	words = append(words, "IOException", "needleInAHaystack", "Über", "naïve")
	dir := b.TempDir()
	require.NoError(b, os.Mkdir(filepath.Join(dir, ".git"), 0o755))
	require.NoError(b, os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*.o\n/out/\nnode_modules\n!keep.o\n"), 0o644))
	var text bytes.Buffer
	for n, written := 0, 0; written < size; n++ {
		text.Reset()
		for want := 500 + r.IntN(30_000); text.Len() < want; {
			for range r.IntN(4) {
				text.WriteByte('\t')
			}
			for range 1 + r.IntN(10) {
				w := words[r.IntN(5000)]
				if r.IntN(40_000) == 0 {
					w = words[5000+r.IntN(4)]
				}
				text.WriteString(w)
				text.WriteString([]string{" ", ".", "(", ") ", ", ", " = ", "_"}[r.IntN(7)])
			}
			text.WriteByte('\n')
		}
		sub := filepath.Join(dir, fmt.Sprintf("d%d", n/200), fmt.Sprintf("e%d", n/20%10))
		require.NoError(b, os.MkdirAll(sub, 0o755))
		name := fmt.Sprintf("f%d.%s", n, []string{"go", "ts", "txt", "o"}[n%4])
		require.NoError(b, os.WriteFile(filepath.Join(sub, name), text.Bytes(), 0o644))
		written += text.Len()
	}
	return dir
}

// BenchmarkTree searches a generated tree, 1 GB of it with GREP_BENCH_MB=1000,
// with the tool and with rg. The metric "ratio" is the tool's time to rg's.
func BenchmarkTree(b *testing.B) {
	rg := needRipgrep(b)
	size := 100
	if s := os.Getenv("GREP_BENCH_MB"); s != "" {
		var err error
		size, err = strconv.Atoi(s)
		require.NoError(b, err)
	}
	dir := benchTree(b, size<<20)
	b.Chdir(dir)
	for _, bench := range []struct{ name, expr, letters string }{
		{"literal", "needleInAHaystack", "sensitive"},
		{"nothing", "notInAnyOfTheFiles", "sensitive"},
		{"suffix", `\w+Exception\b`, "sensitive"},
		{"fold", "needleinahaystack", "insensitive"},
		{"either", "IOException|needleInAHaystack|naïve", "sensitive"},
		{"noliteral", `\b[qxz]{4}\w{2}[qxz]\b`, "sensitive"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			call := args(b, map[string]any{"pattern": bench.expr, "case": bench.letters})
			handArgs := []string{"--no-config", "-l", "-e", bench.expr, "."}
			if bench.letters == "insensitive" {
				handArgs = append([]string{"-i"}, handArgs...)
			}
			var hand, own time.Duration
			var stats runtime.MemStats
			b.ReportAllocs()
			for b.Loop() {
				hand += timed(func() { _, _ = exec.Command(rg, handArgs...).Output() })
				own += timed(func() { mustRun(b, call) })
			}
			runtime.ReadMemStats(&stats)
			n := float64(b.N)
			b.ReportMetric(float64(hand.Milliseconds())/n, "ms-rg")
			b.ReportMetric(float64(own)/float64(hand), "ratio")
			b.ReportMetric(float64(stats.Sys)/(1<<20), "MB-sys")
		})
	}
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func mustRun(b *testing.B, call json.RawMessage) {
	if res := grep.Tool.Run(b.Context(), call); res.IsError {
		b.Fatal(text(res))
	}
}
