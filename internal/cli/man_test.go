package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// There is a man page for each command that help names, and man reads it.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	p := &program{stdout: os.Stdout, stderr: os.Stderr}
	root := p.command()
	require.NoError(t, writeManPages(root, dir))
	for _, page := range []string{"toolgate", "toolgate-sandbox", "toolgate-mcp-add", "toolgate-policy-check"} {
		text, err := os.ReadFile(filepath.Join(dir, page+".1"))
		require.NoError(t, err)
		for _, part := range []string{".TH", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS", ".SH SEE ALSO"} {
			require.Contains(t, string(text), part, page)
		}
	}
	require.NoFileExists(t, filepath.Join(dir, "toolgate-worker.1"), "it is not for people")
	needProgram(t, "man")
	cmd := exec.Command("man", "--warnings", "-P", "cat", "-l", filepath.Join(dir, "toolgate-sandbox.1"))
	cmd.Env = append(os.Environ(), "LANG=C", "MANWIDTH=100")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), "warning")
	require.Contains(t, strings.Join(strings.Fields(string(out)), " "), "toolgate sandbox [flags] -- CMD [ARG...]")
}
