package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain is also the program that the launcher starts in some tests.
func TestMain(m *testing.M) {
	if what := os.Getenv("NPM_TEST_PROGRAM"); what != "" {
		os.Exit(standIn(what))
	}
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// standIn is a program that shows what became of it.
func standIn(what string) int {
	switch what {
	case "args":
		json.NewEncoder(os.Stdout).Encode(os.Args[1:])
		return 42
	case "cat":
		io.Copy(os.Stdout, os.Stdin)
		return 0
	case "trap":
		c := make(chan os.Signal, 1)
		signal.Notify(c, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		fmt.Println("ready")
		fmt.Println(<-c)
		return 7
	case "die":
		fmt.Println("ready")
		<-time.After(time.Hour)
	}
	return 99
}

// built is what was made once for all tests.
var built struct {
	once     sync.Once
	dir      string
	err      error
	main     string // tarball of the main package
	platform string // tarball of this platform's package
}

const version = "0.1.0-test.1"

// here is this platform in npm's words.
func here() string {
	return map[string]string{"linux": "linux", "darwin": "darwin", "windows": "win32"}[runtime.GOOS] + "-" + map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
}

// nodes returns the node programs to test with: the one on the path, and those
// in $TOOLGATE_TEST_NODES.
func nodes(t *testing.T) []string {
	t.Helper()
	list := filepath.SplitList(os.Getenv("TOOLGATE_TEST_NODES"))
	if node := lookUp(t, "node"); node != "" {
		list = append([]string{node}, list...)
	}
	return list
}

// lookUp returns the path of a program of Node's, and skips without it.
func lookUp(t *testing.T, name string) string {
	t.Helper()
	file, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("REQUIRE_NODE") != "" {
			t.Fatalf("REQUIRE_NODE is set, and there is no %s", name)
		}
		t.Skipf("there is no %s", name)
	}
	return file
}

func goRun(args ...string) error {
	cmd := exec.Command("go", append([]string{"run", "./npm"}, args...)...)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// packed makes the packages of this platform as they would be published.
func packed(t *testing.T) {
	t.Helper()
	lookUp(t, "npm")
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "npm-test-"); built.err != nil {
			return
		}
		os.Chmod(built.dir, 0o755)
		// As the generator builds it, but for -trimpath, with which nothing that
		// was compiled before could be used.
		build := exec.Command("go", "build", "-ldflags", "-s -w -X toolgate/internal/app.release="+version, "-o", filepath.Join(built.dir, "bin", runtime.GOOS+"-"+runtime.GOARCH)+string(filepath.Separator), ".")
		build.Dir = ".."
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("building: %w: %s", err, out)
			return
		}
		if built.err = goRun("-version", version, "-out", filepath.Join(built.dir, "src"), "-binaries", filepath.Join(built.dir, "bin"), "-only", here()); built.err != nil {
			return
		}
		for folder, tarball := range map[string]*string{"toolgate": &built.main, here(): &built.platform} {
			cmd := exec.Command("npm", "pack", "--json", "--pack-destination", built.dir)
			cmd.Dir = filepath.Join(built.dir, "src", folder)
			cmd.Env = append(os.Environ(), "npm_config_cache="+filepath.Join(built.dir, "cache"))
			out, err := cmd.Output()
			if err != nil {
				built.err = fmt.Errorf("npm pack %s: %w", folder, err)
				return
			}
			var list []struct{ Filename string }
			if json.Unmarshal(out, &list) != nil || len(list) != 1 {
				// Newer versions of npm answer with an object by name.
				var named map[string]struct{ Filename string }
				if err := json.Unmarshal(out, &named); err != nil {
					built.err = fmt.Errorf("npm pack: %w in %s", err, out)
					return
				}
				for _, p := range named {
					list = append(list, p)
				}
			}
			*tarball = filepath.Join(built.dir, list[0].Filename)
		}
	})
	require.NoError(t, built.err)
}

