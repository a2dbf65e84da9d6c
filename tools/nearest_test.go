package tools_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/tools"
)

// TestNearest: a path that does not exist is answered with those that do.
func TestNearest(t *testing.T) {
	ws := t.TempDir()
	t.Chdir(ws)
	for _, f := range []string{
		"main.go", "web/x.js", "web/deep/x.js", "web/App.tsx", "src/util/strings.go", "lib/util/strings.go", "lib/strings.go",
		"x/strings.go", ".git/config", ".env", "node_modules/left.js", "docs/tools.md", "lnik/a", "secret/key",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(f), 0o755))
		require.NoError(t, os.WriteFile(f, []byte("x"), 0o644))
	}
	require.NoError(t, os.MkdirAll("empty", 0o755))
	require.NoError(t, os.Symlink("/dev/null", "masked.go"))
	for _, c := range []struct {
		path   string
		folder bool
		want   []string
	}{
		{"a/web/x.js", false, []string{"web/x.js"}},
		{"/main.go", false, []string{"main.go"}},
		{ws[1:] + "/main.go", false, []string{ws + "/main.go"}},
		{"mian.go", false, []string{"main.go"}},
		{"main.gos", false, []string{"main.go"}},
		{"man.go", false, []string{"main.go"}},
		{"Main.go", false, []string{"main.go"}},
		{"web/app.ts", false, []string{"web/App.tsx"}},
		{"wib/x.js", false, []string{"web/x.js"}},
		{"old/util/strings.go", false, []string{"lib/util/strings.go", "src/util/strings.go", "lib/strings.go"}},
		{"App.tsx", false, []string{"web/App.tsx"}},
		{"utils", true, nil},
		{"src/utils", true, []string{"src/util"}},
		{"util", true, []string{"lib/util", "src/util"}},
		{"web/x.js", true, nil},
		{"config", false, nil},
		{".evn", false, []string{".env"}},
		{"env", false, nil},
		{"left.js", false, nil},
		{"emptyy", true, nil},
		{"maskd.go", false, nil},
		{"nothing/like/it", false, nil},
	} {
		require.Equal(t, c.want, tools.NearestPaths(c.path, c.folder), c.path)
	}
	err := tools.NewMissing("mian.go", false, "does not exist", "give up")
	require.EqualError(t, err, "mian.go: does not exist; did you mean main.go?")
	err.Near = nil
	require.EqualError(t, err, "mian.go: does not exist; give up")
}
