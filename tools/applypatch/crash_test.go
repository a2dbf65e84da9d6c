package applypatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"toolgate/tools/applypatch"
)

// sixFiles is a patch that does all that a patch can do: it changes a file,
// one with two names, one's mode, moves one with a change and one without,
// creates one in a new folder and deletes one.
const sixFiles = `diff --git a/plain.txt b/plain.txt
--- a/plain.txt
+++ b/plain.txt
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
diff --git a/linked.txt b/linked.txt
--- a/linked.txt
+++ b/linked.txt
@@ -1,2 +1,3 @@
 shared
-text
+words
+and more of them
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/from.txt b/new/to.txt
rename from from.txt
rename to new/to.txt
--- a/from.txt
+++ b/new/to.txt
@@ -1,2 +1,2 @@
-old
+new
 kept
diff --git a/same.txt b/sub/same.txt
rename from same.txt
rename to sub/same.txt
diff --git a/new/deep/added.txt b/new/deep/added.txt
new file mode 100644
--- /dev/null
+++ b/new/deep/added.txt
@@ -0,0 +1 @@
+added
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
`

// laySix makes the files that sixFiles changes.
func laySix(t testing.TB, dir string) {
	for name, data := range map[string]string{
		"plain.txt": "one\ntwo\nthree\n", "linked.txt": "shared\ntext\n", "run.sh": "true\n",
		"from.txt": "old\nkept\n", "same.txt": "same\n", "gone.txt": "gone\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
	}
	require.NoError(t, os.Link(filepath.Join(dir, "linked.txt"), filepath.Join(dir, "other-name.txt")))
}

// wholeTree returns every file below dir with its content and mode, every link
// and every folder.
func wholeTree(t testing.TB, dir string) map[string]string {
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			files[name+"/"] = ""
			return nil
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			files[name], err = os.Readlink(path)
			return err
		}
		data, err := os.ReadFile(path)
		files[name] = info.Mode().String() + "\n" + string(data)
		return err
	}))
	return files
}

// oldAndNew returns the tree before and after sixFiles.
func oldAndNew(t *testing.T) (before, after map[string]string) {
	dir := t.TempDir()
	laySix(t, dir)
	before = wholeTree(t, dir)
	t.Chdir(dir)
	text, isError := call(t, applypatch.Tool, patchArgs{sixFiles})
	require.False(t, isError, text)
	after = wholeTree(t, dir)
	require.NotContains(t, fmt.Sprint(slicesOf(after)), "toolgate", "a staged file was left")
	return before, after
}

func slicesOf(m map[string]string) []string {
	var keys []string
	for k := range maps.Keys(m) {
		keys = append(keys, k)
	}
	return keys
}

// dieAt returns a fault that kills the process before change n.
func dieAt(n int) func(op, path string) error {
	return func(op, path string) error {
		if n--; n < 0 {
			p, _ := os.FindProcess(os.Getpid())
			p.Kill()
			select {} // until the signal is there
		}
		return nil
	}
}

// Environment of the child processes of these tests.
const (
	childDir   = "APPLYPATCH_TEST_DIR"
	childState = "APPLYPATCH_TEST_STATE"
	childDie   = "APPLYPATCH_TEST_DIE_AT"
	childTask  = "APPLYPATCH_TEST_TASK"
)

