package sandbox_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/sandbox"
)

// Ordinary work runs inside. Each job is done unconfined first: what a system
// cannot do at all says nothing about the sandbox.
func TestWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		needs  []string
		files  map[string]string
		script string
		want   string // part of the output
		levels []sandbox.Level

		git     bool                           // with git writes allowed
		prepare func(t *testing.T, dir string) // makes more than files
	}{
		{name: "compiler", needs: []string{"cc", "make"},
			files: map[string]string{
				"Makefile": "hello: hello.c\n\tcc -pipe -o hello hello.c\n",
				"hello.c":  "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n",
			},
			script: "make -j4 -s && ./hello", want: "hello"},
		{name: "go", needs: []string{"go"},
			files: map[string]string{
				"go.mod":    "module m\n\ngo 1.20\n",
				"m.go":      "package main\n\nfunc main() { println(add(1, 2)) }\n\nfunc add(a, b int) int { return a + b }\n",
				"m_test.go": "package main\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif add(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n",
			},
			script: "go build -o m . && ./m && go test ./...", want: "ok"},
		{name: "this project", needs: []string{"go", "git"},
			prepare: copyProject,
			script:  "go build ./internal/stdio && go build -o made ./npm && go test -vet=off ./internal/ignore", want: "ok  \ttoolgate/internal/ignore"},
		{name: "git status", needs: []string{"git"}, prepare: commitAll,
			files:  map[string]string{"file": "one\n"},
			script: "echo two >> file; echo new > new; git status --short; git diff --stat; git log --oneline", want: " M file\n?? new"},
		{name: "git commit", needs: []string{"git"}, prepare: commitAll, git: true, levels: []sandbox.Level{sandbox.Full, sandbox.Bwrap},
			files:  map[string]string{"file": "one\n"},
			script: "echo two >> file; git add -A; git commit -q -m two; git checkout -q -b topic; git stash list; git log --oneline | wc -l", want: "2"},
		{name: "npm", needs: []string{"npm", "node"},
			files: map[string]string{
				"dep/package.json": `{"name": "dep", "version": "1.0.0", "main": "index.js"}`,
				"dep/index.js":     `module.exports = "from dep"`,
				"package.json":     `{"name": "app", "version": "1.0.0"}`,
			},
			script: "npm install --offline --no-audit --no-fund ./dep && node -e 'console.log(require(\"dep\"))'", want: "from dep"},
		{name: "python", needs: []string{"python3"},
			script: "python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix)'", want: "/v"},
		{name: "python with pip", needs: []string{"python3"}, levels: []sandbox.Level{sandbox.Full},
			script: "python3 -m venv v && v/bin/pip --version", want: "pip "},
		{name: "compiler's files", needs: []string{"cc"},
			files:  map[string]string{"a.c": "int a(void) { return 1; }\n", "b.c": "int a(void);\nint main(void) { return a() - 1; }\n"},
			script: "cc -g -O2 -save-temps=obj -o both a.c b.c && ./both && cc -c a.c && ar rcs liba.a a.o && cc b.c -L. -la -o linked && ./linked && echo done", want: "done"},
		{name: "python processes", needs: []string{"python3"},
			files: map[string]string{"p.py": "import multiprocessing as m\n\nif __name__ == '__main__':\n    with m.Pool(2) as p:\n        print(sum(p.map(abs, range(10))))\n"},
			// The semaphores are files in /dev/shm, which is not private there.
			levels: []sandbox.Level{sandbox.Full, sandbox.Bwrap},
			script: "python3 p.py", want: "45"},
		{name: "shell", needs: []string{"bash"},
			script: "bash -c 'diff <(echo a) <(echo a) && cat <<EOF\nhere\nEOF\nmkfifo p; (echo pipe > p &); cat p; f=$(mktemp); echo x > $f; chmod 600 $f; touch -d 2020-01-01 $f; cp -p $f copy; ln -s copy l; mv l l2; tar cf t.tar copy; rm $f; echo end > /dev/stderr; echo done > /dev/stdout'", want: "done"},
		{name: "processes", needs: []string{"ps"}, script: "ps aux", want: "ps aux"},
		{name: "manual", needs: []string{"man"}, script: "man -P cat sh | head -n 3", want: "("},
		{name: "terminal", needs: []string{"script"},
			// A command cannot open one there, see TestTerminalOfWorker.
			levels: []sandbox.Level{sandbox.Full, sandbox.Bwrap},
			script: "script -qec 'tty' /dev/null", want: "/dev/pts/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range c.needs {
				program(t, name, "REQUIRE_WORK")
			}
			var left []string // in the tree, when it is done unconfined
			run := func(t *testing.T, do func(dir, home string) (string, error)) {
				base, err := filepath.EvalSymlinks(t.TempDir())
				require.NoError(t, err)
				dir, home := base+"/dir", base+"/home"
				require.NoError(t, os.MkdirAll(home, 0o755))
				require.NoError(t, os.MkdirAll(dir, 0o755))
				for name, text := range c.files {
					write(t, dir+"/"+name, text)
				}
				if c.prepare != nil {
					c.prepare(t, dir)
				}
				out, err := do(dir, home)
				require.NoError(t, err, out)
				require.Contains(t, out, c.want)
				if left == nil {
					left = names(t, dir)
				}
				require.Equal(t, left, names(t, dir), "the tree does not hold what it holds without a sandbox")
			}
			cache := goCache(t, c.needs)
			script := c.script
			if cache != "" {
				script = "export GOFLAGS=-buildvcs=false GOTOOLCHAIN=local GOPROXY=off GOMODCACHE=" + goEnv(t, "GOMODCACHE") + " GOCACHE=" + cache + "; " + script
			}
			control := true
			t.Run("unconfined", func(t *testing.T) {
				control = false
				run(t, func(dir, home string) (string, error) {
					cmd := exec.Command("/bin/sh", "-ec", script)
					cmd.Dir, cmd.Env = dir, workEnv(home)
					out, err := cmd.CombinedOutput()
					if err != nil {
						workFails(t, "does not work here at all: %s", out)
					}
					control = true
					return string(out), nil
				})
			})
			if !control {
				t.Skip("does not work here at all")
			}
			levels := c.levels
			if levels == nil {
				levels = []sandbox.Level{sandbox.Full, sandbox.Bwrap, sandbox.Landlock}
			}
			for _, level := range levels {
				t.Run(level.String(), func(t *testing.T) {
					run(t, func(dir, home string) (string, error) {
						p := policy.Profile{Mode: policy.WorkspaceWrite, WritableRoots: []string{dir, home}, ReadOnlySubpaths: sandbox.Protected(c.git)}
						if cache != "" {
							p.WritableRoots = append(p.WritableRoots, cache)
						}
						return inside(t, at(t, level, p), dir, home, script)
					})
				})
			}
		})
	}
}

