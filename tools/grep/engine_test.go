package grep_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/unicode"

	"toolgate/tools/grep"
)

// Kinds of files that match, and how they are shown.
func TestKinds(t *testing.T) {
	utf16, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String("one\nneedle é\n")
	require.NoError(t, err)
	far := strings.Repeat("x\n", 40_000) // more than is read at a time
	for _, test := range []struct {
		name, content string
		want          string // in output mode content; "" for no match
		wantNamed     string // the same when the path is the file; "" as want
	}{
		{"text", "needle", "1:needle", ""},
		{"bom", "\ufeffneedle", "1:needle", ""},
		{"utf16", utf16, "2:needle é", ""},
		{"latin1", "caf\xe9 needle", "1:caf\ufffd needle", ""},
		{"nul behind", "needle\n\x00", "", "1:needle"},
		{"nul before", "a\x00\nneedle\n", "", "3:needle"},
		{"nul far behind", "needle\n" + far + "\x00", "1:needle", ""},
		{"far", far + "needle", "40001:needle", ""},
		{"crlf", "needle\r\n", "1:needle", ""},
		{"long line", "needle" + strings.Repeat("x", 600), "1:needle" + strings.Repeat("x", 494) + " … (106 more bytes)", ""},
		{"far in a line", strings.Repeat("x", 200_000) + "needle!" + strings.Repeat("y", 200), "1:(199606 bytes) … " + strings.Repeat("x", 394) + "needle!" + strings.Repeat("y", 99) + " … (101 more bytes)", ""},
		{"empty", "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			require.NoError(t, os.WriteFile("f", []byte(test.content), 0o644))
			for path, want := range map[string]string{"": test.want, "f": test.wantNamed} {
				if path == "f" && want == "" {
					want = test.want
				}
				if want != "" {
					want = "f\n" + want
				} else {
					want = "No matches found."
				}
				res := call(t, map[string]any{"pattern": "needle", "path": path, "output_mode": "content"})
				require.False(t, res.IsError)
				require.Equal(t, want, text(res), "path %q", path)
			}
		})
	}
}

// Links are not followed, and only regular files are opened.
func TestOddFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links and odd names are of Unix")
	}
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("d", 0o755))
	require.NoError(t, os.WriteFile("d/f", []byte("needle"), 0o644))
	require.NoError(t, os.Symlink("d", "link to folder"))
	require.NoError(t, os.Symlink("d/f", "link to file"))
	require.NoError(t, os.Symlink(".", "d/loop"))
	require.NoError(t, os.WriteFile("d/a\nb", []byte("needle"), 0o644))
	age := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	require.NoError(t, os.Chtimes("d/f", age, age))
	for path, want := range map[string]string{
		"":               "\"d/a\\nb\"\nd/f",
		"link to folder": "\"link to folder/a\\nb\"\nlink to folder/f",
		"link to file":   "link to file",
	} {
		require.Equal(t, want, text(call(t, map[string]any{"pattern": "needle", "path": path})))
	}
}

// Files with equal times are sorted by path, and the newest of many are kept.
func TestOrder(t *testing.T) {
	t.Chdir(t.TempDir())
	const n = 300
	age := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		name := fmt.Sprintf("f%03d", i)
		require.NoError(t, os.WriteFile(name, []byte("needle"), 0o644))
		at := age.Add(time.Duration(i/10) * time.Nanosecond)
		require.NoError(t, os.Chtimes(name, at, at))
	}
	got := text(call(t, map[string]any{"pattern": "needle", "limit": 12}))
	require.Equal(t, "f290\nf291\nf292\nf293\nf294\nf295\nf296\nf297\nf298\nf299\nf280\nf281\n\n"+
		"Note: files 1 to 12 of 300 shown, the newest first; continue with offset 13, or search for less.", got)
}

