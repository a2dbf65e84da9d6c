package files_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"toolgate/policy"
	"toolgate/tools"
	"toolgate/tools/files"
)

var update = flag.Bool("update", false, "write what the tools answer into testdata")

var catalog = map[string]tools.Tool{}

func init() {
	for _, t := range []tools.Tool{files.ReadFile, files.ListDir, files.ViewImage, files.WriteFile} {
		catalog[t.Name()] = t
	}
}

// TestGolden runs the calls of testdata/*.txtar. A file named "call TOOL" holds
// arguments, the file after it, "want" or "error", what the model reads; the
// others are the workspace. $WORK stands for its path.
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
	}
	t.Chdir(work)
	var out []txtar.File
	for i := 0; i < len(ar.Files); i++ {
		f := ar.Files[i]
		out = append(out, f)
		tool, ok := strings.CutPrefix(f.Name, "call ")
		if !ok {
			continue
		}
		res := call(t, tool, string(f.Data))
		got := txtar.File{Name: "want", Data: []byte(strings.ReplaceAll(text(res), work, "$WORK") + "\n")}
		if res.IsError {
			got.Name = "error"
		}
		out = append(out, got)
		if i+1 < len(ar.Files) && (ar.Files[i+1].Name == "want" || ar.Files[i+1].Name == "error") {
			i++
			if !*update {
				require.Equal(t, ar.Files[i].Name+"\n"+string(ar.Files[i].Data), got.Name+"\n"+string(got.Data), "%s %s", tool, f.Data)
			}
			continue
		}
		require.True(t, *update, "no answer is given for %s %s", tool, f.Data)
	}
	return txtar.Format(&txtar.Archive{Comment: ar.Comment, Files: out})
}

func isStep(name string) bool {
	return strings.HasPrefix(name, "call ") || name == "want" || name == "error"
}

func call(t testing.TB, tool, args string) *mcp.CallToolResult {
	t.Helper()
	require.Contains(t, catalog, tool)
	return catalog[tool].Run(t.Context(), json.RawMessage(args))
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
	for _, test := range []struct {
		tool, args string
		want       policy.Action
		err        string
	}{
		{"read_file", `{"file_path":"a/b.txt"}`, policy.Action{Tool: "read_file", Reads: []string{"a/b.txt"}, ReadOnly: true}, ""},
		{"read_file", `{"file_path":""}`, policy.Action{}, "file_path is empty"},
		{"read_file", `{}`, policy.Action{}, `missing argument "file_path"`},
		{"list_dir", `{"dir_path":"/etc"}`, policy.Action{Tool: "list_dir", Reads: []string{"/etc"}, ReadOnly: true}, ""},
		{"list_dir", `{"dir_path":""}`, policy.Action{}, "dir_path is empty"},
	} {
		a, err := catalog[test.tool].Describe(json.RawMessage(test.args))
		if test.err != "" {
			require.ErrorContains(t, err, test.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, test.want, a)
	}
}
