package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/clients"
	"toolgate/config"
)

func TestSetupStartsWhatItWasStartedAs(t *testing.T) {
	for _, tt := range []struct {
		self, goos string
		want       clients.Start
	}{
		{"/usr/local/bin/toolgate", "linux", clients.Start{Command: "/usr/local/bin/toolgate"}},
		{`C:\Program Files\toolgate\toolgate.exe`, "windows", clients.Start{Command: `C:\Program Files\toolgate\toolgate.exe`}},
		{"/home/u/.npm/_npx/1a2b/node_modules/@toolgate/linux-x64/bin/toolgate", "linux", clients.Start{Command: "npx", Args: []string{"-y", "toolgate"}}},
		{`C:\Users\u\AppData\Local\npm-cache\_npx\1a\node_modules\@toolgate\win32-x64\bin\toolgate.exe`, "windows", clients.Start{Command: "cmd", Args: []string{"/c", "npx", "-y", "toolgate"}}},
		{"/usr/lib/node_modules/@toolgate/linux-x64/bin/toolgate", "linux", clients.Start{Command: "/usr/lib/node_modules/@toolgate/linux-x64/bin/toolgate"}},
	} {
		got, err := startOf(tt.self, tt.goos)
		require.NoError(t, err)
		require.Equal(t, tt.want, got)
		if tt.want.Command != tt.self {
			require.True(t, isUs(got), "%v", got)
		}
	}
	_, err := startOf("/tmp/go-build123/b001/exe/toolgate", "linux")
	require.ErrorContains(t, err, "gone in a moment")
}

// TestSetupWritesAPathThatLasts: the name that stays, not the version's folder
// behind it.
func TestSetupWritesAPathThatLasts(t *testing.T) {
	dir := t.TempDir()
	self := filepath.Join(dir, "Caskroom", "toolgate", "1.2.3", "toolgate")
	store := filepath.Join(dir, ".pnpm", "toolgate")
	for _, file := range []string{self, store, filepath.Join(dir, "elsewhere", "toolgate")} {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755))
	}
	bin := filepath.Join(dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	link := filepath.Join(bin, "toolgate")
	if err := os.Symlink(self, link); err != nil || runtime.GOOS == "windows" {
		t.Skip("links and programs without .exe are needed")
	}
	t.Setenv("PATH", bin)
	require.Equal(t, link, lasting(self))
	require.Equal(t, link, lasting(store))
	t.Setenv("PATH", filepath.Join(dir, "elsewhere"))
	require.Equal(t, self, lasting(self), "that is another program")
	t.Setenv("PATH", dir)
	require.Equal(t, self, lasting(self))
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
