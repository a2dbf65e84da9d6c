package ignore_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/ignore"
)

// needGit returns the git program, or skips the test.
func needGit(t testing.TB) string {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		if os.Getenv("REQUIRE_GIT") != "" {
			t.Fatal("REQUIRE_GIT is set, but there is no git program")
		}
		t.Skip("no git program")
	}
	return git
}

// tree is files whose names patterns can tell apart.
var tree = []string{
	"a", "b", "ab", "ba", "aab", "a.b", "a.c", ".a", ".b.c", "A", "a b", "b ", "#a", "!a", "[a]", "{a,b}", "a-c", "]", "^", `a\b`, "é",
	"d/a", "d/b", "d/a.c", "d/.a", "d/ab/a", "d/ab/b.c", "d/ab/d/a", "d/ab/d/d/b", "ab.d/a", "ab.d/d/a", "c/c/c/c", "c/c/a", "c/d/c/a.b",
}

// FuzzGit compares with git check-ignore, on a repository with patterns at its
// top and in folder d, and in info/exclude.
func FuzzGit(f *testing.F) {
	git := needGit(f)
	for _, s := range [][3]string{
		{"a\n", "", ""},
		{"*.c\n!a.c\n", "a.c\n", ".b.c"},
		{"d/\n", "!a\n", ""},
		{"**/d/**\n", "/a\n", "c"},
		{"/*\n!/d\n", "*\n!ab/\n", ""},
		{"a**b\n[!a]*\n", "[[:alpha:]]\n", ""},
		{"\\#a\n\\!a\nb\\ \na b\n", "a/**/a\n", ""},
		{"{a,b}\n[a-\n", "?b\r\n", "[]-]"},
		{"c/**/c\n!c/c/\n", "**\n", "a\\\\b"},
	} {
		f.Add(s[0], s[1], s[2], false)
	}
	f.Add("0123456789", "abcdefghij", "klmnopqrst", true)
	dir := f.TempDir()
	for _, name := range tree {
		write(f, dir, map[string]string{name: ""})
	}
	env := append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "HOME="+dir, "XDG_CONFIG_HOME="+dir)
	run := func(t testing.TB, stdin string, args ...string) string {
		cmd := exec.Command(git, args...)
		cmd.Dir, cmd.Env, cmd.Stdin = dir, env, strings.NewReader(stdin)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 1 {
			return "" // nothing is ignored
		}
		require.NoError(t, err, "%s", stderr.String())
		return string(out)
	}
	run(f, "", "init", "-q", "--template=", ".")

	f.Fuzz(func(t *testing.T, top, sub, exclude string, spelled bool) {
		if spelled {
			top, sub, exclude = spell(top), spell(sub), spell(exclude)
		}
		if strings.Contains(top+sub+exclude, "\x00") {
			t.Skip("git stops at a NUL")
		}
		write(t, dir, map[string]string{".gitignore": top, "d/.gitignore": sub, ".git/info/exclude": exclude})
		ignored := map[string]bool{}
		for name := range strings.SplitSeq(run(t, strings.Join(tree, "\x00"), "check-ignore", "--no-index", "-z", "--stdin"), "\x00") {
			ignored[name] = true
		}
		root := ignore.Root(dir, ignore.Git)
		for _, name := range tree {
			require.Equal(t, ignored[name], leftOut(root, name), "%q with %q, d: %q, exclude: %q", name, top, sub, exclude)
		}
	})
}

// leftOut walks to path as a listing would.
func leftOut(d *ignore.Dir, path string) bool {
	name, rest, deeper := strings.Cut(filepath.ToSlash(path), "/")
	if d.Match(name, deeper) == ignore.Ignored {
		return true
	}
	return deeper && leftOut(d.Enter(name, nil), rest)
}

// spell makes patterns of any bytes, out of what matters in patterns.
func spell(s string) string {
	pieces := []string{
		"a", "b", "c", "d", "a", "*", "**", "/", "?", "[", "]", "!", "-", "^", "\\", " ", "\n", "\n", "#", ".", "{", "}", ",", "**/", "/**", "[ab]", "[!a]", "[:alpha:]", "\n!", "\r", "\t", "é",
	}
	var b strings.Builder
	for i := range len(s) {
		b.WriteString(pieces[int(s[i])%len(pieces)])
	}
	return b.String()
}
