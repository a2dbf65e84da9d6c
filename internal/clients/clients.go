// Package clients describes the supported MCP clients: where each one stores its servers, and in which format.
//
//	known, err := clients.Here()
//	for _, c := range known {
//		for _, f := range c.Files {
//			servers, notes, err := clients.Parse(f.Path, text)
//			…
//			after, err := f.Put(text, "toolgate", table)
//		}
//	}
//
// It works on the text of config files and does no file I/O itself. Edits preserve comments, key order and indentation.
package clients

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
)

// A Client is one MCP client.
type Client struct {
	Name  string // as in `toolgate mcp import NAME`
	Title string // display name
	Files []File // user-level config files; servers are added to the first

	Signs    []string // files and folders; any of them means that the client is installed
	Programs []string // executables; any of them in PATH means the same
	Projects bool     // starts servers in the user's project folder
}

// A File is a config file that lists MCP servers.
type File struct {
	Path string
	Form Form
}

// A Form is the format of a client's config file.
type Form int

const (
	MCPServers     Form = iota // JSON: {"mcpServers": {NAME: …}}
	Servers                    // JSON: {"servers": {NAME: …}}, VS Code's mcp.json
	SettingServers             // JSON: {"mcp": {"servers": {NAME: …}}}, VS Code's settings
	CodexServers               // TOML: [mcp_servers.NAME]
	ContextServers             // JSON: {"context_servers": {NAME: …}}, Zed's settings
	Extensions                 // YAML: extensions: {NAME: …}, Goose
)

// Places are the folders in which a user's clients store their files.
type Places struct {
	Home   string
	Config string // see [os.UserConfigDir]
	OS     string // a GOOS value

	// Overrides from the environment, "" if not set.
	CodexHome   string
	ClaudeHome  string // Claude Code's
	CopilotHome string
	XDGConfig   string
}

// Here returns the supported clients with the places of the current user.
func Here() ([]Client, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	config, err := os.UserConfigDir()
	return Known(Places{
		Home:        home,
		Config:      config,
		OS:          runtime.GOOS,
		CodexHome:   os.Getenv("CODEX_HOME"),
		ClaudeHome:  os.Getenv("CLAUDE_CONFIG_DIR"),
		CopilotHome: os.Getenv("COPILOT_HOME"),
		XDGConfig:   os.Getenv("XDG_CONFIG_HOME"),
	}), err
}

// Known returns the supported clients, sorted by name.
func Known(p Places) []Client {
	home := func(parts ...string) string { return filepath.Join(append([]string{p.Home}, parts...)...) }
	config := func(parts ...string) string { return filepath.Join(append([]string{p.Config}, parts...)...) }
	codex := cmp.Or(p.CodexHome, home(".codex"))
	claude := cmp.Or(p.ClaudeHome, home())
	copilot := cmp.Or(p.CopilotHome, home(".copilot"))
	xdg := cmp.Or(p.XDGConfig, home(".config"))
	zed, goose := filepath.Join(xdg, "zed"), filepath.Join(xdg, "goose")
	if p.OS == "darwin" {
		zed, goose = home(".config", "zed"), home(".config", "goose")
	}
	if p.OS == "windows" {
		zed, goose = config("Zed"), config("Block", "goose", "config")
	}
	vscode := config("Code", "User")
	at := func(f Form, dir, name string) File { return File{filepath.Join(dir, name), f} }
	return []Client{
		{Name: "claude-code", Title: "Claude Code", Files: []File{at(MCPServers, claude, ".claude.json")},
			Signs:    []string{filepath.Join(claude, ".claude.json"), home(".claude")},
			Programs: []string{"claude"}, Projects: true},
		{Name: "claude-desktop", Title: "Claude Desktop",
			Files: []File{at(MCPServers, config("Claude"), "claude_desktop_config.json")},
			Signs: []string{config("Claude")}},
		{Name: "codex", Title: "Codex", Files: []File{at(CodexServers, codex, "config.toml")},
			Signs: []string{codex}, Programs: []string{"codex"}, Projects: true},
		{Name: "copilot", Title: "Copilot CLI", Files: []File{at(MCPServers, copilot, "mcp-config.json")},
			Signs: []string{copilot}, Programs: []string{"copilot"}, Projects: true},
		{Name: "cursor", Title: "Cursor", Files: []File{at(MCPServers, home(".cursor"), "mcp.json")},
			Signs: []string{home(".cursor")}, Programs: []string{"cursor"}, Projects: true},
		{Name: "gemini", Title: "Gemini CLI", Files: []File{at(MCPServers, home(".gemini"), "settings.json")},
			Signs: []string{home(".gemini")}, Programs: []string{"gemini"}, Projects: true},
		{Name: "goose", Title: "Goose", Files: []File{at(Extensions, goose, "config.yaml")},
			Signs: []string{goose}, Programs: []string{"goose"}, Projects: true},
		{Name: "vscode", Title: "VS Code",
			Files: []File{at(Servers, vscode, "mcp.json"), at(SettingServers, vscode, "settings.json")},
			Signs: []string{vscode}, Programs: []string{"code"}, Projects: true},
		{Name: "windsurf", Title: "Windsurf",
			Files: []File{at(MCPServers, home(".codeium", "windsurf"), "mcp_config.json")},
			Signs: []string{home(".codeium", "windsurf")}, Programs: []string{"windsurf"}},
		{Name: "zed", Title: "Zed", Files: []File{at(ContextServers, zed, "settings.json")},
			Signs: []string{zed}, Programs: []string{"zed", "zeditor"}, Projects: true},
	}
}
