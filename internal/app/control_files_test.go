package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/config"
)

// TestHookFiles lists commands of hooks that run hooks/guard.sh in the workspace, however
// they name it.
func TestHookFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PWD", "/elsewhere") // of the gate
	t.Setenv("GUARD", "guard.sh")
	guard := filepath.Join(dir, "hooks", "guard.sh")
	require.NoError(t, os.Mkdir(filepath.Dir(guard), 0o755))
	require.NoError(t, os.WriteFile(guard, nil, 0o644))
	for _, command := range []string{
		"sh hooks/guard.sh", "./hooks/guard.sh --all", "sh 'hooks/guard.sh'", "sh hooks/$GUARD",
		"cd hooks && sh guard.sh", "cd hooks; . ./guard.sh", "env -C hooks sh guard.sh", "make --directory=hooks -f guard.sh",
		"sh < hooks/guard.sh", "cat hooks/guard.sh | sh", "sh hooks/*.sh", `sh "$PWD/hooks/guard.sh"`,
		`sh "${PWD}"/hooks/guard.sh`, "x=$(sh hooks/guard.sh)", "if sh hooks/guard.sh; then true; fi", "echo `sh hooks/guard.sh`",
	} {
		h := config.Hooks{PreToolUse: []config.HookGroup{{Hooks: []config.Hook{{Type: "command", Command: command}}}}}
		require.Contains(t, hookFiles(h, dir), guard, command)
	}
	for _, command := range []string{"gofmt -l hooks/*.sh", "jq '.a * 2'"} {
		h := config.Hooks{PreToolUse: []config.HookGroup{{Hooks: []config.Hook{{Type: "command", Command: command}}}}}
		require.NotContains(t, hookFiles(h, dir), guard, command)
	}
	missing := config.Hooks{PreToolUse: []config.HookGroup{{Hooks: []config.Hook{{Command: "hooks/missing.sh x"}}}}}
	require.Contains(t, hookFiles(missing, dir), filepath.Join(dir, "hooks", "missing.sh"))
}
