package shell

import (
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
)

// An Environment is Codex's shell_environment_policy: it selects the variables of the
// gate that a command sees. The fields are applied in order.
type Environment struct {
	// Inherit is "all" (the default), "core" or "none".
	Inherit string `json:"inherit,omitempty"`

	// IgnoreDefaultExcludes keeps variables whose names look like secrets. By
	// default they are dropped.
	IgnoreDefaultExcludes bool `json:"ignore_default_excludes,omitempty"`

	// Secrets are names of variables that hold secrets of the gate. They are dropped.
	Secrets []string `json:"secrets,omitempty"`

	// Keep are names that are kept although they look like secrets or are in Secrets.
	Keep []string `json:"keep,omitempty"`

	// Exclude drops the variables that match one of these patterns. The wildcards
	// are * and ?; case is ignored.
	Exclude []string `json:"exclude,omitempty"`

	// Set adds or replaces variables. It overrides the variables that turn off
	// pagers and colours.
	Set map[string]string `json:"set,omitempty"`

	// IncludeOnly, if not empty, drops all variables that match none of these
	// patterns.
	IncludeOnly []string `json:"include_only,omitempty"`
}

// secretWords are the patterns of names that look like secrets.
var secretWords = []string{"*KEY*", "*SECRET*", "*TOKEN*", "*PASSWORD*", "*PASSWD*", "*CREDENTIAL*"}

// coreNames are the variables that Inherit "core" keeps.
var coreNames = []string{
	"HOME", "LOGNAME", "PATH", "SHELL", "USER", "USERNAME", "TMPDIR", "TEMP", "TMP", "LANG", "LC_ALL", "LC_CTYPE",
	"SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "WINDIR",
}

// nonInteractive keeps programs from starting a pager and from formatting their
// output for a screen.
var nonInteractive = map[string]string{
	"NO_COLOR":  "1",
	"TERM":      "dumb",
	"COLORTERM": "",
	"LANG":      "C.UTF-8",
	"LC_CTYPE":  "C.UTF-8",
	"LC_ALL":    "C.UTF-8",
	"PAGER":     "cat",
	"GIT_PAGER": "cat",
	"GH_PAGER":  "cat",
}

// Apply returns the environment of a command, sorted by name, given the environment
// of its parent. If terminal is set, it includes the type of the terminal.
func (e Environment) Apply(inherited []string, terminal bool) []string {
	vars := make(map[string]string, len(inherited)+len(nonInteractive))
	for _, v := range inherited {
		name, value, ok := strings.Cut(v, "=")
		if ok && name != "" && e.inherits(name) {
			vars[name] = value
		}
	}
	maps.Copy(vars, nonInteractive)
	if terminal {
		vars["TERM"] = "xterm"
	}
	maps.Copy(vars, e.Set)
	env := make([]string, 0, len(vars))
	for name, value := range vars {
		if len(e.IncludeOnly) == 0 || matchesAny(e.IncludeOnly, name) {
			env = append(env, name+"="+value)
		}
	}
	slices.Sort(env)
	return env
}

func (e Environment) inherits(name string) bool {
	if e.Inherit == "none" || e.Inherit == "core" && !containsFold(coreNames, name) {
		return false
	}
	isSecret := containsFold(e.Secrets, name) || !e.IgnoreDefaultExcludes && matchesAny(secretWords, name)
	return (!isSecret || containsFold(e.Keep, name)) && !matchesAny(e.Exclude, name)
}

// workerNames are the variables that a worker itself needs: where temporary files go,
// and how Windows finds its own libraries and programs.
var workerNames = []string{"TMPDIR", "TMP", "TEMP", "USERPROFILE", "SYSTEMROOT", "PATHEXT"}

// ApplyToWorker returns the environment of the worker that starts the commands: that of a
// command, and what the worker itself needs. Its tools read files for the model, and
// /proc/self/environ is one of them.
func (e Environment) ApplyToWorker(inherited []string) []string {
	env := e.Apply(inherited, false)
	for _, name := range workerNames {
		if value := variable(inherited, name); value != "" && variable(env, name) == "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func containsFold(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// matchesAny reports whether one of patterns matches name, ignoring case. A malformed
// pattern matches nothing.
func matchesAny(patterns []string, name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(strings.ToUpper(p), name)
		return ok && err == nil
	})
}

// variable returns the last value of name in env.
func variable(env []string, name string) string {
	for _, v := range slices.Backward(env) {
		n, value, ok := strings.Cut(v, "=")
		if ok && (n == name || runtime.GOOS == "windows" && strings.EqualFold(n, name)) {
			return value
		}
	}
	return ""
}
