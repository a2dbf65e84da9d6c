package applypatch_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
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

// A codexCase is a patch in Codex's format that nearly fits the files before.
type codexCase struct {
	patch  string
	before map[string]string
}

// newCodexCase makes the case of a seed: operations on few files, and hunks that are cut out
// of them, changed in the ways that models change them. Left out is what Codex does otherwise
// on purpose: where additions below an @@ line go, final newlines, moves onto the same path.
func newCodexCase(seed uint64) codexCase {
	g := &codexGenerator{Rand: rand.New(rand.NewPCG(seed, 2)), files: map[string][]string{}}
	before := map[string]string{}
	for _, name := range []string{"a.txt", "b.txt", "d/c.txt"}[:1+g.IntN(3)] {
		lines := g.lines(1 + g.IntN(30))
		g.files[name], before[name] = lines, strings.Join(lines, "\n")+"\n"
	}
	g.header("*** Begin Patch")
	g.update("a.txt")
	for range g.IntN(3) {
		switch name := []string{"a.txt", "b.txt", "d/c.txt", "new.txt"}[g.IntN(4)]; {
		case g.one(3):
			g.header("*** Add File: " + name)
			for _, line := range g.lines(g.IntN(4)) {
				g.WriteString("+" + line + "\n")
			}
			g.files[name] = []string{"text"}
		case g.files[name] == nil:
		case g.one(4):
			g.header("*** Delete File: " + name)
			delete(g.files, name)
		default:
			g.update(name)
		}
		for g.one(8) {
			g.WriteString([]string{"\n", " \n"}[g.IntN(2)])
		}
	}
	g.header("*** End Patch")
	if g.one(8) && len(g.files["a.txt"]) > 1 { // the file is not quite what the model has seen
		lines := slices.Clone(g.files["a.txt"])
		lines[g.IntN(len(lines))] = g.line()
		before["a.txt"] = strings.Join(lines, "\n") + "\n"
	}
	switch g.IntN(10) {
	case 0:
		before["a.txt"] = strings.ReplaceAll(before["a.txt"], "\n", "\r\n")
	case 1:
		before["a.txt"] = strings.TrimSuffix(before["a.txt"], "\n")
	}
	return codexCase{g.String(), before}
}

// A codexGenerator writes a patch to files.
type codexGenerator struct {
	*rand.Rand
	strings.Builder
	files map[string][]string
}

// header writes a header, sometimes with white space around it.
func (g *codexGenerator) header(text string) {
	if g.one(20) {
		text = []string{" ", "\t", "  "}[g.IntN(3)] + text
	}
	if g.one(20) {
		text += []string{" ", "\t", "\r"}[g.IntN(3)]
	}
	g.WriteString(text + "\n")
}

func (g *codexGenerator) one(in int) bool { return g.IntN(in) == 0 }

// line returns a line that is likely to be there once, or one of few.
func (g *codexGenerator) line() string {
	switch {
	case g.one(4):
		return randomLine(g.Rand)
	case g.one(20):
		return []string{"*** Delete File: b.txt", "*** End Patch", "*** End of File", "@@ x", "--- a/b.txt"}[g.IntN(5)]
	}
	return strings.Repeat("  ", g.IntN(3)) + "text " + strconv.Itoa(g.IntN(1000))
}

func (g *codexGenerator) lines(n int) (lines []string) {
	for range n {
		lines = append(lines, g.line())
	}
	return lines
}

// padded returns line, sometimes with other white space or typographic characters.
func (g *codexGenerator) padded(line string) string {
	switch g.IntN(20) {
	case 0:
		return line + " "
	case 1:
		return strings.TrimSpace(line)
	case 2:
		return " " + line
	case 3:
		return "\t" + strings.TrimRight(line, " ")
	case 4:
		return strings.ReplaceAll(line, "-", "\u2013")
	}
	return line
}

func (g *codexGenerator) update(name string) {
	g.header("*** Update File: " + name)
	if g.one(8) {
		to := []string{"moved.txt", "new/moved.txt", "b.txt"}[g.IntN(3)]
		if to == name {
			to = "a.txt"
		}
		g.WriteString("*** Move to: " + to + "\n")
	}
	lines, hunks := g.files[name], 0
	for at := g.IntN(1 + len(lines)/2); at < len(lines) || hunks == 0; at += 1 + g.IntN(12) {
		n := min(1+g.IntN(6), len(lines)-at)
		if n > 0 && strings.TrimSpace(strings.Join(lines[at:at+n], "")) == "" {
			n = 0 // Codex takes blank old lines that it does not find for none
		}
		g.head(lines, at, n, hunks == 0)
		if n <= 0 {
			g.WriteString("+" + g.line() + "\n")
		}
		for i := at; i < at+n; i++ {
			g.change(lines[i])
		}
		hunks++
		at += max(n, 0)
		g.tail(at >= len(lines))
	}
}