// installed returns a folder with the packages installed from their tarballs,
// with no registry at hand.
func installed(t *testing.T, tarballs ...string) string {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{"install", "--offline", "--no-audit", "--no-fund", "--no-package-lock", "--prefix", dir}, tarballs...)
	cmd := exec.Command("npm", args...)
	cmd.Env = append(os.Environ(), "npm_config_cache="+filepath.Join(t.TempDir(), "cache"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

func launcherIn(dir string) string {
	return filepath.Join(dir, "node_modules", "toolgate", "bin", "toolgate.js")
}

func TestPackagesAsGenerated(t *testing.T) {
	dir, binaries := t.TempDir(), t.TempDir()
	all := map[string]string{"linux-amd64": "linux-x64", "linux-arm64": "linux-arm64", "darwin-amd64": "darwin-x64", "darwin-arm64": "darwin-arm64", "windows-amd64": "win32-x64", "windows-arm64": "win32-arm64"}
	for goName := range all {
		name := "toolgate"
		if strings.HasPrefix(goName, "windows") {
			name += ".exe"
		}
		file := filepath.Join(binaries, goName, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(goName), 0o600))
	}
	require.NoError(t, goRun("-version", "1.2.3", "-out", dir, "-binaries", binaries))

	optional := map[string]any{}
	launcher, err := os.ReadFile("launcher.js")
	require.NoError(t, err)
	for goName, node := range all {
		m := readManifest(t, filepath.Join(dir, node))
		require.Equal(t, "@toolgate/"+node, m["name"])
		require.Equal(t, "1.2.3", m["version"])
		name, cpu, _ := strings.Cut(node, "-")
		require.Equal(t, []any{name}, m["os"])
		require.Equal(t, []any{cpu}, m["cpu"])
		file := filepath.Join(dir, node, filepath.FromSlash(m["files"].([]any)[0].(string)))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, goName, string(text))
		if runtime.GOOS != "windows" {
			info, err := os.Stat(file)
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o755), info.Mode().Perm())
		}
		require.NotContains(t, m, "scripts")
		require.FileExists(t, filepath.Join(dir, node, "LICENSE"))
		optional["@toolgate/"+node] = "1.2.3"
		require.Contains(t, string(launcher), `"`+node+`"`)
	}

	m := readManifest(t, filepath.Join(dir, "toolgate"))
	for _, key := range []string{"scripts", "dependencies", "devDependencies", "peerDependencies", "bundleDependencies"} {
		require.NotContains(t, m, key)
	}
	require.Equal(t, optional, m["optionalDependencies"], "exact versions")
	require.Equal(t, map[string]any{"toolgate": "bin/toolgate.js"}, m["bin"])
	for _, key := range []string{"license", "repository", "mcpName", "preferUnplugged"} {
		require.NotEmpty(t, m[key], key)
	}
	entry := filepath.Join(t.TempDir(), "server.json")
	require.NoError(t, goRun("-version", "1.2.3", "-server", entry))
	require.Equal(t, m["mcpName"], readJSON(t, entry)["name"], "by which the MCP registry knows that the package is ours")
}

func TestGeneratorRefuses(t *testing.T) {
	for _, args := range [][]string{{}, {"-version", "v1.2.3"}, {"-version", "1.2.3", "-only", "plan9-x64"}} {
		require.Error(t, goRun(append(args, "-out", t.TempDir())...), args)
	}
}

func readManifest(t *testing.T, dir string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(text, &m))
	return m
}

