package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// A registryServer is a server.json, the description of a server in the MCP registry.
type registryServer struct {
	Schema      string            `json:"$schema"`
	Name        string            `json:"name"`
	Title       string            `json:"title"`
	Description string            `json:"description"` // at most 100 characters
	Repository  map[string]string `json:"repository"`
	Version     string            `json:"version"`
	Packages    []registryPackage `json:"packages"`
}

type registryPackage struct {
	Type        string             `json:"registryType"`
	Identifier  string             `json:"identifier"`
	Version     string             `json:"version,omitempty"`
	SHA256      string             `json:"fileSha256,omitempty"`
	RuntimeHint string             `json:"runtimeHint,omitempty"`
	Transport   map[string]string  `json:"transport"`
	Arguments   []registryArgument `json:"packageArguments,omitempty"`
	Environment []registryVariable `json:"environmentVariables,omitempty"`
}

type registryArgument struct {
	Type        string   `json:"type"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Format      string   `json:"format,omitempty"`
	Default     string   `json:"default,omitempty"`
	Choices     []string `json:"choices,omitempty"`
	IsRequired  bool     `json:"isRequired,omitempty"`
	IsRepeated  bool     `json:"isRepeated,omitempty"`
}

type registryVariable struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Format      string `json:"format,omitempty"`
}

// registryEntry writes server.json. It lists the bundles that are packed in dir as
// toolgate-VERSION-OS-CPU.mcpb, which will be attached to the release.
func registryEntry(version, dir, file string) error {
	if err := checkVersion(version); err != nil {
		return err
	}
	flags := []registryArgument{
		{
			Type: "named", Name: "--cd", Format: "filepath",
			Description: "Workspace; default: the folder in which the client starts it",
		},
		{
			Type: "named", Name: "--add-dir", Format: "filepath", IsRepeated: true,
			Description: "Further writable folder",
		},
		{
			Type: "named", Name: "--sandbox", Default: "workspace-write",
			Description: "What is possible without approval",
			Choices:     []string{"read-only", "workspace-write", "danger-full-access"},
		},
		{
			Type: "named", Name: "--ask-for-approval", Default: "on-request",
			Description: "When to ask",
			Choices:     []string{"untrusted", "on-request", "never"},
		},
	}
	s := registryServer{
		Schema:      "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
		Name:        mcpName,
		Title:       "Toolgate",
		Description: "Codex's tools and your MCP servers behind one policy, one approval, one sandbox",
		Repository:  map[string]string{"url": repository, "source": "github"},
		Version:     version,
		Packages: []registryPackage{{
			Type:        "npm",
			Identifier:  "toolgate",
			Version:     version,
			RuntimeHint: "npx",
			Transport:   map[string]string{"type": "stdio"},
			Arguments:   flags,
			Environment: []registryVariable{{
				Name: "TOOLGATE_HOME", Format: "filepath",
				Description: "Folder with config, rules and audit log",
			}},
		}},
	}
	for _, t := range targets {
		name := fmt.Sprintf("toolgate-%s-%s.mcpb", version, t)
		text, err := os.ReadFile(filepath.Join(dir, name))
		if dir == "" || os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		s.Packages = append(s.Packages, registryPackage{
			Type:       "mcpb",
			Identifier: fmt.Sprintf("%s/releases/download/v%s/%s", repository, version, name),
			SHA256:     hex.EncodeToString(sum[:]),
			Transport:  map[string]string{"type": "stdio"},
		})
	}
	text, err := encoded(s)
	if err != nil {
		return err
	}
	return writeFile(file, text, 0o644)
}
