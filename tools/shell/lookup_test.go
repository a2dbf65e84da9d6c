package shell

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWindowsPath knows the files of a system with Windows and finds programs
// among them.
func TestWindowsPath(t *testing.T) {
	const ws = `C:\Users\me\app`
	files := map[string]string{ // and where they lie
		`c:\windows\system32\cmd.exe`:                               "",
		`c:\windows\system32\windowspowershell\v1.0\powershell.exe`: "",
		`c:\windows\system32\bash.exe`:                              "",
		`c:\git\bin\bash.exe`:                                       "",
		`c:\git\bin\git.exe`:                                        "",
		`c:\git\bin\cmd.exe`:                                        "",
		`c:\node\npm.cmd`:                                           "",
		`c:\node\npm`:                                               "",
		`c:\node\tool.py`:                                           "",
		`c:\links\linked.exe`:                                       `C:\Users\me\APP\linked.exe`,
		`c:\users\me\app\git.exe`:                                   "",
		`c:\users\me\app\node_modules\.bin\git.exe`:                 "",
		`c:\users\me\app\node_modules\.bin\planted.exe`:             "",
		`c:\users\me\app\planted.exe`:                               "",
		`c:\users\me\app\..\app\planted.exe`:                        "",
		`.\planted.exe`:                                             "",
		`bin\planted.exe`:                                           "",
		`\planted.exe`:                                              "",
		`\\host\share\planted.exe`:                                  "",
		`c:planted.exe`:                                             "",
		`c:\users\me\app2\planted2.exe`:                             "",
	}
	w := windowsPath{
		path: strings.Join([]string{
			"", ".", "bin", `\`, "c:", `\\host\share`, `"C:\un`, `closed"`,
			ws, `c:/users/ME/app/node_modules/.bin`, ws + `\..\app\`,
			`"C:\Git\bin"`, `C:\Links`, `C:\Windows\System32\`, `C:/Node`, `C:\Users\me\app2`,
		}, ";"),
		exts:      ".COM;.EXE;.CMD;",
		system:    `C:\Windows\System32`,
		workspace: ws,
		real: func(file string) (string, bool) {
			to, ok := files[strings.ToLower(file)]
			return cmp.Or(to, file), ok
		},
	}
	for name, want := range map[string]string{
		"git":         `C:\Git\bin\git.exe`,
		"GIT.EXE":     `C:\Git\bin\GIT.EXE`,
		"bash":        `C:\Git\bin\bash.exe`,
		"cmd":         `C:\Windows\System32\cmd.exe`,
		"Cmd.exe":     `C:\Windows\System32\cmd.exe`,
		"powershell":  `C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe`,
		"npm":         `C:\Node\npm.cmd`,
		"npm.cmd":     `C:\Node\npm.cmd`,
		"tool.py":     `C:\Node\tool.py`,
		"planted2":    `C:\Users\me\app2\planted2.exe`,
		"planted":     "",
		"planted.exe": "",
		"linked":      "",
		"nowhere":     "",
		"":            "",
	} {
		require.Equal(t, want, w.find(name), name)
	}
	w.exts = ""
	require.Equal(t, `C:\Git\bin\git.exe`, w.find("git"))
	w.path = ""
	require.Empty(t, w.find("git"))
}

// TestNoProgramFromTheCurrentFolder: a program of the system's is started by
// its path, and one that was found in the current folder is none.
func TestNoProgramFromTheCurrentFolder(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	require.Greater(t, len(files), 10)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotContains(t, string(text), "exec.ErrDot", file)
		require.NotRegexp(t, `exec\.Command(Context)?\((ctx, )?"`, string(text), file)
	}
}
