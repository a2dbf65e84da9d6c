package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/clients"
	"toolgate/internal/config"
	"toolgate/internal/programs"
)

func TestSetupStartsAProgramThatStays(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	global := filepath.Join(dir, "lib", "node_modules", "@toolgate", "linux-x64", "bin", "toolgate")
	project := filepath.Join(dir, "project", "node_modules", "@toolgate", "linux-x64", "bin", "toolgate")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "project"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "project", "package.json"), []byte("{}"), 0o644))
	writable := filepath.Join(dir, "ws")
	find := programs.Finder{Writable: []string{writable}}
	copied := filepath.Join(dir, "state", "bin", "toolgate")
	for self, want := range map[string]string{
		"/usr/local/bin/toolgate": "/usr/local/bin/toolgate",
		global:                    global,
		project:                   copied,
		filepath.Join(writable, "bin", "toolgate"):                                   copied,
		"/home/u/.npm/_npx/1a2b/node_modules/@toolgate/linux-x64/bin/toolgate":       copied,
		"/home/u/p/global/5/.pnpm/t@1/node_modules/@toolgate/linux-x64/bin/toolgate": copied,
		`C:\Program Files\toolgate\toolgate.exe`:                                     `C:\Program Files\toolgate\toolgate.exe`,
	} {
		s := &setup{log: setupLog{file: filepath.Join(dir, "state", "setup.json")}}
		got, err := s.startOf(self, find)
		require.NoError(t, err)
		require.Equal(t, clients.Start{Command: want}, got)
		require.Equal(t, want == copied, s.source == self)
	}
	_, err = (&setup{}).startOf("/tmp/go-build123/b001/exe/toolgate", find)
	require.ErrorContains(t, err, "this program is temporary")
}

// TestSetupWritesAPathThatLasts: the name that stays, not the version's folder
// behind it, unless commands can write it.
func TestSetupWritesAPathThatLasts(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	self := filepath.Join(dir, "Caskroom", "toolgate", "1.2.3", "toolgate")
	for _, file := range []string{self, filepath.Join(dir, "elsewhere", "toolgate")} {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755))
	}
	bin := filepath.Join(dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	link := filepath.Join(bin, "toolgate")
	if err := os.Symlink(self, link); err != nil || runtime.GOOS == "windows" {
		t.Skip("links and programs without .exe are needed")
	}
	var find programs.Finder
	t.Setenv("PATH", bin)
	require.Equal(t, link, lasting(self, find))
	require.Equal(t, self, lasting(self, programs.Finder{Writable: []string{bin}}))
	t.Setenv("PATH", filepath.Join(dir, "elsewhere"))
	require.Equal(t, self, lasting(self, find), "that is another program")
	t.Setenv("PATH", dir)
	require.Equal(t, self, lasting(self, find))
}

func TestThroughRunner(t *testing.T) {
	for _, tt := range []struct{ entry, runner, words string }{
		{"npx -y toolgate", "npx", ""},
		{"npx -y toolgate@1.2.3 -C /p", "npx", "-C /p"},
		{"npx -y -p toolgate toolgate -s read-only", "npx", "-s read-only"},
		{"/usr/bin/npx @toolgate/linux-x64", "npx", ""},
		{`cmd /c npx -y toolgate -C .`, "npx", "-C ."},
		{"npm exec toolgate -- -C .", "npm", "-C ."},
		{"bunx toolgate", "bunx", ""},
		{"bun x toolgate", "bun", ""},
		{"pnpm dlx toolgate", "pnpm", ""},
		{"yarn dlx toolgate", "yarn", ""},
		{"env npx toolgate", "npx", ""},
		{"npx -y toolgate-viewer", "", ""},
		{"toolgate wrap -- npx -y x", "", ""},
		{"cmd /c toolgate", "", ""},
		{"wsl -- npx -y toolgate", "", ""},
	} {
		words := strings.Fields(tt.entry)
		runner, rest := throughRunner(clients.Start{Command: words[0], Args: words[1:]})
		require.Equal(t, tt.runner, runner, tt.entry)
		require.Equal(t, tt.words, strings.Join(rest, " "), tt.entry)
	}
}

func TestWhatPointsToUs(t *testing.T) {
	for _, tt := range []struct {
		start clients.Start
		want  bool
	}{
		{clients.Start{Command: "toolgate"}, true},
		{clients.Start{Command: `C:\bin\Toolgate.exe`}, true},
		{clients.Start{Command: "npx", Args: []string{"-y", "toolgate@0.1.0", "-C", "."}}, true},
		{clients.Start{Command: "npx", Args: []string{"-y", "toolgate-viewer"}}, false},
		{clients.Start{Command: "node", Args: []string{"toolgate"}}, false},
		{clients.Start{Command: "not-toolgate"}, false},
		{clients.Start{URL: "https://toolgate.example"}, false},
	} {
		require.Equal(t, tt.want, isUs(tt.start), "%v", tt.start)
	}
}

func TestSetupHidesSecrets(t *testing.T) {
	tables := map[string]map[string]any{"a": {"env": map[string]any{"PLAIN": "hunter2", "SHORT": "x"}, "headers": map[string]any{"X": "Bearer abcdef"}}}
	for in, want := range map[string]string{
		`"PLAIN": "hunter2"`:                               `"PLAIN": "…"`,
		`-"X": "Bearer abcdef"`:                            `-"X": "…"`,
		`"primaryApiKey": "sk-1"`:                          `"primaryApiKey": "…"`,
		`GITHUB_TOKEN = 'ghp_1' # c`:                       `GITHUB_TOKEN = "…" # c`,
		`bearer_token_env_var = 'OTHER'`:                   `bearer_token_env_var = "…"`,
		`PASSWORD: open sesame`:                            `PASSWORD: "…"`,
		`"max": 3, "command": "x"`:                         `"max": 3, "command": "x"`,
		`"Authorization": "Bearer ${TOOLGATE_HTTP_TOKEN}"`: `"Authorization": "Bearer ${TOOLGATE_HTTP_TOKEN}"`,
	} {
		require.Equal(t, want, hideSecrets(in, tables))
	}
}

// TestSetupMovesOnlyWhatWorksHere: a variable that the client fills in would
// reach the server as it stands.
func TestSetupMovesOnlyWhatWorksHere(t *testing.T) {
	require.True(t, fillsIn(config.MCPServer{Command: "x", Args: []string{"${workspaceFolder}"}}))
	require.True(t, fillsIn(config.MCPServer{Command: "x", Env: map[string]string{"A": "${input:a}"}}))
	require.False(t, fillsIn(config.MCPServer{Command: "x", EnvVars: []any{"A"}, Args: []string{"$HOME"}}))
}
