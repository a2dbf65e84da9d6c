// Npm generates the npm packages: the main package, which contains a launcher without
// dependencies or install scripts, and one package per platform with the program.
//
//	go run ./npm -version 1.2.3 -out dist/npm
//
// It writes a folder per package, for `npm pack` and `npm publish`; publish the platform
// packages first. With -mcpb DIR it also writes the folder of an MCP bundle per platform,
// for `mcpb pack`. With -server FILE it only writes the entry for the MCP registry, which
// lists the packed bundles in the folder of -mcpb. It needs Go, but not Node.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed launcher.js
var launcher []byte

//go:embed README.md
var readme []byte

const (
	scope      = "@toolgate" // of the platform packages; also in launcher.js
	repository = "https://github.com/toolgate/toolgate"
	mcpName    = "io.github.toolgate/toolgate" // in the MCP registry, which verifies the package by it
)

// A target is a platform in the names of Go and Node.
type target struct{ goos, goarch, os, cpu string }

var targets = []target{
	{"linux", "amd64", "linux", "x64"},
	{"linux", "arm64", "linux", "arm64"},
	{"darwin", "amd64", "darwin", "x64"},
	{"darwin", "arm64", "darwin", "arm64"},
	{"windows", "amd64", "win32", "x64"},
	{"windows", "arm64", "win32", "arm64"},
}

func (t target) String() string      { return t.os + "-" + t.cpu }
func (t target) packageName() string { return scope + "/" + t.String() }

func (t target) program() string {
	if t.goos == "windows" {
		return "toolgate.exe"
	}
	return "toolgate"
}

func main() {
	version := flag.String("version", "", "`VERSION` of the packages, such as 1.2.3")
	out := flag.String("out", "dist/npm", "`DIR` to write the packages to")
	binaries := flag.String("binaries", "", "copy the programs from `DIR`/GOOS-GOARCH/toolgate instead of a build")
	only := flag.String("only", "", "only generate packages for these `PLATFORMS`, such as linux-x64,darwin-arm64")
	mcpb := flag.String("mcpb", "", "write the folders of MCP bundles to `DIR`")
	server := flag.String("server", "", "only write the entry for the MCP registry, to `FILE`")
	flag.Parse()
	var err error
	if *server != "" {
		err = registryEntry(*version, *mcpb, *server)
	} else {
		err = generate(*version, *out, *binaries, *only, *mcpb)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "npm: error:", err)
		os.Exit(1)
	}
}

func checkVersion(version string) error {
	if version == "" || strings.HasPrefix(version, "v") {
		return errors.New("-version is required, without a leading v")
	}
	return nil
}

// generate writes the main package to out/toolgate and the platform packages to out/OS-CPU.
// The main package lists all platforms, even if only some are generated. If mcpb is not "",
// the folders of the bundles are written there.
func generate(version, out, binaries, only, mcpb string) error {
	if err := checkVersion(version); err != nil {
		return err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return fmt.Errorf("%w; run it in the root of the repository", err)
	}
	wanted := targets
	if only != "" {
		names := strings.Split(only, ",")
		wanted = slices.DeleteFunc(slices.Clone(targets), func(t target) bool {
			return !slices.Contains(names, t.String())
		})
		if len(wanted) != len(names) {
			return fmt.Errorf("-only %s: the platforms are %v", only, targets)
		}
	}
	for _, t := range wanted {
		if err := platformPackage(t, version, filepath.Join(out, t.String()), binaries, license); err != nil {
			return err
		}
	}
	if mcpb != "" {
		if err := bundles(wanted, version, out, mcpb, license); err != nil {
			return err
		}
	}
	return mainPackage(version, filepath.Join(out, "toolgate"), license)
}