// head writes the @@ lines of a hunk, if any.
func (g *codexGenerator) head(lines []string, at, n int, first bool) {
	switch {
	case first && g.one(6):
	case n > 0 && at > 0 && g.one(3):
		g.WriteString("@@ " + g.padded(lines[g.IntN(at)]) + "\n")
	case n > 0 && g.one(6):
		g.WriteString("@@ \n")
	default:
		g.WriteString("@@\n")
	}
}

// change writes a line of a hunk, changed or as context.
func (g *codexGenerator) change(line string) {
	switch line = g.padded(line); {
	case g.one(5):
		g.WriteString("-" + line + "\n+" + g.line() + "\n")
	case g.one(6):
		g.WriteString("-" + line + "\n")
	case g.one(6):
		g.WriteString(" " + line + "\n+" + g.line() + "\n")
	case line == "" && g.one(2):
		g.WriteString("\n")
	default:
		g.WriteString(" " + line + "\n")
	}
}

// tail writes what may follow a hunk.
func (g *codexGenerator) tail(atEnd bool) {
	switch {
	case atEnd && g.one(3), g.one(60):
		g.WriteString("*** End of File\n")
	case atEnd && g.one(4), g.one(60):
		g.WriteString([]string{"\n", " \n", "-\n", " \n*** End of File\n", "\n\n", " \n+\n"}[g.IntN(6)])
	}
}

// refusals are the reasons for which the tool refuses what Codex applies, see
// docs/apply_patch.md.
var refusals = []string{
	"is ambiguous", "would fit again", "is already applied", "the file exists with other content", "a file exists there",
	"may be a header or a line of",
}

// checkAgainstCodex applies the case with Codex and with the tool. What Codex applies must
// come out the same, or be refused for one of the reasons, which is returned. The refusals of
// Codex are not held against the tool.
func checkAgainstCodex(t testing.TB, oracle string, seed uint64) (outcome string) {
	c := newCodexCase(seed)
	theirs, ours := t.TempDir(), t.TempDir()
	layFiles(t, theirs, c.before)
	layFiles(t, ours, c.before)
	cmd := exec.CommandContext(t.Context(), oracle, c.patch)
	cmd.Dir = theirs
	err := cmd.Run()
	t.(interface{ Chdir(string) }).Chdir(ours)
	text, isError := call(t, applypatch.Tool, patchArgs{c.patch})
	if isError {
		require.Equal(t, c.before, tree(t, ours), "seed %d: a refused patch changed something", seed)
	}
	if err != nil {
		return "Codex refuses"
	}
	if isError {
		why := slices.IndexFunc(refusals, func(why string) bool { return strings.Contains(text, why) })
		require.NotEqual(t, -1, why, "seed %d: Codex applies it, but: %s\n%s\nto\n%q", seed, text, c.patch, c.before)
		return refusals[why]
	}
	want, got := tree(t, theirs), tree(t, ours)
	if !strings.HasSuffix(c.before["a.txt"], "\n") { // Codex adds a final newline
		want, got = withoutLastNewline(want), withoutLastNewline(got)
	}
	require.Equal(t, want, got, "seed %d:\n%s\nto\n%q", seed, c.patch, c.before)
	return "same"
}

// APPLY_PATCH_ROUNDS is the number of patches.
func TestAgreesWithCodexOnGeneratedPatches(t *testing.T) {
	oracle := lookForOracle(t)
	cases := rounds(t, 100)
	outcomes := map[string]int{}
	for seed := range cases {
		outcomes[checkAgainstCodex(t, oracle, uint64(seed))]++
	}
	t.Logf("of %d: %v", cases, outcomes)
	require.Greater(t, outcomes["same"], cases/4, "too few cases that Codex applies")
}

func FuzzAgreesWithCodex(f *testing.F) {
	oracle := lookForOracle(f)
	for seed := range uint64(5) {
		f.Add(seed + 1000)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { checkAgainstCodex(t, oracle, seed) })
}
