package shell_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/tools/shell"
)

// TestDenied runs commands whose writes are confined to one folder and that
// have no network. What the sandbox refused is told apart from what fails
// anyway.
func TestDenied(t *testing.T) {
	for level, system := range levels(t) {
		t.Run(level, func(t *testing.T) {
			inside, outside := t.TempDir(), t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(outside, "old"), nil, 0o666))
			c := startConfined(t, system, inside, shell.Options{})
			names := strings.NewReplacer("OUT", outside, "BASE", filepath.Base(outside))
			for _, row := range []struct{ name, script, want string }{
				{"a write", "echo x > OUT/file", "write OUT/file"},
				{"an old file", "echo x >> OUT/old", "write OUT/old"},
				{"a quoted path", "touch OUT/other", "write OUT/other"},
				{"a folder", "mkdir OUT/a", "write OUT/a"},
				{"a relative path", "touch ../BASE/x", "write ../BASE/x"},
				{"the network", "echo 'curl: (6) Could not resolve host: example.com'; exit 6", "network"},
				{"inside", "touch file", ""},
				{"a program that may not be run", "touch script; ./script", ""},
				{"words that name nothing", "echo 'touch: cannot touch something: Permission denied'; exit 1", ""},
				{"a file that could be written", "touch mine; echo \"chown: changing ownership of 'mine': Operation not permitted\"; exit 1", ""},
				{"failing for itself", "cat nosuch", ""},
				{"a path that cannot be", "echo 'touch: /nosuch/dir/x: Permission denied'; exit 1", ""},
				{"not failing", "echo x > OUT/file; true", ""},
			} {
				t.Run(row.name, func(t *testing.T) {
					res := c.call("shell", map[string]any{"command": names.Replace(row.script)})
					want := names.Replace(row.want)
					if want == "" {
						require.NotContains(t, textOf(res), "The sandbox refused")
						require.NotContains(t, res.Meta, policy.DeniedKey)
						return
					}
					require.Contains(t, textOf(res), fmt.Sprintf("\nThe sandbox refused this: %s: ", want))
					require.Contains(t, res.Meta, policy.DeniedKey)
				})
			}
		})
	}
}
