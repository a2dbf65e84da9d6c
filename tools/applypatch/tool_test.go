package applypatch_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/tools"
	"toolgate/tools/applypatch"
)

func write(t testing.TB, name, data string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(data), 0o644))
}

func read(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}

// updatePatch replaces one line of one file.
func updatePatch(path, old, new string) patchArgs {
	return patchArgs{fmt.Sprintf("*** Begin Patch\n*** Update File: %s\n@@\n-%s\n+%s\n*** End Patch\n", path, old, new)}
}

func must(t testing.TB, tool tools.Tool, args any) string {
	t.Helper()
	text, isError := call(t, tool, args)
	require.False(t, isError, text)
	return text
}

func mustFail(t testing.TB, tool tools.Tool, args any) string {
	t.Helper()
	text, isError := call(t, tool, args)
	require.True(t, isError, text)
	return text
}

func TestDescribe(t *testing.T) {
	const patch = `*** Begin Patch
*** Update File: a.txt
*** Move to: ../out/b.txt
@@
-a
+b
*** Add File: /abs/c.txt
+c
*** Delete File: .git/hooks/x
*** Update File: a.txt
@@
-b
+c
*** End Patch
`
	raw, err := json.Marshal(patchArgs{patch})
	require.NoError(t, err)
	a, err := applypatch.Tool.Describe(raw)
	require.NoError(t, err)
	require.Equal(t, policy.Action{
		Tool:    "apply_patch",
		Writes:  []string{"a.txt", "../out/b.txt", "/abs/c.txt", ".git/hooks/x"},
		Changes: map[string]string{"a.txt": "move away, update", "../out/b.txt": "add", "/abs/c.txt": "add", ".git/hooks/x": "delete"},
		Preview: patch,
	}, a)

	for name, bad := range map[string]string{
		"broken patch":     `{"input":"*** Begin Patch\n*** Update File: a\n"}`,
		"no input":         `{}`,
		"unknown argument": `{"patch":"x"}`,
		"not a string":     `{"input":["apply_patch"]}`,
	} {
		_, err := applypatch.Tool.Describe([]byte(bad))
		require.Error(t, err, name)
	}

	undo, diff := applypatch.New(applypatch.Options{})[1], applypatch.New(applypatch.Options{})[2]
	a, err = undo.Describe([]byte(`{"id":3}`))
	require.NoError(t, err)
	require.Equal(t, []string{"."}, a.Writes)
	require.False(t, a.ReadOnly)
	a, err = diff.Describe(nil)
	require.NoError(t, err)
	require.True(t, a.ReadOnly)
	require.Empty(t, a.Writes)
	require.Empty(t, a.Reads, "where nothing is confined, another worker would be asked")
}

// A copy leaves its source alone, so that one is not written.
func TestDescribeCopy(t *testing.T) {
	raw, err := json.Marshal(patchArgs{"diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n"})
	require.NoError(t, err)
	a, err := applypatch.Tool.Describe(raw)
	require.NoError(t, err)
	require.Equal(t, []string{"y"}, a.Writes)
	require.Equal(t, map[string]string{"y": "add"}, a.Changes)

	raw, err = json.Marshal(patchArgs{"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"})
	require.NoError(t, err)
	a, err = applypatch.Tool.Describe(raw)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"x": "update, make executable"}, a.Changes)
}

