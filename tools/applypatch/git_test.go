package applypatch_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/tools/applypatch"
)

// A gitCase is a diff that git made of two sets of files, and a third set to
// apply it to: the first one, changed elsewhere or not at all.
type gitCase struct {
	diff string
	base map[string]string
}

// newGitCase makes the case of a seed.
func newGitCase(t testing.TB, git string, seed uint64) gitCase {
	r := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	old, new := map[string]string{}, map[string]string{}
	for i := range 1 + r.IntN(3) {
		name := fmt.Sprintf("d%d/f%d.txt", r.IntN(2), i)
		text := randomText(r)
		switch r.IntN(8) {
		case 0:
			new[name] = text
		case 1:
			old[name] = text
		case 2:
			old[name], new["moved/"+name] = text, mutate(r, text)
		default:
			old[name], new[name] = text, mutate(r, text)
		}
	}
	layFiles(t, filepath.Join(dir, "a"), old)
	layFiles(t, filepath.Join(dir, "b"), new)
	context := []string{"-U3", "-U3", "-U3", "-U1", "-U5"}[r.IntN(5)]
	cmd := exec.CommandContext(t.Context(), git, "-c", "core.autocrlf=false", "diff", "--no-index", "--no-color", "-M", context, "a", "b")
	cmd.Dir = dir
	out, _ := cmd.Output() // it fails when there is a difference
	// git names the folders a and b as if they were part of the paths.
	diff := strings.NewReplacer("a/a/", "a/", "b/b/", "b/", "rename from a/", "rename from ", "rename to b/", "rename to ").Replace(string(out))
	base := maps.Clone(old)
	if r.IntN(2) == 0 {
		for name, text := range base {
			base[name] = mutate(r, text)
		}
	}
	return gitCase{diff, base}
}

func layFiles(t testing.TB, dir string, files map[string]string) {
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for name, data := range files {
		write(t, filepath.Join(dir, name), data)
	}
}

// randomText returns lines of few kinds, so that many places look alike.
func randomText(r *rand.Rand) string {
	var b strings.Builder
	ends := []string{"\n", "\n", "\n", "\r\n"}
	end := ends[r.IntN(len(ends))]
	for range r.IntN(40) {
		b.WriteString(randomLine(r) + end)
	}
	if text := b.String(); r.IntN(4) == 0 {
		return strings.TrimSuffix(text, end)
	}
	return b.String()
}

func randomLine(r *rand.Rand) string {
	return []string{"", "{", "}", "\treturn", "  x = 1", "x = 1", "end", "-- a", "++ b", "@@ -1 +1 @@", "\\ no", "é", fmt.Sprint(r.IntN(30))}[r.IntN(13)]
}

// mutate changes some lines of text.
func mutate(r *rand.Rand, text string) string {
	lines := strings.SplitAfter(text, "\n")
	for range 1 + r.IntN(4) {
		i := r.IntN(len(lines))
		switch r.IntN(4) {
		case 0:
			lines[i] = ""
		case 1:
			lines[i] = randomLine(r) + "\n" + lines[i]
		case 2:
			lines[i] = randomLine(r) + "\n"
		case 3:
			lines[i] = strings.TrimSuffix(lines[i], "\n") + "\n"
		}
	}
	return strings.Join(lines, "")
}

// checkAgainstGit applies the case with git and with the tool. Where git finds
// places for all hunks, the files must be the same after; git's refusals are
// not held against the tool, which knows more ways to fit a hunk.
func checkAgainstGit(t testing.TB, git string, seed uint64) (applied bool) {
	c := newGitCase(t, git, seed)
	if c.diff == "" {
		return false
	}
	theirs, ours := t.TempDir(), t.TempDir()
	layFiles(t, theirs, c.base)
	layFiles(t, ours, c.base)
	cmd := exec.CommandContext(t.Context(), git, "apply", "--whitespace=nowarn", "-")
	cmd.Dir, cmd.Stdin = theirs, strings.NewReader(c.diff)
	// Outside of any repository, or git leaves out what is not below it.
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(theirs), "GIT_CONFIG_NOSYSTEM=1", "HOME="+theirs)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	gitErr := cmd.Run()

	t.(interface{ Chdir(string) }).Chdir(ours)
	text, isError := call(t, applypatch.Tool, patchArgs{c.diff})
	if gitErr != nil {
		if isError {
			require.Equal(t, c.base, tree(t, ours), "seed %d: a failed patch changed something", seed)
		}
		return false
	}
	require.False(t, isError, "seed %d: git applies it, but: %s\n%s", seed, text, c.diff)
	want, got := tree(t, theirs), tree(t, ours)
	if unendedContext.MatchString(c.diff) {
		// git takes the final newline of a context line away; here context stays.
		want, got = withoutLastNewline(want), withoutLastNewline(got)
	}
	require.Equal(t, want, got, "seed %d:\n%s", seed, c.diff)
	return true
}

// unendedContext is a context line that a diff says has no newline.
var unendedContext = regexp.MustCompile(`(?m)^ .*\n\\ No newline`)

func withoutLastNewline(files map[string]string) map[string]string {
	for name, data := range files {
		files[name] = strings.TrimSuffix(data, "\n")
	}
	return files
}

func lookForGit(t testing.TB) string {
	git, err := exec.LookPath("git")
	if err != nil {
		if os.Getenv("REQUIRE_GIT") == "1" {
			t.Fatal("REQUIRE_GIT=1, but there is no git")
		}
		t.Skip("there is no git")
	}
	return git
}

func TestAgreesWithGit(t *testing.T) {
	git := lookForGit(t)
	applied := 0
	const cases = 150
	for seed := range uint64(cases) {
		if checkAgainstGit(t, git, seed) {
			applied++
		}
	}
	t.Logf("git applied %d of %d", applied, cases)
	require.Greater(t, applied, cases/3, "too few cases that git applies")
}

func FuzzAgreesWithGit(f *testing.F) {
	git := lookForGit(f)
	for seed := range uint64(5) {
		f.Add(seed + 1000)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { checkAgainstGit(t, git, seed) })
}