// TestLauncherLooksInPlaces: the paths of systems that this is not.
func TestLauncherLooksInPlaces(t *testing.T) {
	type world struct {
		Env      map[string]string `json:"env,omitempty"`
		Platform string            `json:"platform"`
		Arch     string            `json:"arch"`
		Dir      string            `json:"dir"`
		Packages map[string]string `json:"packages,omitempty"`
		Files    []string          `json:"files,omitempty"`
	}
	type answer struct{ File, Fault, Hint string }
	const win = `C:\Users\me\AppData\Roaming\npm\node_modules`
	cases := []struct {
		name string
		in   world
		want answer
	}{
		{
			"the platform package, on Windows",
			world{Platform: "win32", Arch: "x64", Dir: win + `\toolgate\bin`,
				Packages: map[string]string{"@toolgate/win32-x64/package.json": win + `\@toolgate\win32-x64\package.json`},
				Files:    []string{win + `\@toolgate\win32-x64\bin\toolgate.exe`}},
			answer{File: win + `\@toolgate\win32-x64\bin\toolgate.exe`},
		},
		{
			"a program beside the launcher, where the package is gone",
			world{Platform: "darwin", Arch: "arm64", Dir: "/opt/toolgate/bin", Files: []string{"/opt/toolgate/bin/toolgate"}},
			answer{File: "/opt/toolgate/bin/toolgate"},
		},
		{
			"the environment's word comes first",
			world{Platform: "linux", Arch: "x64", Dir: "/d", Env: map[string]string{"TOOLGATE_BINARY": "/mine", "PATH": "/bin"}, Files: []string{"/mine", "/d/toolgate"}},
			answer{File: "/mine"},
		},
		{
			"also for a platform there is no build for",
			world{Platform: "freebsd", Arch: "x64", Dir: "/d", Env: map[string]string{"TOOLGATE_BINARY": "/mine"}, Files: []string{"/mine"}},
			answer{File: "/mine"},
		},
		{
			"and is not passed over when it is wrong",
			world{Platform: "linux", Arch: "x64", Dir: "/d", Env: map[string]string{"TOOLGATE_BINARY": "/gone"}, Files: []string{"/d/toolgate"}},
			answer{Fault: "TOOLGATE_BINARY is /gone, and there is no such file"},
		},
		{
			"no build for it",
			world{Platform: "freebsd", Arch: "x64", Dir: "/d"},
			answer{Fault: "there is no build for freebsd-x64, only for linux-x64, linux-arm64, darwin-x64, darwin-arm64, win32-x64, win32-arm64", Hint: "build it with Go and set TOOLGATE_BINARY to the program"},
		},
	}
	var in []world
	for _, c := range cases {
		in = append(in, c.in)
	}
	text, err := json.Marshal(in)
	require.NoError(t, err)
	launcher, err := filepath.Abs("launcher.js")
	require.NoError(t, err)
	for _, node := range nodes(t) {
		cmd := exec.Command(node, filepath.Join("testdata", "find.js"), launcher)
		cmd.Stdin = bytes.NewReader(text)
		out, err := cmd.Output()
		require.NoError(t, err)
		var got []answer
		require.NoError(t, json.Unmarshal(out, &got))
		for i, c := range cases {
			require.Equal(t, c.want, got[i], "%s: %s", node, c.name)
		}
	}
}

// launch starts the launcher with a stand-in for the program.
func launch(t *testing.T, node, what string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), node, append([]string{"launcher.js"}, args...)...)
	cmd.Env = append(os.Environ(), "TOOLGATE_BINARY="+self, "NPM_TEST_PROGRAM="+what)
	return cmd
}