func TestUndo(t *testing.T) {
	for _, state := range []string{"", filepath.Join(t.TempDir(), "state")} {
		t.Run(fmt.Sprintf("on disk=%v", state != ""), func(t *testing.T) {
			t.Chdir(t.TempDir())
			all := applypatch.New(applypatch.Options{StateDir: state})
			apply, undo := all[0], all[1]
			require.Equal(t, "undo_patch: there is no patch to undo in this session", mustFail(t, undo, nil))
			laySix(t, ".")
			before := wholeTree(t, ".")
			must(t, apply, patchArgs{sixFiles})
			after := wholeTree(t, ".")
			must(t, apply, updatePatch("plain.txt", "TWO", "two again"))

			require.Equal(t, "Undone: step 2. Updated the following files:\nM plain.txt\nThis is step 3; undo it by its id to have the patch again.", must(t, undo, nil))
			require.Equal(t, after, wholeTree(t, "."))
			must(t, undo, nil)
			require.Equal(t, before, wholeTree(t, "."))
			requireSameFile(t, ".")
			require.Equal(t, "undo_patch: there is no patch to undo in this session", mustFail(t, undo, nil))
			require.Equal(t, "undo_patch: step 2 is undone already", mustFail(t, undo, map[string]int{"id": 2}))

			// An undo is undone by its id.
			must(t, undo, map[string]int{"id": 4})
			require.Equal(t, after, wholeTree(t, "."))
			text := mustFail(t, undo, map[string]int{"id": 9})
			require.True(t, strings.HasPrefix(text, "undo_patch: there is no step 9; the steps that can be undone are 5 ("), text)
			must(t, undo, nil) // step 1 again: its undo was undone
			require.Equal(t, before, wholeTree(t, "."))
		})
	}
}

func TestUndoRefusesWhatChanged(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	all := applypatch.New(applypatch.Options{})
	apply, undo := all[0], all[1]
	write(t, "a.txt", "one\ntwo\n")
	write(t, "gone.txt", "gone\n")
	must(t, apply, patchArgs{"*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+TWO\n*** Delete File: gone.txt\n*** Add File: new.txt\n+new\n*** End Patch\n"})
	write(t, "a.txt", "one\nTWO\nthree\n")
	write(t, "gone.txt", "another\n")
	require.NoError(t, os.Remove("new.txt"))
	before := wholeTree(t, dir)
	require.Equal(t, `undo_patch: step 1 cannot be undone:
a.txt: it was changed since (- as the patch left it, + now):
     one
     TWO
    +three
gone.txt: something else made a file there since
new.txt: it was deleted or moved since
nothing was changed; undo it by a patch of your own`, mustFail(t, undo, nil))
	require.Equal(t, before, wholeTree(t, dir))
}

// What is restored is a link again, and has its mode.
func TestUndoLinksAndModes(t *testing.T) {
	t.Chdir(t.TempDir())
	all := applypatch.New(applypatch.Options{})
	apply, undo := all[0], all[1]
	write(t, "a.sh", "a\n")
	require.NoError(t, os.Chmod("a.sh", 0o751))
	require.NoError(t, os.Symlink("a.sh", "l"))
	before := wholeTree(t, ".")
	must(t, apply, patchArgs{"*** Begin Patch\n*** Delete File: l\n*** Delete File: a.sh\n*** End Patch\n"})
	must(t, undo, nil)
	require.Equal(t, before, wholeTree(t, "."))
}

// The history of a session is bounded, in steps and in bytes; what its files
// were at first is not forgotten.
func TestHistoryIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		steps int
		bytes int64
	}{"steps": {5, 1 << 30}, "bytes": {1000, 20_000}} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			state := filepath.Join(t.TempDir(), "state")
			all := applypatch.NewBounded(applypatch.Options{StateDir: state}, tc.steps, tc.bytes)
			write(t, "a.txt", "line 0\n"+strings.Repeat("and more\n", 100))
			const steps = 30
			for i := range steps {
				must(t, all[0], updatePatch("a.txt", fmt.Sprint("line ", i), fmt.Sprint("line ", i+1)))
			}
			var size int64
			entries, err := os.ReadDir(state)
			require.NoError(t, err)
			for _, e := range entries {
				info, err := e.Info()
				require.NoError(t, err)
				size += info.Size()
			}
			require.LessOrEqual(t, len(entries), tc.steps+len([]string{"lock", "base", "base-SUM"}))
			require.LessOrEqual(t, size, tc.bytes)
			require.Equal(t, `diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,4 +1,4 @@
-line 0
+line 30
 and more
 and more
 and more
`, must(t, all[2], nil))
			require.Contains(t, mustFail(t, all[1], map[string]int{"id": 1}), "there is no step 1")
			must(t, all[1], nil)
			require.Equal(t, "line 29", strings.Split(read(t, "a.txt"), "\n")[0])
		})
	}
}

