package shell_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/policy/shell"
)

func TestScriptFiles(t *testing.T) {
	script := func(s string) []string { return []string{"bash", "-c", s} }
	for _, tt := range []struct {
		name    string
		argv    []string
		files   []string
		folders []string
		unknown bool
	}{
		{"a shell", []string{"bash", "-x", "x.sh", "y.sh"}, []string{"x.sh"}, nil, false},
		{"a shell and its startup file", []string{"bash", "--rcfile", "rc", "x.sh"}, []string{"rc", "x.sh"}, nil, false},
		{"python", []string{"python3", "-u", "a.py", "b"}, []string{"a.py"}, nil, false},
		{"a module", []string{"python3", "-m", "pytest", "a.py"}, nil, nil, false},
		{"code in the words", []string{"python3", "-c", "x", "a.py"}, nil, nil, false},
		{"node", []string{"node", "--require", "./hook.js", "x.js"}, []string{"./hook.js", "x.js"}, nil, false},
		{"deno", []string{"deno", "run", "--allow-net", "x.ts"}, []string{"run", "x.ts"}, nil, false},
		{"go", []string{"go", "run", "a.go", "b.go", "arg"}, []string{"a.go", "b.go"}, nil, false},
		{"source", script("source a.sh; . ./b.sh"), []string{"a.sh", "./b.sh"}, nil, false},
		{"make", []string{"make", "-C", "sub", "-f", "my.mk"}, []string{"my.mk"}, []string{"sub"}, false},
		{"a long option", []string{"docker", "compose", "--file=c.yml", "up"}, []string{"c.yml"}, nil, false},
		{"attached", []string{"awk", "-fx.awk", "data"}, []string{"x.awk"}, nil, false},
		{"force is no file", []string{"rm", "-f", "x"}, nil, nil, false},
		{"a path", []string{"./run", "x"}, []string{"./run"}, nil, false},
		{"a program of the system", []string{"/usr/bin/git", "status"}, nil, nil, false},
		{"behind wrappers", []string{"sudo", "-n", "env", "A=b", "timeout", "5", "bash", "x.sh"}, []string{"x.sh"}, nil, false},
		{"another folder", script("cd sub && bash x.sh"), []string{"x.sh"}, []string{"sub"}, false},
		{"home", script("cd; bash x.sh"), []string{"x.sh"}, nil, true},
		{"a variable", script("bash \"$f\""), nil, nil, true},
		{"a variable with a value", script("f=x.sh; bash $f"), []string{"x.sh"}, nil, true},
		{"a pattern", script("bash *.sh"), nil, nil, true},
		{"standard input", script("bash < x.sh"), []string{"x.sh"}, nil, false},
		{"a text", script("bash <<< ls"), nil, nil, false},
		{"data", script("cat x.sh; grep -r y ."), nil, nil, false},
		{"elsewhere", []string{"ssh", "host", "bash", "x.sh"}, nil, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := shell.Find(tt.argv).ScriptFiles
			require.ElementsMatch(t, tt.files, got.Names)
			require.Equal(t, tt.folders, got.Folders)
			require.Equal(t, tt.unknown, got.Unknown)
		})
	}
}