func TestLauncherPassesThrough(t *testing.T) {
	for _, node := range nodes(t) {
		args := []string{"-C", "/a b", `"quoted"`, "ä", "", "--", "-x"}
		cmd := launch(t, node, "args", args...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.Equal(t, 42, cmd.ProcessState.ExitCode(), "%v %s", err, stderr.String())
		var got []string
		require.NoError(t, json.Unmarshal(out, &got))
		require.Equal(t, args, got)
		require.Empty(t, stderr.String())

		cmd = launch(t, node, "cat")
		cmd.Stdin = strings.NewReader(strings.Repeat("a line\n", 1<<16)) // more than a pipe holds
		out, err = cmd.Output()
		require.NoError(t, err)
		require.Len(t, out, 7<<16)
	}
}

func TestLauncherPassesSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no signals on Windows")
	}
	for _, node := range nodes(t) {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			for _, what := range []string{"trap", "die"} {
				cmd := launch(t, node, what)
				out, err := cmd.StdoutPipe()
				require.NoError(t, err)
				require.NoError(t, cmd.Start())
				ready := make([]byte, len("ready\n"))
				_, err = io.ReadFull(out, ready)
				require.NoError(t, err)
				require.NoError(t, cmd.Process.Signal(sig))
				rest, err := io.ReadAll(out)
				require.NoError(t, err)
				err = cmd.Wait()
				status := cmd.ProcessState.Sys().(syscall.WaitStatus)
				if what == "trap" {
					require.Equal(t, sig.String()+"\n", string(rest))
					require.Equal(t, 7, status.ExitStatus(), "%s %s: %v", node, sig, err)
				} else {
					require.True(t, status.Signaled() && status.Signal() == sig, "%s %s: %v", node, sig, err)
				}
			}
		}
	}
}

func TestLauncherSaysWhatIsMissing(t *testing.T) {
	packed(t)
	dir := installed(t, built.main)
	for _, node := range nodes(t) {
		cmd := exec.Command(node, launcherIn(dir), "version")
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TOOLGATE_BINARY=") })
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		require.True(t, errors.As(err, &exit))
		require.Equal(t, 1, exit.ExitCode())
		require.Empty(t, stdout.String())
		require.Contains(t, stderr.String(), "toolgate: error: the package @toolgate/"+here()+" is not installed\n")
		require.Contains(t, stderr.String(), "--omit=optional")
		require.Contains(t, stderr.String(), "TOOLGATE_BINARY")
	}
}

// TestLauncherNamedAsItsOwnProgram would start itself without an end.
func TestLauncherNamedAsItsOwnProgram(t *testing.T) {
	link := filepath.Join(t.TempDir(), "toolgate")
	launcher, err := filepath.Abs("launcher.js")
	require.NoError(t, err)
	if err := os.Symlink(launcher, link); err != nil {
		t.Skip(err)
	}
	for _, node := range nodes(t) {
		cmd := exec.CommandContext(t.Context(), node, link, "version")
		cmd.Env = append(os.Environ(), "TOOLGATE_BINARY="+link)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "which is this launcher")
	}
}

const listing = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
`

// answers returns the results of the answers in out, by id.
func answers(t *testing.T, out []byte) map[int]json.RawMessage {
	t.Helper()
	all := map[int]json.RawMessage{}
	for line := range bytes.Lines(out) {
		var m struct {
			ID     int
			Result json.RawMessage
		}
		require.NoError(t, json.Unmarshal(line, &m), "not a message: %s", line)
		if m.ID != 0 {
			all[m.ID] = m.Result
		}
	}
	return all
}

func requireTools(t *testing.T, result json.RawMessage) {
	t.Helper()
	var list struct{ Tools []struct{ Name string } }
	require.NoError(t, json.Unmarshal(result, &list))
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	for _, want := range []string{"shell", "apply_patch", "read_file", "list_dir", "grep_files"} {
		require.Contains(t, names, want)
	}
}

// TestInstalledPackageServes takes the version from the package, and with it
// that the platform package is the one that ran.
func TestInstalledPackageServes(t *testing.T) {
	packed(t)
	dir := installed(t, built.platform, built.main)
	for _, node := range nodes(t) {
		cmd := exec.Command(node, launcherIn(dir), "-C", t.TempDir())
		cmd.Stdin = strings.NewReader(listing)
		cmd.Env = append(os.Environ(), "TOOLGATE_HOME="+t.TempDir())
		cmd.Stderr = t.Output()
		out, err := cmd.Output()
		require.NoError(t, err)
		all := answers(t, out)
		require.Contains(t, string(all[1]), version)
		requireTools(t, all[2])
	}
}