// A manifest is a package.json, with the fields in the order of the file.
type manifest struct {
	Name            string            `json:"name"`
	Version         string            `json:"version"`
	Description     string            `json:"description"`
	License         string            `json:"license"`
	Repository      map[string]string `json:"repository"`
	MCPName         string            `json:"mcpName,omitempty"`
	Keywords        []string          `json:"keywords,omitempty"`
	Bin             map[string]string `json:"bin,omitempty"`
	Files           []string          `json:"files"`
	Engines         map[string]string `json:"engines,omitempty"`
	OS              []string          `json:"os,omitempty"`
	CPU             []string          `json:"cpu,omitempty"`
	PreferUnplugged bool              `json:"preferUnplugged"` // for Yarn: a program cannot run from a zip file
	Optional        map[string]string `json:"optionalDependencies,omitempty"`
}

func mainPackage(version, dir string, license []byte) error {
	m := manifest{
		Name:    "toolgate",
		Version: version,
		Description: "MCP server with Codex's tools, and your other MCP servers, " +
			"behind one policy, one approval, one sandbox",
		License:         "Apache-2.0",
		Repository:      map[string]string{"type": "git", "url": "git+" + repository + ".git"},
		MCPName:         mcpName,
		Keywords:        []string{"mcp", "mcp-server", "codex", "sandbox", "shell", "apply_patch"},
		Bin:             map[string]string{"toolgate": "bin/toolgate.js"},
		Files:           []string{"bin/toolgate.js"},
		Engines:         map[string]string{"node": ">=18"},
		PreferUnplugged: true,
		Optional:        map[string]string{},
	}
	for _, t := range targets {
		m.Optional[t.packageName()] = version
	}
	return writePackage(dir, m, map[string][]byte{"bin/toolgate.js": launcher, "README.md": readme, "LICENSE": license})
}

func platformPackage(t target, version, dir, binaries string, license []byte) error {
	m := manifest{
		Name:            t.packageName(),
		Version:         version,
		Description:     fmt.Sprintf("The program of toolgate for %s on %s", t.os, t.cpu),
		License:         "Apache-2.0",
		Repository:      map[string]string{"type": "git", "url": "git+" + repository + ".git"},
		Files:           []string{"bin/" + t.program()},
		OS:              []string{t.os},
		CPU:             []string{t.cpu},
		PreferUnplugged: true,
	}
	about := fmt.Appendf(nil, "# %s\n\nThe program of [toolgate](%s) for %s on %s. Install `toolgate` instead.\n",
		m.Name, repository, t.os, t.cpu)
	if err := writePackage(dir, m, map[string][]byte{"README.md": about, "LICENSE": license}); err != nil {
		return err
	}
	program := filepath.Join(dir, "bin", t.program())
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return err
	}
	if binaries == "" {
		return build(t, version, program)
	}
	text, err := os.ReadFile(filepath.Join(binaries, t.goos+"-"+t.goarch, t.program()))
	if err != nil {
		return err
	}
	return writeFile(program, text, 0o755)
}

// build compiles the program reproducibly, without local paths.
func build(t target, version, program string) error {
	abs, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	ldflags := "-s -w -X toolgate/internal/app.release=" + version
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", ldflags, "-o", abs, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.goos, "GOARCH="+t.goarch)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building for %s: %w", t, err)
	}
	return nil
}

// encoded returns v as indented JSON.
func encoded(v any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return text.Bytes(), err
}

// writePackage replaces the folder of a package. Files in bin must be executable: npm
// keeps the mode, and a read-only cache could not be fixed later.
func writePackage(dir string, m manifest, files map[string][]byte) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	text, err := encoded(m)
	if err != nil {
		return err
	}
	files["package.json"] = text
	return writeFiles(dir, files)
}

// writeFiles writes files below dir. Those in bin and server are executable.
func writeFiles(dir string, files map[string][]byte) error {
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(name, "bin/") || strings.HasPrefix(name, "server/") {
			mode = 0o755
		}
		if err := writeFile(file, text, mode); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file with exactly this mode, regardless of the umask.
func writeFile(file string, text []byte, mode os.FileMode) error {
	if err := os.WriteFile(file, text, mode); err != nil {
		return err
	}
	return os.Chmod(file, mode)
}
