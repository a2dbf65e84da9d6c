package applypatch_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"toolgate/tools"
	"toolgate/tools/applypatch"
)

var update = flag.Bool("update", false, "rewrite the error and out sections of the cases")

// A testCase is one file of testdata. Its sections:
//
//	in/PATH      a file before; want/PATH: the same after, all of them
//	patch        the patch
//	setup, check one deed or fact a line: mode PATH 0755, symlink PATH TARGET, hardlink PATH OLD, mkdir PATH
//	error        the text of a refusal: then nothing may have changed
//	out          the text of a success, where it is of interest
//
// A section whose name ends in .q holds Go string literals, one a line, for
// bytes that txtar cannot carry.
type testCase struct {
	file    string // relative
	abs     string
	archive *txtar.Archive
	in      map[string]string
	want    map[string]string
	patch   string
	setup   []string
	check   []string
	err     string
	out     string
}

func readCases(t testing.TB) []*testCase {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files, "no cases found")
	var cases []*testCase
	for _, f := range files {
		cases = append(cases, readCase(t, f))
	}
	return cases
}

func readCase(t testing.TB, file string) *testCase {
	ar, err := txtar.ParseFile(file)
	require.NoError(t, err)
	abs, err := filepath.Abs(file)
	require.NoError(t, err)
	c := &testCase{file: file, abs: abs, archive: ar, in: map[string]string{}, want: map[string]string{}}
	for _, f := range ar.Files {
		name, data := f.Name, string(f.Data)
		if n, ok := strings.CutSuffix(name, ".q"); ok {
			name, data = n, unquoteLines(t, file, data)
		}
		switch {
		case strings.HasPrefix(name, "in/"):
			c.in[strings.TrimPrefix(name, "in/")] = data
		case strings.HasPrefix(name, "want/"):
			c.want[strings.TrimPrefix(name, "want/")] = data
		case name == "patch":
			c.patch = data
		case name == "setup":
			c.setup = strings.Split(strings.TrimSpace(data), "\n")
		case name == "check":
			c.check = strings.Split(strings.TrimSpace(data), "\n")
		case name == "error":
			c.err = data
		case name == "out":
			c.out = data
		default:
			t.Fatalf("%s: unknown section %s", file, f.Name)
		}
	}
	return c
}

func unquoteLines(t testing.TB, file, data string) string {
	var b strings.Builder
	for line := range strings.Lines(data) {
		s, err := strconv.Unquote(strings.TrimSpace(line))
		require.NoError(t, err, "%s: %s", file, line)
		b.WriteString(s)
	}
	return b.String()
}

func (c *testCase) name() string {
	return strings.TrimSuffix(filepath.Base(c.file), ".txtar")
}

// lay puts the files of the case into dir.
func (c *testCase) lay(t testing.TB, dir string) {
	for name, data := range c.in {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(data), 0o644))
	}
	for _, line := range c.setup {
		f := strings.Fields(line)
		path := filepath.Join(dir, f[1])
		switch f[0] {
		case "mode":
			mode, err := strconv.ParseUint(f[2], 8, 32)
			require.NoError(t, err)
			require.NoError(t, os.Chmod(path, fs.FileMode(mode)))
		case "symlink":
			require.NoError(t, os.Symlink(f[2], path))
		case "hardlink":
			require.NoError(t, os.Link(filepath.Join(dir, f[2]), path))
		case "mkdir":
			require.NoError(t, os.MkdirAll(path, 0o755))
		default:
			t.Fatalf("%s: unknown setup %q", c.file, line)
		}
	}
}

// fact returns what is wrong with one line of the check section in dir, "" for
// nothing.
func (c *testCase) fact(t testing.TB, dir, line string) string {
	f := strings.Fields(line)
	info, err := os.Lstat(filepath.Join(dir, f[1]))
	if err != nil {
		return err.Error()
	}
	switch f[0] {
	case "mode":
		if mode := fmt.Sprintf("%04o", info.Mode().Perm()); mode != f[2] {
			return fmt.Sprintf("the mode of %s is %s", f[1], mode)
		}
	case "symlink":
		if target, _ := os.Readlink(filepath.Join(dir, f[1])); target != f[2] {
			return fmt.Sprintf("%s leads to %q", f[1], target)
		}
	case "hardlink":
		other, err := os.Lstat(filepath.Join(dir, f[2]))
		if err != nil || !os.SameFile(info, other) {
			return fmt.Sprintf("%s and %s are not the same file any more", f[1], f[2])
		}
	default:
		t.Fatalf("%s: unknown check %q", c.file, line)
	}
	return ""
}

// factsHold holds dir against the whole check section.
func (c *testCase) factsHold(t testing.TB, dir string) bool {
	for _, line := range c.check {
		if c.fact(t, dir, line) != "" {
			return false
		}
	}
	return true
}

// tree returns the files below dir, links as what they lead to.
func tree(t testing.TB, dir string) map[string]string {
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		data, err := os.ReadFile(path)
		if err != nil {
			target, _ := os.Readlink(path)
			data = []byte("-> " + target)
		}
		files[filepath.ToSlash(name)] = string(data)
		return nil
	}))
	return files
}

func call(t testing.TB, tool tools.Tool, args any) (text string, isError bool) {
	raw, err := json.Marshal(args)
	require.NoError(t, err)
	res := tool.Run(t.Context(), raw)
	require.Len(t, res.Content, 1)
	return res.Content[0].(*mcp.TextContent).Text, res.IsError
}

type patchArgs struct {
	Input string `json:"input"`
}

func TestCases(t *testing.T) {
	for _, c := range readCases(t) {
		t.Run(c.name(), func(t *testing.T) {
			dir := t.TempDir()
			c.lay(t, dir)
			before := tree(t, dir)
			t.Chdir(dir)
			text, isError := call(t, applypatch.Tool, patchArgs{c.patch})
			if *update {
				c.rewrite(t, text, isError)
				return
			}
			if c.err != "" {
				require.True(t, isError, "want an error, got: %s", text)
				require.Equal(t, strings.TrimRight(c.err, "\n"), text)
				require.Equal(t, before, tree(t, dir), "a refused patch changed something")
				return
			}
			require.False(t, isError, text)
			require.True(t, strings.HasPrefix(text, "Success. Updated the following files:\n"), text)
			if c.out != "" {
				require.Equal(t, strings.TrimRight(c.out, "\n"), text)
			}
			require.Equal(t, c.want, tree(t, dir))
			for _, line := range c.check {
				require.Empty(t, c.fact(t, dir, line))
			}
		})
	}
}

// rewrite puts text into the error or out section of the case, where it has
// one.
func (c *testCase) rewrite(t testing.TB, text string, isError bool) {
	for i := range c.archive.Files {
		f := &c.archive.Files[i]
		if f.Name == "error" && isError || f.Name == "out" && !isError {
			f.Data = []byte(text + "\n")
		}
	}
	data := txtar.Format(c.archive)
	if old, err := os.ReadFile(c.abs); err == nil && !bytes.Equal(old, data) {
		require.NoError(t, os.WriteFile(c.abs, data, 0o644))
	}
}
