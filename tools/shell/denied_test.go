package shell_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/sandbox"
	"toolgate/tools"
	"toolgate/tools/shell"
)

// TestDenied runs commands whose writes are confined to one folder. What the
// sandbox refused is told apart from what fails anyway.
func TestDenied(t *testing.T) {
	inside, outside := t.TempDir(), t.TempDir()
	system := sandbox.Probe()
	if system.Level() == sandbox.None {
		if os.Getenv("REQUIRE_SANDBOX") != "" {
			t.Fatal("no sandbox here, and REQUIRE_SANDBOX is set")
		}
		t.Skip("no sandbox here")
	}
	plan, err := sandbox.NewPlan(policy.Profile{Mode: policy.WorkspaceWrite, WritableRoots: []string{inside}}, system)
	require.NoError(t, err)
	spawner, err := sandbox.NewSpawner(plan)
	require.NoError(t, err)
	t.Cleanup(func() { spawner.Close() })

	names := strings.NewReplacer("OUT", outside, "BASE", filepath.Base(outside))
	for _, c := range []struct{ name, script, want string }{
		{"a write", "echo x > OUT/file", "write OUT/file"},
		{"a quoted path", "touch OUT/other", "write OUT/other"},
		{"a folder", "mkdir OUT/a", "write OUT/a"},
		{"a relative path", "touch ../BASE/x", "write ../BASE/x"},
		{"inside", "touch file", ""},
		{"failing for itself", "cat nosuch", ""},
		{"only words", "echo 'touch: /nosuch/dir/x: Permission denied'; exit 1", ""},
		{"not failing", "echo x > OUT/file; true", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, start := range []func(*exec.Cmd) error{spawner.Start, nil} {
				tool := shell.Tools(shell.Options{}, start)[0]
				args, err := json.Marshal(map[string]any{"command": names.Replace(c.script), "workdir": inside})
				require.NoError(t, err)
				res := tool.Run(t.Context(), args)
				want := names.Replace(c.want)
				if start == nil || want == "" {
					require.NotContains(t, textOf(res), "The sandbox refused")
					require.NotContains(t, res.Meta, tools.DeniedKey)
					continue
				}
				require.Contains(t, textOf(res), fmt.Sprintf("The sandbox refused this: %s: ", want))
				require.Equal(t, strings.TrimPrefix(want, "write "), res.Meta[tools.DeniedKey].(*tools.Denial).Path)
			}
		})
	}
}