func TestTurnDiff(t *testing.T) {
	t.Chdir(t.TempDir())
	state := filepath.Join(t.TempDir(), "state")
	all := applypatch.New(applypatch.Options{StateDir: state})
	apply, undo, diff := all[0], all[1], all[2]
	require.Equal(t, "no file differs from how it was before the first patch of this session", must(t, diff, nil))
	laySix(t, ".")
	must(t, apply, patchArgs{sixFiles})
	must(t, apply, updatePatch("plain.txt", "three", "THREE"))
	const want = `diff --git a/from.txt b/from.txt
deleted file mode 100644
--- a/from.txt
+++ /dev/null
@@ -1,2 +0,0 @@
-old
-kept
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1,1 +0,0 @@
-gone
diff --git a/linked.txt b/linked.txt
--- a/linked.txt
+++ b/linked.txt
@@ -1,2 +1,3 @@
 shared
-text
+words
+and more of them
diff --git a/new/deep/added.txt b/new/deep/added.txt
new file mode 100644
--- /dev/null
+++ b/new/deep/added.txt
@@ -0,0 +1,1 @@
+added
diff --git a/new/to.txt b/new/to.txt
new file mode 100644
--- /dev/null
+++ b/new/to.txt
@@ -0,0 +1,2 @@
+new
+kept
diff --git a/plain.txt b/plain.txt
--- a/plain.txt
+++ b/plain.txt
@@ -1,3 +1,3 @@
 one
-two
-three
+TWO
+THREE
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/same.txt b/same.txt
deleted file mode 100644
--- a/same.txt
+++ /dev/null
@@ -1,1 +0,0 @@
-same
diff --git a/sub/same.txt b/sub/same.txt
new file mode 100644
--- /dev/null
+++ b/sub/same.txt
@@ -0,0 +1,1 @@
+same
`
	require.Equal(t, want, must(t, diff, nil))
	require.Equal(t, want[strings.Index(want, "diff --git a/new/deep"):strings.Index(want, "diff --git a/plain")], must(t, diff, map[string]string{"path": "new/"}))

	// The diff is a patch of its own: on the old files it makes the new ones.
	after := wholeTree(t, ".")
	t.Chdir(t.TempDir())
	laySix(t, ".")
	must(t, applypatch.Tool, patchArgs{want})
	require.Equal(t, after, wholeTree(t, "."))
	_ = undo
}

func TestTurnDiffAfterUndo(t *testing.T) {
	t.Chdir(t.TempDir())
	all := applypatch.New(applypatch.Options{})
	laySix(t, ".")
	must(t, all[0], patchArgs{sixFiles})
	must(t, all[1], nil)
	require.Equal(t, "no file differs from how it was before the first patch of this session", must(t, all[2], nil))
}

// A long diff is cut, and says how to get the rest.
func TestTurnDiffIsBounded(t *testing.T) {
	t.Chdir(t.TempDir())
	all := applypatch.New(applypatch.Options{})
	var patch strings.Builder
	patch.WriteString("*** Begin Patch\n")
	for i := range 20 {
		fmt.Fprintf(&patch, "*** Add File: f%02d.txt\n%s", i, strings.Repeat("+some line of text\n", 300))
	}
	patch.WriteString("*** Add File: huge.txt\n" + strings.Repeat("+some line of text\n", 9000) + "*** End Patch\n")
	must(t, all[0], patchArgs{patch.String()})
	text := must(t, all[2], nil)
	require.Less(t, len(text), 50_000)
	require.Contains(t, text, "more changed files are not shown; call turn_diff with path for each of: f")
	text = must(t, all[2], map[string]string{"path": "huge.txt"})
	require.Less(t, len(text), 50_000)
	require.Contains(t, text, "more lines of this file")
}

