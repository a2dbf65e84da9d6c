package grep_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/tools/grep"
)

var update = flag.Bool("update", false, "write what the tool answers into testdata")

// TestGolden runs the calls of testdata/*.txtar. A file
// named "call", for grep_files, or "call find_files" holds arguments, the file after it, "want" or "error", what the
// model reads; the others are the workspace, each file older than the one
// before it.
func TestGolden(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, cases)
	for _, name := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			path, err := filepath.Abs(name)
			require.NoError(t, err)
			ar, err := txtar.ParseFile(path)
			require.NoError(t, err)
			if got := golden(t, ar); *update {
				require.NoError(t, os.WriteFile(path, got, 0o644))
			}
		})
	}
}

// golden runs the calls of ar and returns it with the answers they got.
func golden(t *testing.T, ar *txtar.Archive) []byte {
	work := t.TempDir()
	age := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, f := range ar.Files {
		if isStep(f.Name) {
			continue
		}
		path := filepath.Join(work, filepath.FromSlash(f.Name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if strings.HasSuffix(f.Name, "/") {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		require.NoError(t, os.WriteFile(path, f.Data, 0o644))
		age = age.Add(-time.Hour)
		require.NoError(t, os.Chtimes(path, age, age))
	}
	t.Chdir(work)
	var out []txtar.File
	for i := 0; i < len(ar.Files); i++ {
		f := ar.Files[i]
		out = append(out, f)
		tool := grep.Tool
		switch f.Name {
		case "call":
		case "call find_files":
			tool = grep.FindFiles
		default:
			continue
		}
		res := tool.Run(t.Context(), json.RawMessage(strings.ReplaceAll(string(f.Data), "$WORK", work)))
		got := txtar.File{Name: "want", Data: []byte(strings.ReplaceAll(text(res), work, "$WORK") + "\n")}
		if res.IsError {
			got.Name = "error"
		}
		out = append(out, got)
		if i+1 < len(ar.Files) && (ar.Files[i+1].Name == "want" || ar.Files[i+1].Name == "error") {
			i++
			if !*update {
				require.Equal(t, ar.Files[i].Name+"\n"+string(ar.Files[i].Data), got.Name+"\n"+string(got.Data), "%s", f.Data)
			}
			continue
		}
		require.True(t, *update, "no answer is given for %s", f.Data)
	}
	return txtar.Format(&txtar.Archive{Comment: ar.Comment, Files: out})
}

func isStep(name string) bool {
	return strings.HasPrefix(name, "call") || name == "want" || name == "error"
}

func text(res *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range res.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			b.WriteString(c.Text)
		}
	}
	return b.String()
}

func TestDescribe(t *testing.T) {
	for _, test := range []struct{ args, reads string }{
		{`{"pattern":"x"}`, "."},
		{`{"pattern":"x","path":"src"}`, "src"},
		{`{"pattern":"x","path":"/etc"}`, "/etc"},
	} {
		a, err := grep.Tool.Describe(json.RawMessage(test.args))
		require.NoError(t, err)
		require.Equal(t, policy.Action{Tool: "grep_files", Reads: []string{test.reads}, ReadOnly: true}, a)
	}
	for args, reads := range map[string]string{
		`{"pattern":"*.go"}`:                           ".",
		`{"pattern":"./a/*.go"}`:                       "a",
		`{"pattern":"../x/*.go","path":"src"}`:         "x",
		`{"pattern":"../*.go"}`:                        "..",
		`{"pattern":"/etc/**/*.conf","path":"src"}`:    "/etc",
		`{"pattern":"/*.conf","path":"src"}`:           "/",
		`{"pattern":"**/x/../../y/*","path":"src"}`:    "src",
		`{"pattern":"a/../../y/*.{a,b}","path":"src"}`: "y",
	} {
		a, err := grep.FindFiles.Describe(json.RawMessage(args))
		require.NoError(t, err)
		require.Equal(t, policy.Action{Tool: "find_files", Reads: []string{reads}, ReadOnly: true}, a, args)
	}
	_, err := grep.Tool.Describe(json.RawMessage(`{"path":"."}`))
	require.ErrorContains(t, err, `missing argument "pattern"`)
}
