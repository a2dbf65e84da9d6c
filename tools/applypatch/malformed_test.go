package applypatch_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"toolgate/tools/applypatch"
)

// A malformedCase is a patch as models malform it. It is one section NAME/EDIT of a file
// in testdata/malformed, where EDIT names the files before and after in bases.txtar. With
// /refused it must not be applied at all. A section whose name ends in .q holds Go string
// literals, one a line.
type malformedCase struct {
	class, name string
	patch       string
	in, want    map[string]string
}

func readMalformed(t testing.TB) (classes []string, cases []malformedCase) {
	type files struct{ in, want map[string]string }
	edits := map[string]files{}
	ar, err := txtar.ParseFile("testdata/malformed/bases.txtar")
	require.NoError(t, err)
	for _, f := range ar.Files {
		parts := strings.SplitN(f.Name, "/", 3)
		e, ok := edits[parts[0]]
		if !ok {
			e = files{map[string]string{}, map[string]string{}}
			edits[parts[0]] = e
		}
		map[string]map[string]string{"in": e.in, "want": e.want}[parts[1]][parts[2]] = string(f.Data)
	}
	paths, err := filepath.Glob("testdata/malformed/*.txtar")
	require.NoError(t, err)
	for _, path := range paths {
		if filepath.Base(path) == "bases.txtar" {
			continue
		}
		ar, err := txtar.ParseFile(path)
		require.NoError(t, err)
		class := strings.TrimSpace(string(ar.Comment))
		classes = append(classes, class)
		for _, f := range ar.Files {
			name, data := f.Name, string(f.Data)
			if n, ok := strings.CutSuffix(name, ".q"); ok {
				name, data = n, unquoteLines(t, path, data)
			}
			parts := strings.Split(name, "/")
			e, ok := edits[parts[1]]
			require.True(t, ok, "%s: %s has no edit", path, name)
			if len(parts) > 2 {
				require.Equal(t, "refused", parts[2], name)
				e.want = nil
			}
			cases = append(cases, malformedCase{class, name, data, e.in, e.want})
		}
	}
	return classes, cases
}

// The form to write, which every refusal shows in some way.
const showsForm = `'\*\*\* |'@@|'[-+ ]'|--- a/|most like it is lines?|at lines?|leave that file out|did you mean`

// At least 85 % of the malformed patches do what was meant, the others nothing. The
// documentation has the numbers, those of Codex too.
func TestMalformed(t *testing.T) {
	classes, cases := readMalformed(t)
	doc, err := os.ReadFile("../../docs/apply_patch.md")
	require.NoError(t, err)
	type count struct{ all, meant, refused, other int }
	ours, theirs := map[string]*count{}, map[string]*count{}
	for _, class := range append(classes, "all") {
		ours[class], theirs[class] = &count{}, &count{}
	}
	tally := func(counts map[string]*count, c *malformedCase, dir string) (other bool) {
		got := tree(t, dir)
		meant := c.want != nil && maps.Equal(got, c.want)
		other = !meant && !maps.Equal(got, c.in)
		for _, n := range []*count{counts[c.class], counts["all"]} {
			n.all++
			switch {
			case meant:
				n.meant++
			case other:
				n.other++
			default:
				n.refused++
			}
		}
		return other
	}
	oracle := os.Getenv("APPLY_PATCH_ORACLE")
	var texts strings.Builder // all answers
	for _, c := range cases {
		t.Run(c.class+"/"+c.name, func(t *testing.T) {
			dir := t.TempDir()
			layFiles(t, dir, c.in)
			t.Chdir(dir)
			text, isError := call(t, applypatch.Tool, patchArgs{c.patch})
			require.False(t, tally(ours, &c, dir), "%s\nleft %q", text, tree(t, dir))
			require.Equal(t, isError, maps.Equal(tree(t, dir), c.in), text)
			texts.WriteString(text + "\n")
			if isError {
				require.Regexp(t, showsForm, text)
			}
			if oracle != "" {
				dir := t.TempDir()
				layFiles(t, dir, c.in)
				cmd := exec.CommandContext(t.Context(), oracle, c.patch)
				cmd.Dir = dir
				_ = cmd.Run() // its refusals are counted by what it leaves
				tally(theirs, &c, dir)
			}
		})
	}
	n := ours["all"]
	require.GreaterOrEqual(t, n.all, 300)
	require.GreaterOrEqual(t, float64(n.meant)/float64(n.all), 0.85)
	for _, class := range append(classes, "all") {
		n, m := ours[class], theirs[class]
		row := fmt.Sprintf("| %s | %d | %d | %d | ", class, n.all, n.meant, n.refused)
		if oracle != "" {
			row += fmt.Sprintf("%d | %d | %d |", m.meant, m.refused, m.other)
		}
		require.True(t, strings.Contains(string(doc), "\n"+row), "docs/apply_patch.md lacks: %s", row)
	}
	for _, note := range applypatch.LeniencyNotes() {
		require.Contains(t, texts.String(), note, "no case needs this")
	}
}

