package policy

import (
	"maps"
	"slices"

	"toolgate/policy/shell"
)

// SnapshotTool is the name of the worker's tool that takes a [Snapshot]. Clients
// cannot call it.
const SnapshotTool = "toolgate_snapshot"

// A Snapshot identifies what an approval of a command is bound to besides its words.
// The zero Snapshot is that of a call without a command.
type Snapshot struct {
	Dir  string `json:"dir,omitempty"`  // identifies the folder
	Real string `json:"real,omitempty"` // where the folder is, if its path leads there through a symlink

	// Files identifies the content of the files that it runs, by path. What is no
	// file has [Missing] or another word.
	Files map[string]string `json:"files,omitempty"`
}

// Missing stands for a file that does not exist.
const Missing = "missing"

// Changes returns what differs in now, in words.
func (s Snapshot) Changes(now Snapshot) (list []string) {
	if s.Dir != now.Dir || s.Real != now.Real {
		what := "the folder is another one"
		if now.Real != "" {
			what += " (" + now.Real + ")"
		}
		list = append(list, what)
	}
	names := slices.Concat(slices.Collect(maps.Keys(s.Files)), slices.Collect(maps.Keys(now.Files)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		was, is := s.Files[name], now.Files[name]
		switch {
		case was == is:
		case is == Missing || is == "":
			list = append(list, name+" is gone")
		case was == Missing || was == "":
			list = append(list, name+" is new")
		default:
			list = append(list, name+" has changed")
		}
	}
	return list
}

// Existing returns the paths of the files that are there, sorted.
func (s Snapshot) Existing() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		if s.Files[name] != Missing {
			list = append(list, name)
		}
	}
	return list
}

// maxPaths limits the paths that ScriptFiles returns.
const maxPaths = 64

// ScriptFiles returns the absolute paths at which the files may be that the command
// runs, see [shell.ScriptFiles]; all is false if there may be more. The action's
// folder must be absolute.
func (a Action) ScriptFiles() (files []string, all bool) {
	if len(a.Command) == 0 {
		return nil, true
	}
	named := shell.Find(a.Command).ScriptFiles
	dirs := []string{a.Dir}
	for _, to := range named.Folders {
		for _, from := range dirs[:min(len(dirs), maxPaths)] {
			if dir := absolute(from, to); !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	for _, name := range named.Names {
		for _, dir := range dirs {
			if file := absolute(dir, name); !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	if len(files) > maxPaths {
		return files[:maxPaths], false
	}
	return files, !named.Unknown
}
