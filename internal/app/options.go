package app

import (
	"io"

	"toolgate/internal/config"
	"toolgate/internal/console"
	"toolgate/internal/gate"
)

// Options are what the command line adds to the config file, in Codex's words,
// and what is different for one caller over HTTP. The zero value serves the
// current folder to one client and writes no log.
type Options struct {
	Dir          string   // workspace, "" is the current folder
	AddDirs      []string // further writable folders
	Sandbox      string   // sandbox mode, "" is the config's
	Profile      string   // permission profile; overrides Sandbox of the config
	Approval     string   // approval policy, "" is the config's
	ConfigValues []string // KEY=VALUE with a TOML value
	LogLevel     string   // debug, info, warn, error
	Stderr       io.Writer

	Wrapped      *Wrapped // the only server to serve, nil for the built-in tools and all of the config
	OneCall      bool     // nobody waits in the approval queue
	AnswersFirst bool     // downstream servers start after the first answer

	Caller      string           // over HTTP: whose calls these are
	OnlyServers []string         // names of the config's servers, nil for all
	OnEvent     func(gate.Event) // is told of each call; may be nil
	Outputs     *console.Outputs // results kept for the console; nil: each gate has its own

	control *controlFiles // nil until the settings are read
}

// A Wrapped is the one server that `toolgate wrap` serves.
type Wrapped struct {
	Name   string
	Server config.MCPServer
}
