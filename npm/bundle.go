package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A bundleTool is a tool in the manifest of an MCP bundle.
type bundleTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// bundles writes the folder of a bundle for each target to dir/OS-CPU, with the programs
// from the packages in npmDir. A bundle declares operating systems but not processors, so
// there is one per pair.
func bundles(wanted []target, version, npmDir, dir string, license []byte) error {
	tools, err := builtinTools()
	if err != nil {
		return err
	}
	for _, t := range wanted {
		text, err := bundleManifest(t, version, tools)
		if err != nil {
			return err
		}
		program, err := os.ReadFile(filepath.Join(npmDir, t.String(), "bin", t.program()))
		if err != nil {
			return err
		}
		files := map[string][]byte{"manifest.json": text, "server/" + t.program(): program, "LICENSE": license}
		if err := replaceFolder(filepath.Join(dir, t.String()), files); err != nil {
			return err
		}
	}
	return nil
}

// bundleManifest returns the manifest.json of the bundle for t.
func bundleManifest(t target, version string, tools []bundleTool) ([]byte, error) {
	return document("bundle.json", map[string]any{
		"version": version, "os": t.os, "program": t.program(), "confined": t.goos == "linux", "tools": tools,
	})
}

// builtinTools returns the tools that the program lists.
func builtinTools() ([]bundleTool, error) {
	home, err := os.MkdirTemp("", "toolgate-home-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	cmd := exec.Command("go", "run", ".", "tools", "--json")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "TOOLGATE_HOME="+home)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the tools: %w", err)
	}
	var list struct{ Tools []bundleTool }
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("listing the tools: %w", err)
	}
	for i, t := range list.Tools {
		list.Tools[i].Description, _, _ = strings.Cut(t.Description, "\n")
	}
	return list.Tools, nil
}