// A file that another program changes between check and write fails the whole
// patch, and its change is not lost.
func TestChangedMeanwhile(t *testing.T) {
	for _, at := range []string{"open", "rename"} {
		for name, meddle := range map[string]func(t *testing.T){
			"content":  func(t *testing.T) { write(t, "b.txt", "mine, and longer\n") },
			"same len": func(t *testing.T) { write(t, "b.txt", "mine\n") },
			"replaced": func(t *testing.T) {
				write(t, "other", "mine\n")
				require.NoError(t, os.Rename("other", "b.txt"))
			},
			"appeared": func(t *testing.T) { write(t, "new.txt", "mine\n") },
		} {
			t.Run(at+"/"+name, func(t *testing.T) {
				dir := t.TempDir()
				t.Chdir(dir)
				write(t, "a.txt", "one\n")
				write(t, "b.txt", "text\n")
				done := false
				var expect map[string]string
				tool := applypatch.NewFaulty(applypatch.Options{}, func(op, path string) error {
					if op == at && !done {
						done = true
						meddle(t)
						expect = withoutStaged(wholeTree(t, dir))
					}
					return nil
				})[0]
				text := mustFail(t, tool, patchArgs{"*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+ONE\n*** Update File: b.txt\n@@\n-text\n+TEXT\n*** Add File: new.txt\n+new\n*** End Patch\n"})
				require.True(t, done)
				require.Contains(t, text, "changed")
				require.Equal(t, expect, wholeTree(t, dir), text)
			})
		}
	}
}

func withoutStaged(files map[string]string) map[string]string {
	for name := range files {
		if strings.Contains(name, ".toolgate-") {
			delete(files, name)
		}
	}
	return files
}

// Patches of one file wait for each other: those of one session, those of sessions that
// share a state folder, and those of sessions that share a lock file. The file is rewritten
// in place, because it has two names: what two patches write at once would mix.
// APPLY_PATCH_ROUNDS is how often each writer adds and removes a line.
func TestSameFileIsSerialised(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	rounds := rounds(t, 20)
	private := t.TempDir()
	state := applypatch.Options{StateDir: filepath.Join(private, "state"), LockFile: filepath.Join(private, "lock")}
	another := state
	another.StateDir = filepath.Join(private, "another")
	shared := applypatch.New(state)
	sessions := [][]tools.Tool{shared, shared, applypatch.New(state), applypatch.New(another)}
	sessions = append(sessions, applypatch.New(applypatch.Options{LockFile: state.LockFile}))
	write(t, "a.txt", "begin\n")
	require.NoError(t, os.Link("a.txt", "b.txt"))
	before := wholeTree(t, dir)
	var wg sync.WaitGroup
	for w, session := range sessions {
		wg.Go(func() { // ends after its patches
			for i := range rounds {
				line := fmt.Sprintf("%d.%d", w, i)
				for _, lines := range []string{" begin\n+" + line, "-" + line} {
					text, isError := call(t, session[0], patchArgs{"*** Begin Patch\n*** Update File: a.txt\n@@\n" + lines + "\n*** End Patch\n"})
					assert.False(t, isError, text)
				}
				text, isError := call(t, session[2], nil)
				assert.False(t, isError, text)
			}
		})
	}
	wg.Wait()
	require.Equal(t, before, wholeTree(t, dir))
}

// rounds returns the number of rounds of a test, unless the environment asks for another.
func rounds(t testing.TB, usual int) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("APPLY_PATCH_ROUNDS"), strconv.Itoa(usual)))
	require.NoError(t, err)
	return n
}