// workFails skips, and fails where everything must work.
func workFails(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("REQUIRE_WORK") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// copyProject copies this module to dir, as far as building it takes.
func copyProject(t *testing.T, dir string) {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		workFails(t, "this is not a checkout: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if strings.Contains("/"+name, "/testdata/") {
			continue
		}
		text, err := os.ReadFile("../" + name)
		require.NoError(t, err)
		write(t, dir+"/"+name, string(text))
	}
	if _, err := os.Stat(dir + "/vendor"); err == nil {
		return // it is part of the checkout
	}
	if _, err := os.Stat("../vendor"); err == nil {
		require.NoError(t, os.CopyFS(dir+"/vendor", os.DirFS("../vendor")))
	}
}

// commitAll makes dir a repository with one commit.
func commitAll(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "one"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, workEnv(dir+"/../home")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// names returns the paths below root but for those whose names are by chance:
// the objects of git, and what Python has compiled.
func names(t *testing.T, root string) []string {
	t.Helper()
	var list []string
	require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		path = strings.TrimPrefix(path, root)
		if !strings.Contains(path, "/.git/objects/") && !strings.Contains(path, "/__pycache__/") {
			list = append(list, path)
		}
		return err
	}))
	return list
}

// goCache returns the Go build cache when needs names go, so that the
// standard library is not compiled anew.
func goCache(t *testing.T, needs []string) string {
	if len(needs) == 0 || needs[0] != "go" {
		return ""
	}
	cache := goEnv(t, "GOCACHE")
	require.NoError(t, os.MkdirAll(cache, 0o755))
	return cache
}

// goEnv returns a setting of the go command.
func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// The sandbox leaves nothing behind in the tree, and shows nothing in it that
// is not there.
func TestNothingIsFaked(t *testing.T) {
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		root := t.TempDir()
		write(t, root+"/src/a", "")
		write(t, root+"/.git/config", "")
		before := names(t, root)
		out, err := inside(t, at(t, level, workspace(root)), root, root, "find . | sort")
		require.NoError(t, err, out)
		require.Equal(t, ".\n./.git\n./.git/config\n./src\n./src/a\n", out)
		require.Equal(t, before, names(t, root))
	})
}