// No result is longer than a client takes.
func TestLong(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := strings.Repeat("d", 200)
	require.NoError(t, os.Mkdir(dir, 0o755))
	line := strings.Repeat("needle ", 60) + "\n"
	for i := range 500 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(line), 0o644))
	}
	for mode, want := range map[string]string{
		"files":   " of 500 shown, the newest first; continue with offset ",
		"count":   " of 500 shown, the newest first; continue with offset ",
		"content": " of 500 files; continue with offset ",
	} {
		got := text(call(t, map[string]any{"pattern": "needle", "limit": 2000, "output_mode": mode}))
		require.LessOrEqual(t, len(got), 40_300)
		require.Greater(t, len(got), 39_000)
		require.Contains(t, got, want, mode)
	}
}

func TestStopped(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("f", []byte("needle"), 0o644))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res := grep.Tool.Run(ctx, json.RawMessage(`{"pattern":"needle"}`))
	require.True(t, res.IsError)
	require.Equal(t, "grep_files: context canceled", text(res))

	ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	res = grep.Tool.Run(ctx, json.RawMessage(`{"pattern":"needle"}`))
	require.False(t, res.IsError)
	require.Contains(t, text(res), "Note: stopped after 30 seconds, so files are missing here")
}

func TestUnreadable(t *testing.T) {
	if os.Getuid() == 0 || runtime.GOOS == "windows" {
		t.Skip("root reads everything")
	}
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("f", []byte("needle"), 0o644))
	require.NoError(t, os.WriteFile("g", []byte("needle"), 0o000))
	require.NoError(t, os.Mkdir("shut", 0o000))
	require.Equal(t, "f\n\nNote: 2 files or folders could not be read.", text(grep.Tool.Run(t.Context(), json.RawMessage(`{"pattern":"needle"}`))))
	require.Equal(t, "grep_files: g: permission denied by its owner and mode; choose another path", text(grep.Tool.Run(t.Context(), json.RawMessage(`{"pattern":"needle","path":"g"}`))))
	require.Equal(t, "grep_files: shut: permission denied by its owner and mode; choose another path", text(grep.Tool.Run(t.Context(), json.RawMessage(`{"pattern":"needle","path":"shut"}`))))
}

// FuzzTree compares the files that our own engine and rg search, under lists
// of ignored files and an include glob.
func FuzzTree(f *testing.F) {
	rg := needRipgrep(f)
	for _, s := range [][4]string{
		{"a\n", "", "", ""},
		{"*.c\n!a.c\n", "!b.c", "a.c\n", "*.c"},
		{"d/\n", "", "!a\n", "!a"},
		{"**/d/**\n", "/a\n", "", "**/a"},
		{"/*\n!/d\n", "", "*\n!ab/\n", "d/**"},
		{"!.b.c\n[!a]*\n", "{a,b}\n", "", "{a,b}"},
		{"a**b", "", "", "d/*.{c,b}"},
	} {
		f.Add(s[0], s[1], s[2], s[3], false)
	}
	f.Add("0123456789", "abcdefghij", "klmnopqrst", "xy", true)
	dir := f.TempDir()
	put := func(t testing.TB, name, content string) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	for _, name := range []string{
		".git/HEAD", "a", "b", "ab", "ba", "a.b", "a.c", ".a", ".b.c", "a b", "d/a", "d/b", "d/a.c", "d/.a", "d/ab/a", "d/ab/b.c", "d/ab/d/a", "ab.d/a", "ab.d/d/a", "c/c/c/c", "c/c/a", "c/d/c/a.b", ".d/a", "d/r/.git/HEAD", "d/r/a", "d/r/b.c",
	} {
		put(f, name, "needle")
	}
	f.Fuzz(func(t *testing.T, top, other, sub, include string, spelled bool) {
		if spelled {
			top, other, sub, include = spell(top, globPieces), spell(other, globPieces), spell(sub, globPieces), spell(include, globPieces)
		}
		if strings.ContainsAny(include, "\x00\n") || strings.Contains(include, "{") {
			t.Skip("braces within braces are refused by older versions")
		}
		if strings.ContainsAny(top+other+sub, "\x00{}") || !isASCII(top+other+sub+include) {
			t.Skip("likewise")
		}
		for l := range strings.SplitSeq(top+"\n"+other+"\n"+sub+"\n"+include, "\n") {
			if l = strings.TrimSpace(l); l == "!" || l == "/" || l == "!/" {
				t.Skip("a pattern of nothing: git passes over it, to ripgrep it is everything")
			}
		}
		put(t, ".gitignore", top)
		put(t, ".ignore", other)
		put(t, "d/.gitignore", sub)
		t.Chdir(dir)
		what := fmt.Sprintf(".gitignore %q, .ignore %q, d/.gitignore %q, include %q", top, other, sub, include)
		want, ok := filesOf(t, rg, include)
		res := call(t, map[string]any{"pattern": "needle", "include": include})
		if !ok || res.IsError {
			t.Skip("which globs are malformed is not agreed on")
		}
		got := strings.Split(text(res), "\n")
		if text(res) == "No matches found." {
			got = nil
		}
		require.ElementsMatch(t, want, got, what)
	})
}

