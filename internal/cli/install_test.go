package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/internal/clients"
)

// TestInstallDocument: the block of each client in docs/install.md says what
// setup would write.
func TestInstallDocument(t *testing.T) {
	t.Chdir("../..")
	text := readDocument(t, "docs/install.md")
	sections := map[string]string{}
	for _, m := range regexp.MustCompile(`(?s)<details><summary>([^<]+)</summary>(.*?)</details>`).FindAllStringSubmatch(text, -1) {
		sections[m[1]] = m[2]
	}
	known := clients.Known(clients.Places{Home: "/h", Config: "/c"})
	require.Len(t, sections, len(known))
	for _, c := range known {
		start := clients.Start{Command: "toolgate"}
		if !c.Projects {
			start.Args = []string{"-C", "/path/to/your/project"}
		}
		want, err := c.Table("toolgate", start, nil)
		require.NoError(t, err)
		found := regexp.MustCompile("(?s)```(?:json|toml|yaml)\n(.*?)```").FindStringSubmatch(sections[c.Title])
		require.NotNil(t, found, c.Title)
		tables, err := c.Files[0].Tables([]byte(found[1]))
		require.NoError(t, err)
		require.True(t, sameTable(want, tables["toolgate"]), "%s: setup writes %v, the document says %v", c.Title, want, tables["toolgate"])
	}

	// The steps for Ubuntu are doctor's own.
	steps := namespaceAdvice(surroundings{AppArmorRestricts: true}, "/usr/bin/toolgate")
	for _, line := range steps {
		if command, ok := strings.CutPrefix(line, "  "); ok {
			require.Contains(t, text, "\n"+command+"\n")
		}
	}
	container := containerAdvice(surroundings{Container: "docker"})
	for _, option := range strings.Fields(strings.Join(container, " ")) {
		if strings.Contains(option, "=unconfined") {
			require.True(t, slices.Contains(strings.Fields(text), option), option)
		}
	}
}

// TestNoDocumentStartsUsByARunner: a package runner takes a program of the
// workspace first, so no entry and no command in a project's folder names one.
func TestNoDocumentStartsUsByARunner(t *testing.T) {
	t.Chdir("../..")
	runner := regexp.MustCompile(`(?:npx|bunx|dlx|npm exec|npm x)["',\[ ]+(?:-y["', ]+)?@?toolgate`)
	files, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range append(files, "README.md", "npm/README.md") {
		for line := range strings.Lines(readDocument(t, name)) {
			if !strings.Contains(line, "cd ~ && npx -y toolgate setup") {
				require.NotRegexp(t, runner, line, name)
			}
		}
	}
}

func readDocument(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}
