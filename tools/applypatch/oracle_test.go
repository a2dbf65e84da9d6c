package applypatch_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/tools/applypatch"
)

// differs returns why Codex does something else with the case, "" when it
// does the same.
func (c *testCase) differs() string {
	for line := range strings.Lines(string(c.archive.Comment)) {
		if why, ok := strings.CutPrefix(line, "codex: differs: "); ok {
			return strings.TrimSpace(why)
		}
	}
	return ""
}

func lookForOracle(t testing.TB) string {
	oracle := os.Getenv("APPLY_PATCH_ORACLE")
	if oracle == "" {
		if os.Getenv("REQUIRE_ORACLE") == "1" {
			t.Fatal("REQUIRE_ORACLE=1, but APPLY_PATCH_ORACLE is not set")
		}
		t.Skip("APPLY_PATCH_ORACLE is not set")
	}
	return oracle
}

// The cases in Codex's format do to the files what Codex's own apply_patch
// does, but where they say that they differ: there they must.
//
// APPLY_PATCH_ORACLE is the path of Codex's binary under the name apply_patch.
func TestAgreesWithCodex(t *testing.T) {
	oracle := lookForOracle(t)
	for _, c := range readCases(t) {
		if strings.HasPrefix(c.name(), "unified_") {
			continue
		}
		t.Run(c.name(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c.lay(t, dir)
			cmd := exec.CommandContext(t.Context(), oracle, c.patch)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			same := (err != nil) == (c.err != "")
			if c.err == "" {
				same = same && maps.Equal(c.want, tree(t, dir)) && c.factsHold(t, dir)
			}
			if why := c.differs(); why != "" {
				require.False(t, same, "it says that Codex differs, because %s; but it does not", why)
				return
			}
			require.True(t, same, "Codex (%v): %s\nleft %q", err, out, tree(t, dir))
		})
	}
}

// A codexCase is a patch of one file in Codex's format that nearly fits it.
type codexCase struct{ patch, before string }

// newCodexCase makes the case of a seed: hunks cut out of a text, with some
// white space and some lines changed afterwards, in the text or in the hunks.
// Every hunk has an old line: where additions without one go is a difference
// on purpose. So is the missing final newline.
func newCodexCase(seed uint64) codexCase {
	r := rand.New(rand.NewPCG(seed, 2))
	var lines []string
	for range 1 + r.IntN(30) {
		lines = append(lines, randomLine(r))
	}
	var b strings.Builder
	b.WriteString("*** Begin Patch\n*** Update File: a.txt\n")
	for at := r.IntN(len(lines)); at < len(lines); at += 1 + r.IntN(12) {
		n := min(1+r.IntN(5), len(lines)-at)
		if strings.Join(lines[at:at+n], "") == "" {
			continue // Codex takes blank old lines that it does not find for none
		}
		b.WriteString("@@")
		if at > 0 && r.IntN(3) == 0 {
			b.WriteString(" " + lines[r.IntN(at)])
		}
		b.WriteString("\n")
		for _, line := range lines[at : at+n] {
			switch r.IntN(8) {
			case 0:
				line += " "
			case 1:
				line = strings.TrimSpace(line)
			}
			switch r.IntN(5) {
			case 0:
				b.WriteString("-" + line + "\n+" + randomLine(r) + "\n")
			case 1:
				b.WriteString("-" + line + "\n")
			case 2:
				b.WriteString(" " + line + "\n+" + randomLine(r) + "\n")
			default:
				b.WriteString(" " + line + "\n")
			}
		}
		at += n
		if at >= len(lines) && r.IntN(2) == 0 {
			b.WriteString("*** End of File\n")
		}
	}
	b.WriteString("*** End Patch\n")
	if r.IntN(3) == 0 {
		lines[r.IntN(len(lines))] = randomLine(r)
	}
	return codexCase{b.String(), strings.Join(lines, "\n") + "\n"}
}

// checkAgainstCodex applies the case with Codex and with the tool. What Codex
// applies must come out the same; its refusals are not held against the tool.
func checkAgainstCodex(t testing.TB, oracle string, seed uint64) (applied bool) {
	c := newCodexCase(seed)
	theirs, ours := t.TempDir(), t.TempDir()
	write(t, filepath.Join(theirs, "a.txt"), c.before)
	write(t, filepath.Join(ours, "a.txt"), c.before)
	cmd := exec.CommandContext(t.Context(), oracle, c.patch)
	cmd.Dir = theirs
	err := cmd.Run()
	t.(interface{ Chdir(string) }).Chdir(ours)
	text, isError := call(t, applypatch.Tool, patchArgs{c.patch})
	if err != nil {
		return false
	}
	require.False(t, isError, "seed %d: Codex applies it, but: %s\n%s\nto\n%s", seed, text, c.patch, c.before)
	require.Equal(t, tree(t, theirs), tree(t, ours), "seed %d:\n%s\nto\n%s", seed, c.patch, c.before)
	return true
}

func TestAgreesWithCodexOnGeneratedPatches(t *testing.T) {
	oracle := lookForOracle(t)
	applied := 0
	const cases = 100
	for seed := range uint64(cases) {
		if checkAgainstCodex(t, oracle, seed) {
			applied++
		}
	}
	t.Logf("Codex applied %d of %d", applied, cases)
	require.Greater(t, applied, cases/4, "too few cases that Codex applies")
}

func FuzzAgreesWithCodex(f *testing.F) {
	oracle := lookForOracle(f)
	for seed := range uint64(5) {
		f.Add(seed + 1000)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { checkAgainstCodex(t, oracle, seed) })
}
