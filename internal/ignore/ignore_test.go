package ignore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/ignore"
)

func TestMatch(t *testing.T) {
	const ignored, included, none = ignore.Ignored, ignore.Included, ignore.None
	for _, test := range []struct {
		patterns, path string
		dir            bool
		want           ignore.Verdict
	}{
		{"a", "a", false, ignored},
		{"a", "x/y/a", false, ignored},
		{"a", "ab", false, none},
		{"/a", "a", false, ignored},
		{"/a", "x/a", false, none},
		{"x/a", "x/a", false, ignored},
		{"x/a", "y/x/a", false, none},
		{"a/", "a", true, ignored},
		{"a/", "a", false, none},
		{"a/", "x/a", true, ignored},
		{"*.o", "x/y.o", false, ignored},
		{"*.o", "x/.o", false, ignored},
		{"x/*.o", "x/y.o", false, ignored},
		{"x/*.o", "x/y/z.o", false, none},
		{"**/a", "a", false, ignored},
		{"**/a", "x/y/a", false, ignored},
		{"a/**", "a/x/y", false, ignored},
		{"a/**", "a", true, none},
		{"a/**/b", "a/b", false, ignored},
		{"a/**/b", "a/x/y/b", false, ignored},
		{"a**b", "axb", false, ignored},
		{"x/?**b", "x/a/b", false, none},
		{"x/a**b", "x/a/b", false, none},
		{"a**/**", "ab.d", true, ignored}, // all before the first ** is literal
		{"a\n!a", "a", false, included},
		{"!a\na", "a", false, ignored},
		{"*\n!*.go", "x.go", false, included},
		{"# a", "# a", false, none},
		{`\#a`, "#a", false, ignored},
		{`\!a`, "!a", false, ignored},
		{"a ", "a", false, ignored},
		{`a\ `, "a ", false, ignored},
		{"a\r\nb", "a", false, ignored},
		{"\ufeffa", "a", false, ignored},
		{"[ab]c", "bc", false, ignored},
		{"[!ab]c", "bc", false, none},
		{"[^ab]c", "xc", false, ignored},
		{"[a-c]", "b", false, ignored},
		{"[]a]", "]", false, ignored},
		{"[[:digit:]]", "7", false, ignored},
		{"x[/]a", "x/a", false, none},
		{"[a", "[a", false, none},
		{`a\`, "a", false, none},
		{"?", "a", false, ignored},
		{"x?a", "x/a", false, none},
		{"{a,b}", "a", false, none},
		{"{a,b}", "{a,b}", false, ignored},
		{"", "a", false, none},
		{"/", "a", false, none},
		{"!", "a", false, none},
	} {
		require.Equal(t, test.want, ignore.Parse(test.patterns, ignore.Git).Match(test.path, test.dir), "%q on %s", test.patterns, test.path)
	}
}

func TestGlob(t *testing.T) {
	for _, test := range []struct {
		glob, path string
		want       ignore.Verdict
	}{
		{"*.{ts,tsx}", "a/b.tsx", ignore.Ignored},
		{"*.{ts,tsx}", "a/b.ts", ignore.Ignored},
		{"*.{ts,tsx}", "a/b.tsy", ignore.None},
		{"{a,b/{c,d}}/x", "b/d/x", ignore.Ignored},
		{`\{a,b\}`, "{a,b}", ignore.Ignored},
		{"[{]a", "{a", ignore.Ignored},
		{"!*.go", "a.go", ignore.Included},
		{"[!a][!a]b", "a/b", ignore.None},
		{"[!a][!a]b", "c/b", ignore.Ignored},
	} {
		l, err := ignore.ParseGlob(test.glob)
		require.NoError(t, err)
		require.Equal(t, test.want, l.Match(test.path, false), "%q on %s", test.glob, test.path)
	}
	for _, bad := range []string{"[a", "{a", "a}", `a\`, "[[:nope:]]", strings.Repeat("{a,b}", 12)} {
		_, err := ignore.ParseGlob(bad)
		require.Error(t, err, bad)
	}
}

// A pattern of many stars does not backtrack.
func TestManyStars(t *testing.T) {
	l := ignore.Parse(strings.Repeat("*a", 40)+"*b", ignore.Git)
	require.Equal(t, ignore.None, l.Match(strings.Repeat("a", 250), false))
	l = ignore.Parse(strings.Repeat("**/a/", 40)+"b", ignore.Git)
	require.Equal(t, ignore.None, l.Match(strings.Repeat("a/", 120)+"c", false))
}

// write makes files below dir.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

func TestDir(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		".gitignore":                         "outside",
		"repo/.git/HEAD":                     "",
		"repo/.git/info/exclude":             "excluded",
		"repo/.gitignore":                    "*.o\n!keep.o\n/sub/deep",
		"repo/.ignore":                       "!b.o",
		"repo/sub/.gitignore":                "keep.o\n!a.o",
		"tree/.git":                          "gitdir: ../repo/.git/worktrees/tree\n",
		"repo/.git/worktrees/tree/commondir": "../..\n",
	})
	root := ignore.Root(filepath.Join(dir, "repo"), ignore.Git)
	sub := root.Enter("sub", nil)
	rg := ignore.Root(filepath.Join(dir, "repo"), ignore.Ripgrep)
	for _, test := range []struct {
		dir  *ignore.Dir
		name string
		want ignore.Verdict
	}{
		{root, "a.o", ignore.Ignored},
		{root, "keep.o", ignore.Included},
		{root, "excluded", ignore.Ignored},
		{root, "outside", ignore.None}, // what is above a repository is not its business
		{root, "b.o", ignore.Ignored},  // git does not know .ignore
		{sub, "a.o", ignore.Included},
		{sub, "b.o", ignore.Ignored},
		{sub, "keep.o", ignore.Ignored},
		{sub, "deep", ignore.Ignored},
		{ignore.Root(filepath.Join(dir, "repo", "sub"), ignore.Git), "deep", ignore.Ignored},
		{ignore.Root(filepath.Join(dir, "tree"), ignore.Git), "excluded", ignore.Ignored},
		{rg, "b.o", ignore.Included},
		{rg.Enter("sub", nil), "b.o", ignore.Included},
		{rg, "a.o", ignore.Ignored},
		{ignore.Root(dir, ignore.Git), "outside", ignore.Ignored},
		{ignore.Root(dir, ignore.Ripgrep), "outside", ignore.None}, // no repository
	} {
		require.Equal(t, test.want, test.dir.Match(test.name, false), test.name)
	}
}
