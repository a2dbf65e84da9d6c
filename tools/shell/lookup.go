package shell

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"toolgate/policy"
)

// A windowsPath is where Windows has the programs that are known by their
// names. exec.LookPath would begin with the current folder.
type windowsPath struct {
	path, exts string // of the environment
	system     string // the folder of the system's own programs
	workspace  string // holds none

	// real returns where a file lies, links followed; ok is false for what is
	// no file.
	real func(file string) (path string, ok bool)
}

// systemShells are the shells of the system, in its folder.
var systemShells = map[string]string{
	"cmd":        `\cmd.exe`,
	"powershell": `\WindowsPowerShell\v1.0\powershell.exe`,
}

// find returns the file of the program name, "" when there is none: whoever
// can write the workspace, the model among them, must not choose what a bare
// name runs.
func (w windowsPath) find(name string) string {
	lower := strings.ToLower(name)
	if own := systemShells[strings.TrimSuffix(lower, ".exe")]; own != "" {
		if _, ok := w.real(w.system + own); ok {
			return w.system + own
		}
	}
	ends := strings.Split(strings.ToLower(cmp.Or(w.exts, ".com;.exe;.bat;.cmd")), ";")
	if strings.Contains(name, ".") {
		ends = append([]string{""}, ends...)
	}
	for folder := range strings.SplitSeq(w.path, ";") {
		folder = strings.ReplaceAll(strings.Trim(folder, `"`), "/", `\`)
		if len(folder) < 3 || folder[1:3] != `:\` || strings.Contains(folder, `"`) {
			continue // it counts from the current folder, or is on another computer
		}
		for i, end := range ends {
			if end == "" && i > 0 {
				continue // of a list that ends in ;
			}
			file := strings.TrimSuffix(folder, `\`) + `\` + name + end
			real, ok := w.real(file)
			if ok && !policy.Below(file, w.workspace) && !policy.Below(real, w.workspace) {
				return file
			}
		}
	}
	return ""
}

// lookupOnWindows is [lookup] there. A program of the workspace is named by a
// path, which counts from the current folder.
func lookupOnWindows(name string, env []string) (string, error) {
	if strings.ContainsAny(name, `:\/`) {
		return exec.LookPath(name)
	}
	workspace, err := os.Getwd()
	if err != nil {
		return "", err
	}
	w := windowsPath{variable(env, "PATH"), variable(env, "PATHEXT"), systemFolder(), workspace, realFile}
	if file := w.find(name); file != "" {
		return file, nil
	}
	return "", exec.ErrNotFound
}

// realFile is the real of this system. A junction is not followed: what stands
// in PATH as one was put there by the user.
func realFile(file string) (string, bool) {
	info, err := os.Stat(file)
	if err != nil || info.IsDir() {
		return "", false
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		return real, true
	}
	return file, true
}
