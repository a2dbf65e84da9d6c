package shell

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"toolgate/policy"
)

// A windowsPath looks up programs on Windows. exec.LookPath would search the current
// folder first.
type windowsPath struct {
	path, exts string // PATH and PATHEXT
	system     string // the folder of the system's programs
	workspace  string // never searched

	// real returns the path of a file without links; ok is false if it is not a
	// file.
	real func(file string) (path string, ok bool)
}

// systemShells are the shells in the system folder.
var systemShells = map[string]string{
	"cmd":        `\cmd.exe`,
	"powershell": `\WindowsPowerShell\v1.0\powershell.exe`,
}

// find returns the file of the program name, or "". It skips the workspace: whoever
// can write there, including the model, must not choose what a bare name runs.
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
			continue // relative, or on another computer
		}
		for i, end := range ends {
			if end == "" && i > 0 {
				continue // the list has an empty element
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

// lookupOnWindows is [lookup] on Windows. A program in the workspace must be named by
// a path, which is relative to the current folder.
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

// realFile is the real of windowsPath for this system. It does not follow junctions:
// the user put them in PATH.
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