// filesOf returns the files below the working folder in which rg finds "needle".
// Ok is false when rg refuses the glob include.
func filesOf(t *testing.T, rg, include string) (files []string, ok bool) {
	t.Helper()
	rgArgs := []string{"--no-ignore-global", "--files-with-matches", "--null", "-e", "needle"}
	if include != "" {
		glob := strings.TrimSpace(include)
		if strings.HasPrefix(glob, "#") {
			glob = `\` + glob // to ripgrep it would be a comment
		}
		rgArgs = append(rgArgs, "--glob", glob)
	}
	out, ok := run(t, rg, ".", append(rgArgs, "--", ".")...)
	for name := range strings.SplitSeq(out, "\x00") {
		if ok && name != "" {
			files = append(files, strings.TrimPrefix(name, "./"))
		}
	}
	return files, ok
}

var globPieces = []string{
	"a", "b", "c", "d", "a", "*", "**", "/", "?", "[", "]", "!", "-", "\\", " ", "#", ".", "**/", "/**", "[ab]", "[!a]", "\n", "\n!", "\n", "r", "x",
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// On ASCII our own engine finds the lines that package regexp finds.
func TestRegexp(t *testing.T) {
	t.Chdir(t.TempDir())
	tried := 0
	for seed := range uint64(700) {
		r := rand.New(rand.NewPCG(seed, 7))
		expr := randomExpr(r, 3)
		if strings.Contains(expr, `\n`) || strings.Contains(expr, `\A`) || strings.Contains(expr, `\z`) {
			continue
		}
		lines := strings.Split(strings.Map(func(r rune) rune {
			if r >= 0x80 {
				return 'k'
			}
			return r
		}, randomText(r)), "\n")
		re := regexp.MustCompile(expr)
		var want []string
		for i, l := range lines {
			if i == len(lines)-1 && l == "" {
				break // behind the last line end
			}
			if re.MatchString(l) {
				want = append(want, fmt.Sprintf("%d:%s", i+1, l))
			}
		}
		require.NoError(t, os.WriteFile("f", []byte(strings.Join(lines, "\n")), 0o644))
		got := text(call(t, map[string]any{"pattern": expr, "output_mode": "content", "limit": 2000}))
		if want == nil {
			require.True(t, strings.HasPrefix(got, "No matches found."), "%q in %q: %s", expr, lines, got)
			continue
		}
		require.Equal(t, "f\n"+strings.Join(want, "\n"), got, "%q in %q", expr, lines)
		tried++
	}
	require.Greater(t, tried, 200)
}

// An expression that has no end of states takes no memory without end, and is
// given up when the time is over.
func TestManyStates(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	content := make([]byte, 1<<17)
	for i := range content {
		content[i] = "ab"[r.IntN(2)]
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	require.Negative(t, grep.Find("[ab]*a[ab]{100}c", content, func() bool { return false }))
	runtime.ReadMemStats(&after)
	require.Less(t, after.HeapSys, before.HeapSys+64<<20) // without a bound it is more

	asked := 0
	require.Negative(t, grep.Find("[ab]*a[ab]{100}c", content, func() bool { asked++; return asked == 3 }))
	require.Equal(t, 3, asked)
	require.Positive(t, grep.Find("[ab]*a[ab]{100}", content, func() bool { return false }))
}
