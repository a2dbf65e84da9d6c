package sandbox_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/sandbox"
)

// program returns the path of name, or skips; it fails instead when variable
// is set.
func program(t *testing.T, name, variable string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv(variable) != "" {
			t.Fatalf("%s is not installed, and %s is set", name, variable)
		}
		t.Skipf("%s is not installed", name)
	}
	return path
}

// workEnv is an environment that programs do ordinary work in, with home as
// home folder.
func workEnv(home string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LANG=C", "TMPDIR=" + home,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	}
}

// inside runs a shell script in dir under plan and returns its output and
// error.
func inside(t *testing.T, plan sandbox.Plan, dir, home, script string) (string, error) {
	t.Helper()
	cmd := plan.Command("/bin/sh", "-ec", script)
	cmd.Dir, cmd.Env = dir, workEnv(home)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// repository makes a repository with one commit in a new folder.
func repository(t *testing.T) (dir, home string) {
	t.Helper()
	git := program(t, "git", "REQUIRE_GIT")
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	dir, home = base+"/repo", base+"/home"
	require.NoError(t, os.Mkdir(home, 0o755))
	write(t, dir+"/file", "one\n")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "one"}} {
		cmd := exec.Command(git, args...)
		cmd.Dir, cmd.Env = dir, workEnv(home)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return dir, home
}

func TestGit(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.Full, sandbox.Bwrap} {
		t.Run(level.String(), func(t *testing.T) {
			dir, home := repository(t)
			p := policy.Profile{Mode: policy.WorkspaceWrite, WritableRoots: []string{dir, home}}

			p.ReadOnlySubpaths = sandbox.Protected(false)
			plan := at(t, level, p)
			write(t, dir+"/file", "two\n")
			out, err := inside(t, plan, dir, home, "git status --short; git diff --stat; git log --oneline | wc -l")
			require.NoError(t, err, out)
			require.Contains(t, out, " M file")
			out, err = inside(t, plan, dir, home, "git commit -q -a -m two")
			require.Error(t, err)
			require.Contains(t, out, "Read-only file system")

			p.ReadOnlySubpaths = sandbox.Protected(true)
			plan = at(t, level, p)
			out, err = inside(t, plan, dir, home, "git add . && git commit -q -m two && git checkout -q -b topic && git stash list && git gc -q && git log --oneline | wc -l")
			require.NoError(t, err, out)
			require.Contains(t, out, "2")
			for _, script := range []string{
				"echo x > .git/hooks/post-commit", "git config core.fsmonitor evil", "echo x > .git/info/attributes",
				"mv .git gone", "mv .git/hooks .git/gone", "rm -r .git/hooks", "mkdir .git/gone && mv .git/info .git/gone",
				"ln -sf /etc/passwd .git/config", "rm -f .git/config",
			} {
				out, err = inside(t, plan, dir, home, script)
				require.Error(t, err, "%s: %s", script, out)
			}
			require.Equal(t, "two\n", content(t, dir+"/file"))
		})
	}
}

// Where git's own files are missing they could be made, so nothing of .git
// can be written.
func TestGitWritesNeedAWholeRepository(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/.git/config", "old")
	p := workspace(root)
	p.ReadOnlySubpaths = sandbox.Protected(true)
	plan := at(t, sandbox.Full, p)
	errno, _ := try(t, plan, "mkdir", root+"/.git/hooks")
	require.Equal(t, refused[sandbox.Full], errno)
	errno, _ = try(t, plan, "write", root+"/.git/index")
	require.Equal(t, refused[sandbox.Full], errno)
}
