package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A bundleManifest is the manifest.json of an MCP bundle.
type bundleManifest struct {
	ManifestVersion string               `json:"manifest_version"`
	Name            string               `json:"name"`
	DisplayName     string               `json:"display_name"`
	Version         string               `json:"version"`
	Description     string               `json:"description"`
	LongDescription string               `json:"long_description"`
	Author          map[string]string    `json:"author"`
	Repository      map[string]string    `json:"repository"`
	Homepage        string               `json:"homepage"`
	Support         string               `json:"support"`
	License         string               `json:"license"`
	Keywords        []string             `json:"keywords"`
	Server          bundleServer         `json:"server"`
	Tools           []bundleTool         `json:"tools"`
	ToolsGenerated  bool                 `json:"tools_generated"` // downstream servers add tools at run time
	Compatibility   map[string][]string  `json:"compatibility"`
	UserConfig      map[string]userInput `json:"user_config"`
}

type bundleServer struct {
	Type       string       `json:"type"`
	EntryPoint string       `json:"entry_point"`
	Config     bundleConfig `json:"mcp_config"`
}

type bundleConfig struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

type bundleTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// A userInput is a setting that the client asks for before it starts the server.
type userInput struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
	Multiple    bool   `json:"multiple,omitempty"`
	Default     string `json:"default,omitempty"`
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
		text, err := encoded(manifestOf(t, version, tools))
		if err != nil {
			return err
		}
		program, err := os.ReadFile(filepath.Join(npmDir, t.String(), "bin", t.program()))
		if err != nil {
			return err
		}
		out := filepath.Join(dir, t.String())
		if err := os.RemoveAll(out); err != nil {
			return err
		}
		files := map[string][]byte{"manifest.json": text, "server/" + t.program(): program, "LICENSE": license}
		err = writeFiles(out, files)
		if err != nil {
			return err
		}
	}
	return nil
}

// promises are the texts of a bundle that depend on whether the system has a sandbox.
type promises struct{ short, long, folders, modes, approval string }

var (
	confined = promises{
		short: "confined by a sandbox",
		long: "A kernel-enforced sandbox confines commands to those folders and blocks the network; " +
			"anything else needs your approval.",
		folders: "Nothing outside of these folders is written without your approval.",
		modes: "read-only: no writes; workspace-write: writes only in these folders; " +
			"danger-full-access: no sandbox",
		approval: "untrusted: before every command and change; on-request: before anything that the sandbox " +
			"would not allow; never: refuse it instead",
	}
	unconfined = promises{
		short: "with your approval for each command and change",
		long: "On this system there is no sandbox: each command and each change needs your approval and runs with " +
			"your permissions. Files in those folders are read without asking, others only with your approval.",
		folders: "Nothing outside of these folders is read or written without your approval.",
		modes: "On this system there is no sandbox. read-only and workspace-write: approval for each command and " +
			"change; danger-full-access: no approval",
		approval: "untrusted and on-request: before every command and change; never: refuse them instead",
	}
)

func manifestOf(t target, version string, tools []bundleTool) bundleManifest {
	entry := "server/" + t.program()
	says := confined
	if t.goos != "linux" {
		says = unconfined
	}
	return bundleManifest{
		ManifestVersion: "0.3",
		Name:            "toolgate",
		DisplayName:     "Toolgate",
		Version:         version,
		Description:     "Run commands and edit files in the folders you choose, " + says.short,
		LongDescription: "Toolgate gives the model the tools of OpenAI's Codex (shell, apply_patch, read_file, " +
			"list_dir, grep_files and more) in the folders you choose. " + says.long + " " +
			"Other MCP servers can be put behind the same policy in toolgate's config file.",
		Author:     map[string]string{"name": "The toolgate authors", "url": repository},
		Repository: map[string]string{"type": "git", "url": repository},
		Homepage:   repository,
		Support:    repository + "/issues",
		License:    "Apache-2.0",
		Keywords:   []string{"codex", "sandbox", "shell", "apply_patch", "files"},
		Server: bundleServer{
			Type:       "binary",
			EntryPoint: entry,
			Config: bundleConfig{
				Command: "${__dirname}/" + entry,
				Args: []string{
					"--sandbox", "${user_config.sandbox}",
					"--ask-for-approval", "${user_config.approval}",
					"serve", "${user_config.workspaces}",
				},
				Env: map[string]string{},
			},
		},
		Tools:          tools,
		ToolsGenerated: true,
		Compatibility:  map[string][]string{"platforms": {t.os}},
		UserConfig: map[string]userInput{
			"workspaces": {
				Type: "directory", Title: "Folders to work in", Multiple: true, Required: true,
				Description: "Relative paths are relative to the first one. " + says.folders,
			},
			"sandbox": {
				Type: "string", Title: "Sandbox", Default: "workspace-write",
				Description: says.modes,
			},
			"approval": {
				Type: "string", Title: "When to ask", Default: "on-request",
				Description: says.approval,
			},
		},
	}
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
		first, _, _ := strings.Cut(t.Description, "\n")
		list.Tools[i].Description = first
	}
	return list.Tools, nil
}