// A call that waits for another one ends when it is cancelled, and changes nothing.
func TestCancelledWhileItWaits(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "a.txt", "one\n")
	state := filepath.Join(t.TempDir(), "state")
	ctx, cancel := context.WithCancel(t.Context())
	var same, other []tools.Tool
	same = applypatch.NewFaulty(applypatch.Options{StateDir: state}, func(op, path string) error {
		if op == "rename" && ctx.Err() == nil {
			cancel()
			for _, waits := range []tools.Tool{same[0], other[0]} {
				res := waits.Run(ctx, marshal(t, updatePatch("a.txt", "one", "three").Input))
				assert.True(t, res.IsError)
			}
		}
		return nil
	})
	other = applypatch.New(applypatch.Options{StateDir: state})
	must(t, same[0], updatePatch("a.txt", "one", "two"))
	require.Error(t, ctx.Err(), "nothing waited")
	require.Equal(t, "two\n", read(t, "a.txt"))
}

// A read-only file stays as it is, though its folder would let it be replaced.
func TestReadOnlyFile(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write any file; run as an ordinary user too")
	}
	t.Chdir(t.TempDir())
	write(t, "a.txt", "one\n")
	require.NoError(t, os.Chmod("a.txt", 0o444))
	require.Equal(t, "apply_patch: a.txt: cannot be written: permission denied; nothing was changed", mustFail(t, applypatch.Tool, updatePatch("a.txt", "one", "two")))
	require.Equal(t, "one\n", read(t, "a.txt"))
}

// A file in a folder that may not be written is rewritten in place.
func TestFolderNotWritable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write any folder; run as an ordinary user too")
	}
	t.Chdir(t.TempDir())
	write(t, "d/a.txt", "one\n")
	require.NoError(t, os.Chmod("d", 0o555))
	t.Cleanup(func() { os.Chmod("d", 0o755) })
	must(t, applypatch.Tool, updatePatch("d/a.txt", "one", "two"))
	require.Equal(t, "two\n", read(t, "d/a.txt"))
	require.Equal(t, "apply_patch: d/b.txt: cannot be written: permission denied; nothing was changed",
		mustFail(t, applypatch.Tool, patchArgs{"*** Begin Patch\n*** Add File: d/b.txt\n+b\n*** End Patch\n"}))
}

// A new file gets the mode that the umask gives.
func TestNewFileMode(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "like.txt", "")
	f, err := os.OpenFile("by-open.txt", os.O_CREATE|os.O_WRONLY, 0o666)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	must(t, applypatch.Tool, patchArgs{"*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch\n"})
	want, err := os.Stat("by-open.txt")
	require.NoError(t, err)
	got, err := os.Stat("new.txt")
	require.NoError(t, err)
	require.Equal(t, want.Mode(), got.Mode())
}

// Without a place for the record nothing is changed.
func TestStateFolderThatCannotBe(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "a.txt", "one\n")
	write(t, "file", "no folder\n")
	tool := applypatch.New(applypatch.Options{StateDir: filepath.Join("file", "state")})[0]
	require.Contains(t, mustFail(t, tool, updatePatch("a.txt", "one", "two")), "the record of changes in file/state cannot be written")
	require.Equal(t, "one\n", read(t, "a.txt"))
}

// What cannot be recovered is reported by the next patch, which is still applied.
func TestRecoveryThatFails(t *testing.T) {
	dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	laySix(t, dir)
	n := 0
	for ; ; n++ { // until a death leaves a file changed
		require.False(t, runChild(t, "apply", dir, state, n))
		if read(t, filepath.Join(dir, "plain.txt")) != "one\ntwo\nthree\n" {
			break
		}
		_, err := applypatch.Recover(t.Context(), applypatch.Options{StateDir: state})
		require.NoError(t, err)
	}
	t.Chdir(dir)
	write(t, "unrelated.txt", "one\n")
	outOfLuck := errors.New("out of luck")
	tool := applypatch.NewFaulty(applypatch.Options{StateDir: state}, func(op, path string) error {
		if op == "rename" && strings.HasPrefix(path, dir) && !strings.Contains(path, "unrelated") {
			return outOfLuck
		}
		return nil
	})[0]
	text := must(t, tool, updatePatch("unrelated.txt", "one", "two"))
	require.Contains(t, text, "Success. Updated the following files:\nM unrelated.txt\nnote: an earlier patch (A new/deep/added.txt, M plain.txt")
	require.Contains(t, text, "out of luck")
	notes, err := applypatch.Recover(t.Context(), applypatch.Options{StateDir: state})
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Equal(t, "one\ntwo\nthree\n", read(t, "plain.txt"))
	require.Equal(t, "two\n", read(t, "unrelated.txt"))
}

