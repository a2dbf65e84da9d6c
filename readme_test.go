package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/config"
)

// TestReadmeTellsTheTruth: the commands it names are there, its config is one
// that is read, and its links lead somewhere.
func TestReadmeTellsTheTruth(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	readme := string(text)

	root := (&program{}).command()
	for _, line := range regexp.MustCompile("(?m)^\\| `toolgate ([a-z]+)").FindAllStringSubmatch(readme, -1) {
		cmd, _, err := root.Find(line[1:])
		require.NoError(t, err, line[1])
		require.True(t, cmd.Name() == line[1] || line[1] == "completion", "no command %s", line[1])
	}

	blocks := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(readme, -1)
	require.Len(t, blocks, 2) // the second is toolgate's own
	file := filepath.Join(t.TempDir(), "config.toml")
	require.NoError(t, os.WriteFile(file, []byte(blocks[1][1]), 0o600))
	c, err := config.Load(file)
	require.NoError(t, err)
	approval, _, err := c.Approval()
	require.NoError(t, err)
	require.Equal(t, "on-request", approval.String())
	require.Contains(t, c.MCPServers, "everything")

	for _, doc := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/policy.md", "docs/clients.md", "docs/sandbox.md", "docs/commands.md", "docs/apply_patch.md", "docs/console.md"} {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for _, link := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(string(text), -1) {
			require.FileExists(t, filepath.Join(filepath.Dir(doc), link[1]), "%s links to it", doc)
		}
	}
	for _, tool := range catalog(toolSettings{}, nil) {
		require.True(t, strings.Contains(readme, "`"+tool.Name()+"`"), "the README does not name %s", tool.Name())
	}
}
