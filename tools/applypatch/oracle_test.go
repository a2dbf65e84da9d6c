package applypatch_test

import (
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// differs returns why Codex does something else with the case, "" when it
// does the same.
func (c *testCase) differs() string {
	for line := range strings.Lines(string(c.archive.Comment)) {
		if why, ok := strings.CutPrefix(line, "codex: differs: "); ok {
			return strings.TrimSpace(why)
		}
	}
	return ""
}

// The cases in Codex's format do to the files what Codex's own apply_patch
// does, but where they say that they differ: there they must.
//
// APPLY_PATCH_ORACLE is the path of Codex's binary under the name apply_patch.
func TestAgreesWithCodex(t *testing.T) {
	oracle := os.Getenv("APPLY_PATCH_ORACLE")
	if oracle == "" {
		if os.Getenv("REQUIRE_ORACLE") == "1" {
			t.Fatal("REQUIRE_ORACLE=1, but APPLY_PATCH_ORACLE is not set")
		}
		t.Skip("APPLY_PATCH_ORACLE is not set")
	}
	for _, c := range readCases(t) {
		if strings.HasPrefix(c.name(), "unified_") {
			continue
		}
		t.Run(c.name(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c.lay(t, dir)
			cmd := exec.CommandContext(t.Context(), oracle, c.patch)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			same := (err != nil) == (c.err != "")
			if c.err == "" {
				same = same && maps.Equal(c.want, tree(t, dir)) && c.factsHold(t, dir)
			}
			if why := c.differs(); why != "" {
				require.False(t, same, "it says that Codex differs, because %s; but it does not", why)
				return
			}
			require.True(t, same, "Codex (%v): %s\nleft %q", err, out, tree(t, dir))
		})
	}
}
