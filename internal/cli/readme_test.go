package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/app"
	"toolgate/internal/config"
)

// TestReadmeTellsTheTruth: the commands and tools that it names are there, and
// its config says what is so without one.
func TestReadmeTellsTheTruth(t *testing.T) {
	t.Chdir("../..")
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	readme := string(text)

	root := (&program{}).command()
	for _, line := range regexp.MustCompile("(?m)^\\| `toolgate ([a-z]+)").FindAllStringSubmatch(readme, -1) {
		cmd, _, err := root.Find(line[1:])
		require.NoError(t, err, line[1])
		require.True(t, cmd.Name() == line[1] || line[1] == "completion", "no command %s", line[1])
	}

	all, _ := blocks(t, "README.md")
	whole := slices.IndexFunc(all, func(b block) bool { return strings.HasPrefix(b.text, "approval_policy") })
	require.GreaterOrEqual(t, whole, 0)
	file := filepath.Join(t.TempDir(), "config.toml")
	require.NoError(t, os.WriteFile(file, []byte(all[whole].text), 0o600))
	c, err := config.Load(file)
	require.NoError(t, err)
	approval, _, err := c.Approval()
	require.NoError(t, err)
	require.Equal(t, "on-request", approval.String())

	for _, tool := range app.Catalog(app.ToolSettings{}, nil) {
		require.True(t, strings.Contains(readme, "`"+tool.Name()+"`"), "the README does not name %s", tool.Name())
	}
}
