// Package clients knows the MCP clients that people have: where each keeps its
// servers and in what form.
//
//	for _, c := range clients.Known(clients.Here()) {
//		for _, f := range c.Files {
//			servers, notes, err := clients.Parse(f.Path, text)
//			…
//			after, err := f.Set(text, "toolgate", clients.Entry{Command: "toolgate"})
//		}
//	}
//
// It reads no files and writes none: what it takes and gives is their text.
// Text that is changed keeps its comments, its order and its indentation.
package clients

import (
	"os"
	"path/filepath"
)

// A Client is one MCP client.
type Client struct {
	Name  string // as in `toolgate mcp import NAME`
	Title string // as people call it
	Files []File // of the user; the first is the one to add servers to
}

// A File is a place where a client keeps servers.
type File struct {
	Path string
	Form Form
}

// A Form is how a file holds its servers.
type Form int

const (
	MCPServers     Form = iota // JSON: {"mcpServers": {NAME: …}}
	Servers                    // JSON: {"servers": {NAME: …}}, VS Code's mcp.json
	SettingServers             // JSON: {"mcp": {"servers": {NAME: …}}}, VS Code's settings
	CodexServers               // TOML: [mcp_servers.NAME]
)

// Places are the folders of a user that clients keep files in.
type Places struct {
	Home      string
	Config    string // where programs keep their settings on this system
	CodexHome string // "" for .codex in Home
}

// Here returns the places of the user that this process runs as.
func Here() (Places, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return Places{}, err
	}
	config, err := os.UserConfigDir()
	return Places{Home: home, Config: config, CodexHome: os.Getenv("CODEX_HOME")}, err
}

// Known returns the clients that are known, by name.
func Known(p Places) []Client {
	if p.CodexHome == "" {
		p.CodexHome = filepath.Join(p.Home, ".codex")
	}
	home := func(f Form, parts ...string) File {
		return File{filepath.Join(append([]string{p.Home}, parts...)...), f}
	}
	config := func(f Form, parts ...string) File {
		return File{filepath.Join(append([]string{p.Config}, parts...)...), f}
	}
	return []Client{
		{"claude-code", "Claude Code", []File{home(MCPServers, ".claude.json")}},
		{"claude-desktop", "Claude Desktop", []File{config(MCPServers, "Claude", "claude_desktop_config.json")}},
		{"codex", "Codex", []File{{filepath.Join(p.CodexHome, "config.toml"), CodexServers}}},
		{"cursor", "Cursor", []File{home(MCPServers, ".cursor", "mcp.json")}},
		{"gemini", "Gemini CLI", []File{home(MCPServers, ".gemini", "settings.json")}},
		{"vscode", "VS Code", []File{config(Servers, "Code", "User", "mcp.json"), config(SettingServers, "Code", "User", "settings.json")}},
		{"windsurf", "Windsurf", []File{home(MCPServers, ".codeium", "windsurf", "mcp_config.json")}},
	}
}
