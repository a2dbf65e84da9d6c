package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// starts is every place that starts a process, with the reason why it may. The gate starts what runs
// outside the sandbox by programs.Finder.Command alone.
var starts = map[string]string{
	"internal/programs/programs.go: exec.CommandContext": "the one that finds the program where commands cannot write",

	"sandbox/cmd.go: exec.Cmd":                "the first process of a sandbox: this very binary, or bubblewrap by a fixed path",
	"sandbox/init_linux.go: syscall.ForkExec": "the program inside the sandbox",
	"sandbox/sandbox_other.go: exec.Command":  "workers, and servers whose program the gate has found; there is no sandbox",

	"tools/shell/process.go: exec.Cmd":             "a model's command, in the worker",
	"tools/shell/process_windows.go: exec.Command": "taskkill by its full path, in the worker",
}

// development is what no user runs.
var development = []string{"bench", "npm", ".ci"}

// starters are the functions and types of other packages that start a process.
var starters = map[string][]string{
	"os/exec":                  {"Command", "CommandContext", "Cmd"},
	"os":                       {"StartProcess"},
	"syscall":                  {"ForkExec", "StartProcess", "Exec", "CreateProcess", "CreateProcessAsUser"},
	"golang.org/x/sys/unix":    {"Exec"},
	"github.com/creack/pty":    {"Start", "StartWithSize", "StartWithAttrs"},
	"golang.org/x/sys/windows": {"CreateProcess", "CreateProcessAsUser", "ShellExecute"},
}

// TestStarts holds the table against the source. A value of type exec.Cmd counts, since its Start
// does, and a pointer to one does not, since it must come from somewhere.
func TestStarts(t *testing.T) {
	found := map[string]bool{}
	files := 0
	require.NoError(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(file)
		if d.IsDir() && (name == ".git" || slices.Contains([]string{"testdata", "vendor"}, d.Name()) || slices.Contains(development, name)) {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files++
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, call := range startsIn(parsed) {
			place := name + ": " + call
			require.Contains(t, starts, place, "start it by programs.Finder.Command, or give a reason")
			found[place] = true
		}
		return nil
	}))
	require.Greater(t, files, 200)
	for place := range starts {
		require.True(t, found[place], "%s is in the table and not in the tree", place)
	}
}

// startsIn returns the uses of starters in a file, as package and name.
func startsIn(file *ast.File) (list []string) {
	imported := map[string]string{} // import paths by the name in the file
	for _, i := range file.Imports {
		full := strings.Trim(i.Path.Value, `"`)
		name := path.Base(full)
		if i.Name != nil {
			name = i.Name.Name
		}
		imported[name] = full
	}
	pointed := map[ast.Expr]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if star, ok := n.(*ast.StarExpr); ok {
			pointed[star.X] = true
		}
		use, ok := n.(*ast.SelectorExpr)
		if !ok || pointed[use] {
			return true
		}
		if pkg, ok := use.X.(*ast.Ident); ok && slices.Contains(starters[imported[pkg.Name]], use.Sel.Name) {
			list = append(list, path.Base(imported[pkg.Name])+"."+use.Sel.Name)
		}
		return true
	})
	return list
}

// The search itself finds what it is to find.
func TestStartsAreFound(t *testing.T) {
	const text = `package p
import ("os"; e "os/exec"; "syscall")
var a = e.Command
func f(c *e.Cmd) { b := e.Cmd{}; d := new(e.Cmd); os.StartProcess("", nil, nil); syscall.Exec("", nil, nil); _, _ = b, d }
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, parser.SkipObjectResolution)
	require.NoError(t, err)
	require.Equal(t, []string{"exec.Command", "exec.Cmd", "exec.Cmd", "os.StartProcess", "syscall.Exec"}, startsIn(file))
}
