package app

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"toolgate/internal/config"
	"toolgate/policy/shell"
)

// StartsToolgate reports whether a command line runs toolgate: by its name, by a path that leads to
// it, in a shell, or through a package runner or another wrapper.
func StartsToolgate(argv []string) bool { return runsToolgate(argv) != nil }

// runsToolgate returns the command line of toolgate in argv, nil if there is none.
func runsToolgate(argv []string) []string {
	if i := slices.Index(argv, "/c"); i == 1 && nameOf(argv[0]) == "cmd" {
		argv = argv[2:]
	}
	self, _ := os.Executable()
	for _, c := range shell.Find(argv).Commands {
		if len(c.Argv) == 0 || c.Elsewhere {
			continue
		}
		word := strings.TrimPrefix(c.Argv[0], "npm:")
		name, _, _ := strings.Cut(word, "@") // as in toolgate@1.2.3
		path, _ := exec.LookPath(word)
		real, _ := filepath.EvalSymlinks(path)
		if nameOf(name) == "toolgate" || strings.HasPrefix(word, "@toolgate/") || nameOf(real) == "toolgate" ||
			path != "" && path == self {
			return c.Argv
		}
	}
	return nil
}

// nameOf returns the name of the program at path, on any system.
func nameOf(path string) string {
	name := strings.ToLower(path[strings.LastIndexAny(path, `/\`)+1:])
	for _, end := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, end)
	}
	return name
}

// errStartsItself is the error for a server of the config that is toolgate with the same config.
var errStartsItself = errors.New("it starts toolgate itself, without end; remove it with `toolgate mcp remove`, " +
	"or give it another TOOLGATE_HOME in its env")

// startsItself reports whether a server is toolgate with the same servers. It has none with wrap, and
// others with a TOOLGATE_HOME of its own.
func startsItself(server config.MCPServer) bool {
	argv := runsToolgate(append([]string{server.Command}, server.Args...))
	home := server.Env["TOOLGATE_HOME"]
	return argv != nil && !slices.Contains(argv, "wrap") && (home == "" || home == os.Getenv("TOOLGATE_HOME"))
}

// depthVariable says to the servers that are started how many toolgates are above them.
const depthVariable = "TOOLGATE_DEPTH"

// maxDepth is how many toolgates may be above another one.
const maxDepth = 3

// depth returns how many toolgates started this one. The error says that these are too many.
func depth() (int, error) {
	n, err := strconv.Atoi(os.Getenv(depthVariable))
	if err != nil {
		return 0, nil // not set
	}
	if n > maxDepth || n < 0 {
		return n, fmt.Errorf("toolgate is started by itself (%s=%d): a server of its config starts toolgate; "+
			"find it with `toolgate mcp list` and remove it", depthVariable, n)
	}
	return n, nil
}
