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
	ToolsGenerated  bool                 `json:"tools_generated"` // those of servers behind us come at run time
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

// A userInput is a question that the client asks before it starts the server.
type userInput struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
	Multiple    bool   `json:"multiple,omitempty"`
	Default     string `json:"default,omitempty"`
}

// bundles writes the folder of a bundle for each target to dir/OS-CPU, with
// the programs that the packages in npmDir have. A bundle names systems but no
// processors, so there is one for each pair.
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
		err = writeFiles(out, map[string][]byte{"manifest.json": text, "server/" + t.program(): program, "LICENSE": license})
		if err != nil {
			return err
		}
	}
	return nil
}

// promises are the words of a bundle that depend on whether the system confines
// anything.
type promises struct{ short, long, folders, modes, approval string }

var (
	confined = promises{
		short:   "confined by a sandbox",
		long:    "A sandbox keeps commands to those folders and off the network, by the kernel; what needs more is asked for.",
		folders: "Nothing outside of these folders is written without your yes.",
		modes:   "read-only: nothing is written; workspace-write: only these folders; danger-full-access: nothing is confined",
		approval: "untrusted: before every command and change; on-request: before what the sandbox would not allow; " +
			"never: refuse that instead",
	}
	unconfined = promises{
		short: "each command and change after your yes",
		long: "On this system there is no sandbox: each command and each change is asked for, and then runs as you do. " +
			"Files in those folders are read without asking, others after a yes.",
		folders: "Nothing outside of these folders is read or written without your yes.",
		modes: "On this system there is no sandbox. read-only and workspace-write: each command and change is asked for; " +
			"danger-full-access: none is",
		approval: "untrusted and on-request: before every command and change; never: refuse that instead",
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
		LongDescription: "Toolgate gives the model the tools of OpenAI's Codex (shell, apply_patch, read_file, list_dir, grep_files and more) in the folders you choose. " +
			says.long + " " +
			"Other MCP servers can be put behind the same policy in its own config file.",
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
				Args:    []string{"--sandbox", "${user_config.sandbox}", "--ask-for-approval", "${user_config.approval}", "serve", "${user_config.workspaces}"},
				Env:     map[string]string{},
			},
		},
		Tools:          tools,
		ToolsGenerated: true,
		Compatibility:  map[string][]string{"platforms": {t.os}},
		UserConfig: map[string]userInput{
			"workspaces": {
				Type: "directory", Title: "Folders to work in", Multiple: true, Required: true,
				Description: "The first one is where relative paths count from. " + says.folders,
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

// builtinTools asks the program for its tools.
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