// A command that only applies a patch is a patch; what does anything else is none.
func TestFromCommand(t *testing.T) {
	const patch = "*** Begin Patch\n*** Add File: a.txt\n+$a\n*** End Patch\n"
	const diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-$a\n+b\n"
	for _, tc := range []struct {
		dir   string
		argv  []string
		wants string // the path that it writes, "" for a command
	}{
		{"", []string{"apply_patch", patch}, "a.txt"},
		{"sub", []string{"applypatch", patch}, "sub/a.txt"},
		{"it's", []string{"applypatch", patch}, ""},
		{"", []string{"apply_patch", patch, "x"}, ""},
		{"", []string{"cat", patch}, ""},
		{"", []string{"bash", "-lc", "apply_patch <<'EOF'\n" + patch + "EOF"}, "a.txt"},
		{"", []string{"sh", "-c", "\napply_patch <<EOF\n" + patch + "EOF\n"}, "a.txt"},
		{"sub", []string{"bash", "-c", "cd deep && apply_patch << \"X\"\n" + patch + "X\n"}, "sub/deep/a.txt"},
		{"sub", []string{"bash", "-c", "cd '/x y' && apply_patch <<'X'\n" + patch + "X\n"}, "/x y/a.txt"},
		{"", []string{"bash", "-c", "cd $HOME && apply_patch <<'X'\n" + patch + "X\n"}, ""},
		{"", []string{"bash", "-c", "cd a; apply_patch <<'X'\n" + patch + "X\n"}, ""},
		{"", []string{"bash", "-c", "rm b && apply_patch <<'X'\n" + patch + "X\n"}, ""},
		{"", []string{"bash", "-c", "apply_patch <<'X' && rm b\n" + patch + "X\n"}, ""},
		{"", []string{"bash", "-c", "apply_patch <<'X'\n" + patch + "X\nrm b\n"}, ""},
		{"", []string{"bash", "-c", "apply_patch <<'X'\n" + patch + "X\n" + patch + "X\n"}, ""},
		{"", []string{"bash", "-c", "cat <<'X' | apply_patch\n" + patch + "X\n"}, ""},
		{"", []string{"bash", "-c", "cat <<'X'\n" + patch + "X\n"}, ""},
		{"", []string{"bash", "-c", "<<'X'\n" + patch + "X\n"}, ""},
		{"", []string{"bash", "-c", "patch -p1 <<'X'\n" + diff + "X\n"}, ""},
		{"", []string{"bash", "-c", "git apply -p1 --whitespace=nowarn - <<'X'\n" + diff + "X\n"}, "a.txt"},
		{"", []string{"bash", "-c", "git apply <<X\n" + diff + "X\n"}, ""},
		{"", []string{"bash", "-c", "cd sub && git apply <<'X'\n" + diff + "X\n"}, ""},
		{"sub", []string{"bash", "-c", "git apply <<'X'\n" + diff + "X\n"}, ""},
		{"", []string{"bash", "-c", "git apply <<'X'\ndiff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+x\nX\n"}, ""},
		{"", []string{"bash", "-c", "git apply --check <<'X'\n" + diff + "X\n"}, ""},
		{"", []string{"bash", "-c", "git apply -R <<'X'\n" + diff + "X\n"}, ""},
		{"", []string{"bash", "-c", patch}, ""},
	} {
		args, ok := applypatch.FromCommand(policy.Action{Command: tc.argv, Dir: tc.dir})
		require.Equal(t, tc.wants != "", ok, "%q", tc.argv)
		if ok {
			a, err := applypatch.Tool.Describe(args)
			require.NoError(t, err, "%q", tc.argv)
			require.Equal(t, []string{tc.wants}, a.Writes, "%q", tc.argv)
		}
	}
}
