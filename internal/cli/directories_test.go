package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// commandArguments are good arguments of the commands that need some.
var commandArguments = map[string]string{
	"approvals approve": "1", "approvals deny": "1", "approvals show": "1",
	"call": "shell", "http token add": "n", "http token remove": "n", "man": "m",
	"mcp add": "n -- true", "mcp get": "n", "mcp import": "codex", "mcp login": "n", "mcp logout": "n",
	"mcp remove": "n", "mcp review": "n", "policy check": "ls",
	"sandbox": "-- true", "setup": "--yes codex", "wrap": "-- true",
}

// badDirectory is a directory that cannot be used, and what is said of it.
type badDirectory struct{ name, dir, want string }

// badDirectories returns them, below a folder that nothing must be put into.
func badDirectories(t *testing.T) []badDirectory {
	root := t.TempDir()
	file, gone := filepath.Join(root, "file"), filepath.Join(root, "gone")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.NoError(t, os.Symlink(gone, filepath.Join(root, "link")))
	const none = "no such directory\n"
	const notExpanded = none + "toolgate: hint: ~ and variables are expanded by a shell only"
	bad := []badDirectory{
		{"gone", gone, none},
		{"below nothing", filepath.Join(gone, "x"), none},
		{"a link to nothing", filepath.Join(root, "link"), none},
		{"relative", "gone", "no such directory\ntoolgate: hint: relative paths are resolved against /"},
		{"not expanded", "~/gone", notExpanded},
		{"a variable", "${workspaceFolder}", notExpanded},
		{"a file", file, "not a directory\n"},
		{"below a file", filepath.Join(file, "x"), "not a directory\n"},
		{"empty", "", "the path is empty\n"},
	}
	if os.Geteuid() != 0 { // root may enter any
		shut := filepath.Join(root, "shut")
		require.NoError(t, os.Mkdir(shut, 0o600))
		for _, dir := range []string{shut, filepath.Join(shut, "x")} {
			bad = append(bad, badDirectory{"shut", dir, "permission denied\n"})
		}
	}
	return bad
}

// runnable returns the words of every command below cmd that can be run.
func runnable(cmd *cobra.Command) [][]string {
	var all [][]string
	if words := strings.Fields(cmd.CommandPath())[1:]; cmd.Runnable() {
		all = append(all, append(words, strings.Fields(commandArguments[strings.Join(words, " ")])...))
	}
	for _, c := range cmd.Commands() {
		all = append(all, runnable(c)...)
	}
	return all
}

func TestDirectoriesThatCannotBeUsed(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("TOOLGATE_HOME", filepath.Join(home, "toolgate"))
	t.Chdir(t.TempDir())
	commands := runnable((&program{}).command())
	require.Greater(t, len(commands), 20)
	for _, bad := range badDirectories(t) {
		for _, flag := range []string{"-C", "--add-dir"} {
			for _, words := range commands {
				refused(t, append([]string{flag, bad.dir}, words...), flag, bad)
			}
		}
		refused(t, []string{"serve", bad.dir}, "serve", bad)
		refused(t, []string{"serve", ".", bad.dir}, "serve", bad)
		refused(t, []string{"http", "token", "add", "n", "--workspace", bad.dir}, "--workspace", bad)
	}
	left, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Empty(t, left, "something was written all the same")
}

// refused runs the program, which must end with the code for wrong usage and
// say what is wrong with the directory that what names.
func refused(t *testing.T, args []string, what string, bad badDirectory) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := Run(args, strings.NewReader(""), &stdout, &stderr)
	require.Equal(t, exitUsage, code, "%s: %q: %s", bad.name, args, &stderr)
	shown := bad.dir
	if shown == "" {
		shown = `""`
	}
	want := "toolgate: error: " + what + " " + shown + ": " + bad.want
	require.True(t, strings.HasPrefix(stderr.String(), want), "%q: %s", args, &stderr)
	require.Empty(t, stdout.String(), "%q", args)
}

func TestWritableRootsThatCannotBeUsed(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("TOOLGATE_HOME", filepath.Join(home, "toolgate"))
	t.Chdir(t.TempDir())
	for _, bad := range badDirectories(t) {
		roots := "sandbox_workspace_write.writable_roots=['" + bad.dir + "']"
		for _, command := range []string{"serve", "call list_dir {}", "tools", "sandbox -- true", "setup --yes codex", "doctor"} {
			refused(t, append([]string{"-c", roots}, strings.Fields(command)...), "writable root", bad)
		}
	}
	require.NoDirExists(t, filepath.Join(home, ".codex"))
}

func TestWrongSettingsAreWrongUsage(t *testing.T) {
	t.Setenv("TOOLGATE_HOME", t.TempDir())
	for _, set := range []string{"x", "no_such_key=1", `sandbox_mode="readonly"`} {
		var stderr bytes.Buffer
		code := Run([]string{"-c", set, "tools"}, strings.NewReader(""), io.Discard, &stderr)
		require.Equal(t, exitUsage, code, "%s: %s", set, &stderr)
	}
}
