package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// findPrograms is where each program is looked for: a variable, and a name in
// $PATH. What is a script for Node is given as its file.
var findPrograms = map[string]struct {
	variable, path string
	version        []string
}{
	"toolgate":           {"TOOLGATE", "", []string{"version"}},
	"bwrap":              {"BWRAP", "bwrap", []string{"--version"}},
	"codex":              {"CODEX", "codex", []string{"--version"}}, // the native binary: the npm launcher costs 100 ms more
	"srt":                {"SRT", "srt", []string{"--version"}},
	"rg":                 {"RG", "rg", []string{"--version"}},
	"grep":               {"GREP", "grep", []string{"--version"}},
	"git":                {"GIT", "git", []string{"--version"}},
	"node":               {"NODE", "node", []string{"--version"}},
	"server-everything":  {"EVERYTHING", "", nil}, // dist/index.js of @modelcontextprotocol/server-everything
	"tbxark/mcp-proxy":   {"TBXARK", "tbxark-mcp-proxy", []string{"-version"}},
	"punkpeye/mcp-proxy": {"PUNKPEYE", "", nil}, // dist/bin/mcp-proxy.mjs of npm's mcp-proxy
	"docker mcp gateway": {"DOCKER_MCP", "docker-mcp", []string{"version"}},
	"mcpproxy-go":        {"MCPPROXY", "mcpproxy", []string{"--version"}},
}

// A fixture is what all contenders share: programs, folders, environment.
type fixture struct {
	dir      string // scratch
	ws       string // workspace to write in
	source   string // large tree to search: Go's own source
	env      []string
	programs map[string]string
	port     int
}

func newFixture(ctx context.Context, dir string) (*fixture, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("looking for a tree to search: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "src")
	f := &fixture{dir: dir, ws: filepath.Join(dir, "ws"), source: source, programs: map[string]string{}, port: 18700}
	if err := os.MkdirAll(f.ws, 0o755); err != nil {
		return nil, err
	}
	for name, p := range findPrograms {
		path := os.Getenv(p.variable)
		if path == "" && p.path != "" {
			path, _ = exec.LookPath(p.path)
		}
		if path != "" {
			f.programs[name] = path
		}
	}
	f.env = append(os.Environ(), "TOOLGATE_HOME="+filepath.Join(dir, "home"))
	if f.programs["toolgate"] == "" {
		bin := filepath.Join(dir, "toolgate")
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, ".")
		build.Dir, build.Stderr = "..", os.Stderr
		if err := build.Run(); err != nil {
			return nil, fmt.Errorf("building toolgate: %w", err)
		}
		f.programs["toolgate"] = bin
	}
	return f, nil
}

// folder returns the folder of the given name: "ws" or "source".
func (f *fixture) folder(name string) string {
	if name == "source" {
		return f.source
	}
	return f.ws
}

// missing returns the first program of needs that is not there, "" when all are.
func (f *fixture) missing(needs []string) string {
	if i := slices.IndexFunc(needs, func(n string) bool { return f.programs[n] == "" }); i >= 0 {
		return needs[i]
	}
	return ""
}

// url returns an address that no other contender has.
func (f *fixture) url(path string) (port, url string) {
	f.port++
	port = strconv.Itoa(f.port)
	return port, "http://127.0.0.1:" + port + path
}

var versionNumber = regexp.MustCompile(`\d+\.\d+(\.\d+)?[-.\w]*`)

// versions returns what is compared, by name.
func (f *fixture) versions() map[string]string {
	all := map[string]string{}
	for name, path := range f.programs {
		p := findPrograms[name]
		if p.version == nil {
			all[name] = packageVersion(path)
			continue
		}
		out, _ := exec.Command(path, p.version...).CombinedOutput()
		all[name] = versionNumber.FindString(string(out))
	}
	return all
}

// packageVersion returns the version of the npm package that a file is in.
func packageVersion(file string) string {
	for dir := filepath.Dir(file); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if v := findIn(filepath.Join(dir, "package.json"), `"version":\s*"([^"]+)"`); v != "" {
			return v
		}
	}
	return ""
}

// findIn returns what the group of the pattern matches first in a file, or "".
func findIn(file, pattern string) string {
	text, _ := os.ReadFile(file)
	m := regexp.MustCompile(pattern).FindSubmatch(text)
	if m == nil {
		return ""
	}
	return string(m[1])
}

// machine describes where this runs, in a line.
func machine() string {
	model := cmp.Or(findIn("/proc/cpuinfo", `model name\s*: (.*)`), runtime.GOARCH)
	system := runtime.GOOS
	if release := findIn("/proc/sys/kernel/osrelease", `(\S+)`); release != "" {
		system = "Linux " + release
	}
	return fmt.Sprintf("%d cores of %s, %s, %s", runtime.NumCPU(), model, system, runtime.Version())
}

// rss returns the resident memory of a process in KiB, 0 where that is not known.
func rss(pid int) int64 {
	n, _ := strconv.ParseInt(findIn(fmt.Sprintf("/proc/%d/status", pid), `VmRSS:\s+(\d+)`), 10, 64)
	return n
}