func TestMain(m *testing.M) {
	if os.Getenv(childTask) != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

// child applies sixFiles, undoes it or recovers, and dies at the change it is
// told to.
func child() int {
	n, err := strconv.Atoi(os.Getenv(childDie))
	if err == nil {
		err = os.Chdir(os.Getenv(childDir))
	}
	if err != nil {
		panic(err)
	}
	state := os.Getenv(childState)
	switch os.Getenv(childTask) {
	case "apply":
		args, _ := json.Marshal(patchArgs{sixFiles})
		tool := applypatch.NewFaulty(applypatch.Options{StateDir: state}, dieAt(n))[0]
		if res := tool.Run(context.Background(), args); res.IsError {
			fmt.Println(res.Content[0].(*mcp.TextContent).Text)
			return 1
		}
	case "many":
		args, _ := json.Marshal(patchArgs{manyFiles})
		die := dieAt(n)
		tool := applypatch.NewFaulty(applypatch.Options{StateDir: state}, func(op, path string) error {
			if op == "rename" && strings.HasSuffix(path, ".txt") {
				return die(op, path)
			}
			return nil
		})[0]
		if res := tool.Run(context.Background(), args); res.IsError {
			fmt.Println(res.Content[0].(*mcp.TextContent).Text)
			return 1
		}
	case "undo":
		tool := applypatch.NewFaulty(applypatch.Options{StateDir: state}, dieAt(n))[1]
		if res := tool.Run(context.Background(), nil); res.IsError {
			fmt.Println(res.Content[0].(*mcp.TextContent).Text)
			return 1
		}
	case "recover":
		if _, err := applypatch.RecoverFaulty(state, dieAt(n)); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	return 0
}

// runChild reports whether the child came to its end alive.
func runChild(t *testing.T, task, dir, state string, dieAt int) bool {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childTask+"="+task, childDir+"="+dir, childState+"="+state, childDie+"="+strconv.Itoa(dieAt))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return true
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	require.True(t, ok, err)
	require.False(t, exit.Exited() && runtime.GOOS != "windows", "the child failed by itself: %s", out)
	return false
}

// A worker that is killed before any one of its system calls leaves a set of
// files that the next start makes wholly old or wholly new.
func TestKilledAtEveryChange(t *testing.T) {
	before, after := oldAndNew(t)
	for _, task := range []string{"apply", "undo"} {
		t.Run(task, func(t *testing.T) {
			sawOld, sawNew := 0, 0
			for n := 0; ; n++ {
				require.Less(t, n, 1000, "it never ends")
				dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
				laySix(t, dir)
				from, to := before, after
				if task == "undo" {
					t.Chdir(dir)
					must(t, applypatch.New(applypatch.Options{StateDir: state})[0], patchArgs{sixFiles})
					from, to = after, before
				}
				alive := runChild(t, task, dir, state, n)
				notes, err := applypatch.Recover(t.Context(), applypatch.Options{StateDir: state})
				require.NoError(t, err)
				require.Empty(t, notes)
				got := wholeTree(t, dir)
				if maps.Equal(got, to) {
					sawNew++
				} else {
					sawOld++
					require.Equal(t, from, got, "killed before change %d: neither old nor new", n)
				}
				requireSameFile(t, dir)
				requireNothingPending(t, state)
				if alive {
					require.Equal(t, to, got)
					break
				}
			}
			t.Logf("%d deaths ended old, %d new", sawOld, sawNew-1)
			require.Greater(t, sawOld, 20, "too few places to die: the faults are not asked for")
			require.Greater(t, sawNew, 1)
		})
	}
}

// manyFiles is a patch of 200 files; files are those before and after it.
var manyFiles, filesBefore, filesAfter = func() (patch string, before, after map[string]string) {
	var b strings.Builder
	before, after = map[string]string{}, map[string]string{}
	b.WriteString("*** Begin Patch\n")
	for i := range 200 {
		name := fmt.Sprintf("f%03d.txt", i)
		fmt.Fprintf(&b, "*** Update File: %s\n@@\n one\n-two\n+TWO\n", name)
		before[name], after[name] = "one\ntwo\n", "one\nTWO\n"
	}
	return b.String() + "*** End Patch\n", before, after
}()

// A process that is killed between the first and the last rename of a patch of 200 files leaves
// wholly old or wholly new ones after the next start, and nothing else. APPLY_PATCH_ROUNDS is
// the number of deaths.
func TestKilledBetweenRenames(t *testing.T) {
	deaths := rounds(t, 5)
	for i := range deaths {
		dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
		layFiles(t, dir, filesBefore)
		at := 1 + i*(len(filesBefore)-1)/deaths // before the second rename, …, the last one
		require.False(t, runChild(t, "many", dir, state, at))
		changed := 0
		for name, data := range tree(t, dir) {
			if data == filesAfter[name] {
				changed++
			}
		}
		require.Equal(t, at, changed)
		notes, err := applypatch.Recover(t.Context(), applypatch.Options{StateDir: state})
		require.NoError(t, err)
		require.Empty(t, notes)
		require.Equal(t, filesBefore, tree(t, dir))
		requireNothingPending(t, state)
		require.NoError(t, os.RemoveAll(dir))
	}
}

// Recovery itself can be killed anywhere, and the next one ends it.
func TestRecoveryKilledAtEveryChange(t *testing.T) {
	before, after := oldAndNew(t)
	for n := 0; ; n += 5 {
		dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
		laySix(t, dir)
		if runChild(t, "apply", dir, state, n) {
			break
		}
		for m := 0; !runChild(t, "recover", dir, state, m); m++ {
			require.Less(t, m, 1000, "it never ends")
		}
		if got := wholeTree(t, dir); !maps.Equal(got, after) {
			require.Equal(t, before, got, "killed before change %d", n)
		}
		requireNothingPending(t, state)
	}
}

// A change that fails, whichever it is, fails the whole patch.
func TestFailureAtEveryChange(t *testing.T) {
	before, after := oldAndNew(t)
	for _, withState := range []bool{false, true} {
		t.Run(fmt.Sprintf("state=%v", withState), func(t *testing.T) {
			for n := 0; ; n++ {
				require.Less(t, n, 1000, "it never ends")
				dir := t.TempDir()
				laySix(t, dir)
				t.Chdir(dir)
				o := applypatch.Options{}
				if withState {
					o.StateDir = filepath.Join(t.TempDir(), "state")
				}
				left, failed := n, ""
				tool := applypatch.NewFaulty(o, func(op, path string) error {
					if left--; left == -1 {
						failed = op
						return errors.New("out of luck")
					}
					return nil
				})[0]
				text, isError := call(t, tool, patchArgs{sixFiles})
				got := wholeTree(t, dir)
				if isError {
					require.Equal(t, before, got, "%s failed as change %d", failed, n)
					require.Contains(t, text, "out of luck")
					require.NotContains(t, text, ".toolgate-", "the model is shown a name it does not know")
				} else {
					for name := range got {
						if strings.Contains(name, ".toolgate-") {
							require.Contains(t, text, "could not be removed")
							delete(got, name)
						}
					}
					require.Equal(t, after, got, "%s failed as change %d", failed, n)
				}
				requireSameFile(t, dir)
				if failed == "" {
					return
				}
			}
		})
	}
}

// requireSameFile checks that the file with two names still has both.
func requireSameFile(t *testing.T, dir string) {
	t.Helper()
	a, err := os.Stat(filepath.Join(dir, "linked.txt"))
	require.NoError(t, err)
	b, err := os.Stat(filepath.Join(dir, "other-name.txt"))
	require.NoError(t, err)
	require.True(t, os.SameFile(a, b), "the hard link is broken")
}

func requireNothingPending(t *testing.T, state string) {
	t.Helper()
	pending, err := filepath.Glob(filepath.Join(state, "*.pending"))
	require.NoError(t, err)
	require.Empty(t, pending)
}
