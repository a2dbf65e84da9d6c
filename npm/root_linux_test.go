package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// emptyRoot returns the start of a command line that runs a program in a root
// with Node and a shell and nothing else, without network. mounts are further
// folders, as inside=outside.
func emptyRoot(t *testing.T, mounts ...string) []string {
	t.Helper()
	bwrap := lookUp(t, "bwrap")
	node, err := filepath.EvalSymlinks(lookUp(t, "node"))
	require.NoError(t, err)
	npm, err := filepath.EvalSymlinks(lookUp(t, "npm"))
	require.NoError(t, err)
	npm = filepath.Dir(filepath.Dir(npm)) // its package
	if exec.Command(bwrap, "--unshare-all", "--ro-bind", "/", "/", "true").Run() != nil {
		if os.Getenv("REQUIRE_SANDBOX") != "" {
			t.Fatal("REQUIRE_SANDBOX is set, and bwrap does not start")
		}
		t.Skip("bwrap does not start here")
	}
	line := []string{bwrap, "--unshare-all", "--die-with-parent", "--clearenv", "--tmpfs", "/", "--proc", "/proc", "--dev", "/dev",
		"--dir", "/tmp", "--dir", "/home", "--setenv", "HOME", "/home", "--setenv", "PATH", "/bin", "--chdir", "/home",
		"--ro-bind", node, "/bin/node", "--ro-bind", npm, "/npm", "--symlink", "../npm/bin/npx-cli.js", "/bin/npx"}
	shell, err := filepath.EvalSymlinks("/bin/sh")
	require.NoError(t, err)
	env, err := filepath.EvalSymlinks("/usr/bin/env")
	require.NoError(t, err)
	line = append(line, "--ro-bind", shell, "/bin/sh", "--ro-bind", env, "/usr/bin/env")
	for _, program := range []string{node, shell, env} {
		for _, lib := range libraries(t, program) {
			line = append(line, "--ro-bind", lib, lib)
		}
	}
	for _, m := range mounts {
		inside, outside, _ := strings.Cut(m, "=")
		line = append(line, "--ro-bind", outside, inside)
	}
	return append(line, "--")
}

// libraries returns what ldd says that program loads.
func libraries(t *testing.T, program string) []string {
	t.Helper()
	out, _ := exec.Command("ldd", program).Output() // a static program is an error
	var list []string
	for _, m := range regexp.MustCompile(`(/\S+) \(0x`).FindAllStringSubmatch(string(out), -1) {
		list = append(list, m[1])
	}
	return list
}

// TestEmptyRoot: a machine with Node on it and nothing else.
func TestEmptyRoot(t *testing.T) {
	packed(t)
	packages := t.TempDir()
	copyFile(t, built.main, filepath.Join(packages, "toolgate-"+version+".tgz"))
	platform := filepath.Base(built.platform)
	copyFile(t, built.platform, filepath.Join(packages, platform))
	index, err := json.Marshal([]map[string]any{
		{"file": platform, "manifest": readManifest(t, filepath.Join(built.dir, "src", here()))},
		{"file": "toolgate-" + version + ".tgz", "manifest": readManifest(t, filepath.Join(built.dir, "src", "toolgate"))},
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(packages, "index.json"), index, 0o644))
	testdata, err := filepath.Abs("testdata")
	require.NoError(t, err)

	registry := `
node /testdata/registry.js /packages /tmp/port >&2 &
until [ -s /tmp/port ]; do node -e ''; done
read port < /tmp/port
export npm_config_registry=http://127.0.0.1:$port
cd /packages
`
	for _, c := range []struct{ name, script, code, stderr string }{
		{name: "the main package's tarball, the platform's from a registry", script: registry + "npx -y ./toolgate-" + version + ".tgz"},
		{name: "by name from a registry", script: registry + "npx -y toolgate"},
		{name: "both tarballs, no registry at all", script: "cd /packages; npx --offline -y -p ./" + platform + " -p ./toolgate-" + version + ".tgz toolgate"},
		{name: "the platform's package cannot be had", script: "cd /packages; npx --offline -y ./toolgate-" + version + ".tgz", code: "exit status 1",
			stderr: "toolgate: error: the package @toolgate/" + here() + " is not installed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			line := append(emptyRoot(t, "/packages="+packages, "/testdata="+testdata), "sh", "-c", c.script)
			cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
			cmd.Stdin = strings.NewReader(listing)
			var stderr strings.Builder
			cmd.Stderr = io.MultiWriter(&stderr, t.Output())
			out, err := cmd.Output()
			if c.code != "" {
				require.ErrorContains(t, err, c.code)
				require.Contains(t, stderr.String(), c.stderr)
				require.Empty(t, out)
				return
			}
			require.NoError(t, err)
			all := answers(t, out)
			require.Contains(t, string(all[1]), version)
			requireTools(t, all[2])
		})
	}
}

const working = listing + `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"list_dir","arguments":{"dir_path":"."}}}
`

// TestNothingIsLeftBehind starts and stops the server twenty times, each time
// with a worker, in the ways that clients do.
func TestNothingIsLeftBehind(t *testing.T) {
	packed(t)
	dir := installed(t, built.platform, built.main)
	home, temp := t.TempDir(), t.TempDir()
	mark := "TOOLGATE_HOME=" + home
	list := nodes(t)
	for i := range 20 {
		cmd := exec.Command(list[i%len(list)], launcherIn(dir), "-C", t.TempDir())
		cmd.Env = append(os.Environ(), mark, "TMPDIR="+temp)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = io.WriteString(in, working)
		require.NoError(t, err)
		dec := json.NewDecoder(out)
		for {
			var m struct {
				ID     int
				Result json.RawMessage
			}
			require.NoError(t, dec.Decode(&m))
			if m.ID == 3 {
				require.NotContains(t, string(m.Result), `"isError":true`)
				break
			}
		}
		switch i % 4 {
		case 0: // the end of stdin
		case 1: // as Codex: both at once
			syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		case 2: // as Claude Code
			cmd.Process.Signal(os.Interrupt)
			cmd.Process.Signal(syscall.SIGTERM)
		case 3: // the hard way
			cmd.Process.Kill()
		}
		in.Close()
		_, err = io.Copy(io.Discard, out) // ends when nobody holds the other end
		require.NoError(t, err)
		cmd.Wait()
	}
	// What ends by a pipe ends a moment after its other end.
	require.Eventually(t, func() bool { return len(processesWith(mark)) == 0 }, time.Minute, 10*time.Millisecond, "processes: %v", processesWith(mark))
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left, "in the folder for temporary files")
}

// processesWith returns the processes with the variable in their environment.
func processesWith(variable string) []string {
	var found []string
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range all {
		env, err := os.ReadFile(file)
		if err == nil && bytes.Contains(append(env, 0), []byte(variable+"\x00")) {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			found = append(found, fmt.Sprintf("%s %q", filepath.Dir(file), line))
		}
	}
	return found
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, text, 0o644))
}