// What can be read strictly is, whatever else it looks like.
func TestStrictReadingWins(t *testing.T) {
	const update = "*** Begin Patch\n*** Update File: a.txt\n"
	everything := "\ufeff*** begin patch\n```diff\n{\"input\": \"*** Begin Patch\\n\"}\napply_patch <<'EOF'\n    *** Begin Patch\n" +
		"*** Create File: `b.txt`\n*** End Patch\nEOF\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n...\n--- a/b.txt\n+++ b/b.txt\n```\n"
	for name, tc := range map[string]struct{ patch, before, after string }{
		"new file":    {"*** Begin Patch\n*** Add File: a.txt\n+" + strings.ReplaceAll(strings.TrimSuffix(everything, "\n"), "\n", "\n+") + "\n*** End Patch\n", "", everything},
		"numbers":     {update + "@@\n-L1: a\n+L1: b\n*** End Patch\n", "L1: a\n", "L1: b\n"},
		"number @@":   {update + "@@ 2\n-a\n+b\n*** End Patch\n", "a\n2\na\n", "a\n2\nb\n"},
		"names":       {update + "--- a.txt\n+++ a.txt\n@@\n-c\n+d\n*** End Patch\n", "-- a.txt\nc\n", "++ a.txt\nd\n"},
		"blank hunk":  {update + "\n@@\n-a\n+b\n*** End Patch\n", "\na\n", "\nb\n"},
		"context":     {update + "@@\n  a\n -b\n +c\n*** End Patch\n", " a\n-b\n+c\n", " a\n-b\n+c\n"},
		"first match": {update + "@@\n-a\n+b\n*** End of File\n*** End Patch\n", "a\na\n", "a\nb\n"},
		"dots":        {update + "@@\n ...\n-a\n+b\n*** End Patch\n", "a\n...\na\n", "a\n...\nb\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if tc.before != "" {
				write(t, "a.txt", tc.before)
			}
			require.NotContains(t, must(t, applypatch.Tool, patchArgs{tc.patch}), "note:")
			require.Equal(t, map[string]string{"a.txt": tc.after}, tree(t, "."))
		})
	}
	t.Run("path", func(t *testing.T) {
		t.Chdir(t.TempDir())
		write(t, "a/a.txt", "a\n")
		write(t, "a.txt", "a\n")
		must(t, applypatch.Tool, updatePatch("a/a.txt", "a", "b"))
		require.Equal(t, map[string]string{"a/a.txt": "b\n", "a.txt": "a\n"}, tree(t, "."))
	})
}

// The errors that models met most often say what to write.
func TestErrorsSayWhatToDo(t *testing.T) {
	const form = "write '*** Begin Patch', then '*** Update File: PATH', '@@', lines that begin with ' ' (context), " +
		"'-' (removed) or '+' (added), and at last '*** End Patch'"
	const update = "*** Begin Patch\n*** Update File: "
	t.Chdir(t.TempDir())
	write(t, "web/app.js", "import { api } from \"./api.js\";\n\nexport function load(id) {\n  return api.get(id);\n}\n\nfunction g() {\n}\n")
	wd, err := os.Getwd()
	require.NoError(t, err)
	for name, tc := range map[string]struct{ patch, want string }{
		"text after the end": {update + "web/app.js\n@@\n-a\n+b\n*** End Patch\n@@\n-c\n+d\n",
			`invalid patch: line 7: text after '*** End Patch': "@@"; leave it out, and put each file's changes above that line`},
		"literal line breaks": {`*** Begin Patch\n*** Update File: web/app.js\n@@\n-\d\n+\w\n*** End Patch`,
			`invalid patch: line 1: it holds literal \n in place of line breaks; send real ones: ` + strings.TrimPrefix(form, "write ")},
		"search": {"<<<<<<< SEARCH\n  return api.get(id);\n=======\n  return 1;\n>>>>>>> REPLACE\n",
			"invalid patch: replacements of strings are no patch; " + form},
		"old_string": {`{"old_string": "api", "new_string": "API"}`,
			"invalid patch: replacements of strings are no patch; " + form},
		"folder too many":    {update + "src/web/app.js\n@@\n-a\n+b\n*** End Patch\n", "did you mean web/app.js?"},
		"no such file":       {update + "c.js\n@@\n-a\n+b\n*** End Patch\n", "correct the path, or write '*** Add File: c.js' with '+' lines"},
		"one letter":         {update + "web/apps.js\n@@\n-a\n+b\n*** End Patch\n", "did you mean web/app.js?"},
		"lost its slash":     {update + strings.TrimPrefix(filepath.ToSlash(wd), "/") + "/web/app.js\n@@\n-a\n+b\n*** End Patch\n", "did you mean " + filepath.Join(wd, "web", "app.js") + "?"},
		"unsigned line":      {"--- a/web/app.js\n+++ b/web/app.js\n@@ -3,3 +3,3 @@\nsome text\n\n+x\n\nand more\n\n\n+  return 1;\n", "web/app.js: hunk 1"},
		"line without end":   {update + "web/app.js\n@@\n-export function\n+x\n*** End Patch\n", "most like it is line 3 (- the patch, + the file):\n    -export function\n    +export function load(id) {"},
		"whole file as plus": {update + "web/app.js\n@@\n" + "+" + strings.ReplaceAll(strings.TrimSpace(strings.ReplaceAll(read(t, "web/app.js"), "load", "get")), "\n", "\n+") + "\n*** End Patch\n", "the '+' lines repeat 5 of the 6 lines of the file and would go to its end; put '-' before lines to replace and ' ' before lines to keep, or write '*** Delete File: web/app.js' and then '*** Add File: web/app.js'"},
		"two places":         {"*** Update File: web/app.js\n@@ line 3\n-}\n+};\n*** End Patch\n", "is ambiguous: its lines are there 2 times, at lines 5 and 8; add lines of context"},
		"diff, then codex":   {"--- a/web/app.js\n+++ b/web/app.js\n@@ -5,1 +5,1 @@\n-}\n+};\n*** Delete File: x\n", `"*** Delete File: x" stands below a unified diff; write all files in one form: '*** Update File: PATH', or '--- a/PATH' and '+++ b/PATH'`},
	} {
		t.Run(name, func(t *testing.T) {
			before := tree(t, ".")
			require.Contains(t, mustFail(t, applypatch.Tool, patchArgs{tc.patch}), tc.want)
			require.Equal(t, before, tree(t, "."))
		})
	}
}
