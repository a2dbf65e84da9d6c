package app

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"toolgate/internal/config"
	"toolgate/internal/console"
	"toolgate/internal/fileowner"
	"toolgate/internal/gate"
	"toolgate/policy"
)

// Options are the settings of the command line, in Codex's words, and those for one caller over
// HTTP. The zero value serves the current folder to one client and writes no log.
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
	others  []string      // over HTTP: the workspaces of the other callers
}

// A Wrapped is the one server that `toolgate wrap` serves.
type Wrapped struct {
	Name   string
	Server config.MCPServer
}

// Settings is the outcome of flags, config file and environment.
type Settings struct {
	Config      config.Config
	Rules       *RuleStore
	control     *controlFiles
	Policy      *policy.Policy
	NoRoots     string   // why the workspace is not writable, "" if it is
	onlyServers []string // names of the config's servers, nil for all
	privateTmp  bool     // commands have a /tmp of their own
	verbatim    bool     // wrap: publish names and schemas unchanged
	Environ     []string // of workers
	ConfigDir   string
	StateDir    string
	WorkDir     string // holds the private folders of workers, see [App.private]
	Log         *slog.Logger
}

// Load reads the config file and the rules and applies o and the environment.
func (o *Options) Load() (*Settings, error) {
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	s := &Settings{Environ: os.Environ()}
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.LogLevel)); err != nil {
		return nil, &policy.ValueError{What: "log level", Value: o.LogLevel, Known: "debug, info, warn, error"}
	}
	s.Log = slog.New(slog.NewTextHandler(o.Stderr, &slog.HandlerOptions{Level: level}))

	var err error
	if s.ConfigDir, s.StateDir, s.WorkDir, err = Folders(); err != nil {
		return nil, err
	}
	// A folder must exist before the sandbox is planned, or it cannot be hidden.
	dirs := []string{s.StateDir, filepath.Join(s.ConfigDir, "rules")}
	for _, dir := range dirs {
		if _, end, err := followLinks(dir); err == nil {
			dir = end // a dangling symlink, too
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			s.Log.Debug("creating a folder", "err", err)
		}
	}
	for _, dir := range append(dirs, s.WorkDir) {
		if err := fileowner.Check(dir); err != nil {
			return nil, err
		}
	}
	if o.control == nil {
		o.control, err = findControlFiles(s.ConfigDir, s.StateDir)
	} else {
		// Processes may run whose sandboxes protect what was found before, so it must not have changed.
		err = o.control.check(filepath.Join(s.ConfigDir, "config.toml"))
	}
	if err != nil {
		return nil, err
	}
	s.control = o.control
	if _, end, err := followLinks(s.StateDir); err == nil {
		s.StateDir = end // changing the symlink later has no effect
	}
	if s.Config, err = o.readConfig(filepath.Join(s.ConfigDir, "config.toml")); err != nil {
		return nil, err
	}
	s.onlyServers = o.OnlyServers
	if s.privateTmp = o.Caller != "" || s.Config.PrivateTmp; s.privateTmp {
		if err := os.MkdirAll(s.WorkDir, 0o700); err != nil { // it must exist to be hidden
			s.Log.Debug("creating a folder", "err", err)
		}
	}
	s.Rules, err = openRules(filepath.Join(s.ConfigDir, "rules"), o.ownRules(s.ConfigDir), s.control.check, s.Log)
	if err != nil {
		return nil, err
	}
	if s.Policy, s.NoRoots, err = o.policy(s); err != nil {
		return nil, err
	}
	s.Policy.Replaceable = func(name string) bool { return s.Programs().Replaceable(name, s.Environ) }
	return s, nil
}

// readConfig reads a config file and applies the settings of the command line.
func (o *Options) readConfig(file string) (config.Config, error) {
	c, err := config.Load(file)
	for _, set := range o.ConfigValues {
		if err == nil {
			err = c.Set(set, "-c")
		}
	}
	return c, err
}

// ownRules returns the folder for the rules that a caller over HTTP adds by the answer
// "always", which apply to that caller alone; "" is the user's own folder.
func (o *Options) ownRules(configDir string) string {
	if o.Caller == "" || o.Caller == "token:default" {
		return ""
	}
	return filepath.Join(configDir, "rules", "callers", digestOf(o.Caller)[:16])
}

// Folders returns the folders of the config, the state and the workers' private files:
// below $TOOLGATE_HOME, else in the XDG folders. The last is separate because workers
// must not see the other two.
func Folders() (configDir, stateDir, workDir string, err error) {
	if home := os.Getenv("TOOLGATE_HOME"); home != "" {
		home, err := filepath.Abs(home)
		return home, filepath.Join(home, "state"), filepath.Join(home, "worker"), err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", "", "", fmt.Errorf("finding the config: %w (set TOOLGATE_HOME to a folder)", err)
	}
	from := func(name, fallback string) string {
		if dir := os.Getenv(name); filepath.IsAbs(dir) {
			return dir
		}
		return filepath.Join(home, fallback)
	}
	state := from("XDG_STATE_HOME", ".local/state")
	configDir = filepath.Join(from("XDG_CONFIG_HOME", ".config"), "toolgate")
	return configDir, filepath.Join(state, "toolgate"), filepath.Join(state, "toolgate-worker"), nil
}
