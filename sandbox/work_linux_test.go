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
		{name: "npm", needs: []string{"npm", "node"},
			files: map[string]string{
				"dep/package.json": `{"name": "dep", "version": "1.0.0", "main": "index.js"}`,
				"dep/index.js":     `module.exports = "from dep"`,
				"package.json":     `{"name": "app", "version": "1.0.0"}`,
			},
			script: "npm install --offline --no-audit --no-fund ./dep && node -e 'console.log(require(\"dep\"))'", want: "from dep"},
		{name: "python", needs: []string{"python3"},
			script: "python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix)'", want: "/v"},
		{name: "python processes", needs: []string{"python3"},
			files: map[string]string{"p.py": "import multiprocessing as m\n\nif __name__ == '__main__':\n    with m.Pool(2) as p:\n        print(sum(p.map(abs, range(10))))\n"},
			// The semaphores are files in /dev/shm, which is not private there.
			levels: []sandbox.Level{sandbox.Full, sandbox.Bwrap},
			script: "python3 p.py", want: "45"},
		{name: "shell", needs: []string{"bash"},
			script: "bash -c 'diff <(echo a) <(echo a) && cat <<EOF\nhere\nEOF\nmkfifo p; (echo pipe > p &); cat p; f=$(mktemp); echo x > $f; chmod 600 $f; touch -d 2020-01-01 $f; cp -p $f copy; ln -s copy l; mv l l2; tar cf t.tar copy; rm $f; echo end > /dev/stderr; echo done > /dev/stdout'", want: "done"},
		{name: "processes", needs: []string{"ps"}, script: "ps aux", want: "ps aux"},
		{name: "manual", needs: []string{"man"}, script: "man -P cat sh | head -n 3", want: "("},
		{name: "terminal", needs: []string{"script"}, script: "script -qec 'tty' /dev/null", want: "/dev/pts/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range c.needs {
				program(t, name, "REQUIRE_WORK")
			}
			run := func(t *testing.T, do func(dir, home string) (string, error)) {
				base, err := filepath.EvalSymlinks(t.TempDir())
				require.NoError(t, err)
				dir, home := base+"/dir", base+"/home"
				require.NoError(t, os.MkdirAll(home, 0o755))
				require.NoError(t, os.MkdirAll(dir, 0o755))
				for name, text := range c.files {
					write(t, dir+"/"+name, text)
				}
				out, err := do(dir, home)
				require.NoError(t, err, out)
				require.Contains(t, out, c.want)
			}
			cache := goCache(t, c.needs)
			script := c.script
			if cache != "" {
				script = "export GOFLAGS=-buildvcs=false GOTOOLCHAIN=local GOCACHE=" + cache + "; " + script
			}
			control := true
			t.Run("unconfined", func(t *testing.T) {
				control = false
				run(t, func(dir, home string) (string, error) {
					cmd := exec.Command("/bin/sh", "-ec", script)
					cmd.Dir, cmd.Env = dir, workEnv(home)
					out, err := cmd.CombinedOutput()
					if err != nil {
						t.Skipf("does not work here at all: %s", out)
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
						p := policy.Profile{Mode: policy.WorkspaceWrite, WritableRoots: []string{dir, home}, ReadOnlySubpaths: sandbox.Protected(false)}
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

// goCache returns the Go build cache when needs names go, so that the
// standard library is not compiled anew.
func goCache(t *testing.T, needs []string) string {
	if len(needs) == 0 || needs[0] != "go" {
		return ""
	}
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	cache := strings.TrimSpace(string(out))
	require.NoError(t, os.MkdirAll(cache, 0o755))
	return cache
}

// The sandbox leaves nothing behind in the tree, and shows nothing in it that
// is not there.
func TestNothingIsFaked(t *testing.T) {
	list := func(root string) []string {
		var names []string
		require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			names = append(names, strings.TrimPrefix(path, root))
			return err
		}))
		return names
	}
	eachLevel(t, func(t *testing.T, level sandbox.Level) {
		root := t.TempDir()
		write(t, root+"/src/a", "")
		write(t, root+"/.git/config", "")
		before := list(root)
		out, err := inside(t, at(t, level, workspace(root)), root, root, "find . | sort")
		require.NoError(t, err, out)
		require.Equal(t, ".\n./.git\n./.git/config\n./src\n./src/a\n", out)
		require.Equal(t, before, list(root))
	})
}
