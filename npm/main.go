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
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

//go:embed launcher.js
var launcher []byte

//go:embed README.md
var readme []byte

// The templates of the JSON files. The function json encodes a value.
//
//go:embed templates
var templateFiles embed.FS

var templates = template.Must(template.New("").Option("missingkey=error").
	Funcs(template.FuncMap{"json": encoded}).ParseFS(templateFiles, "templates/*"))

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
func (t target) packageName() string { return "@toolgate/" + t.String() } // also in launcher.js

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

func mainPackage(version, dir string, license []byte) error {
	optional := map[string]string{}
	for _, t := range targets {
		optional[t.packageName()] = version
	}
	text, err := document("main.json", map[string]any{"version": version, "optional": optional})
	if err != nil {
		return err
	}
	return replaceFolder(dir, map[string][]byte{
		"package.json": text, "bin/toolgate.js": launcher, "README.md": readme, "LICENSE": license,
	})
}

func platformPackage(t target, version, dir, binaries string, license []byte) error {
	text, err := document("platform.json", map[string]any{
		"package": t.packageName(), "version": version, "os": t.os, "cpu": t.cpu, "program": t.program(),
	})
	if err != nil {
		return err
	}
	const page = "# %s\n\nThe program of [toolgate](https://github.com/toolgate/toolgate) for %s on %s. " +
		"Install `toolgate` instead.\n"
	about := fmt.Appendf(nil, page, t.packageName(), t.os, t.cpu)
	files := map[string][]byte{"package.json": text, "README.md": about, "LICENSE": license}
	if err := replaceFolder(dir, files); err != nil {
		return err
	}
	program := filepath.Join(dir, "bin", t.program())
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return err
	}
	if binaries == "" {
		return build(t, version, program)
	}
	built, err := os.ReadFile(filepath.Join(binaries, t.goos+"-"+t.goarch, t.program()))
	if err != nil {
		return err
	}
	return writeFile(program, built, 0o755)
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

// document returns the JSON file that the named template makes of data.
func document(name string, data map[string]any) ([]byte, error) {
	var filled, text bytes.Buffer
	if err := templates.ExecuteTemplate(&filled, name, data); err != nil {
		return nil, err
	}
	if err := json.Indent(&text, filled.Bytes(), "", "  "); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text.Bytes(), nil
}

// encoded returns v as JSON.
func encoded(v any) (string, error) {
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return text.String(), err
}

// replaceFolder replaces dir by a folder with these files. Those in bin and server must be
// executable: npm keeps the mode, and a read-only cache could not be fixed later.
func replaceFolder(dir string, files map[string][]byte) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
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
