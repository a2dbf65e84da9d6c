package app

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"toolgate/internal/config"
	"toolgate/policy"
)

// Settings is what flags, config and environment amount to.
type Settings struct {
	Config      config.Config
	Rules       *RuleStore
	control     *controlFiles
	Policy      *policy.Policy
	NoRoots     string   // why there is no workspace to write in, "" when there is
	onlyServers []string // of the config, nil for all
	verbatim    bool     // wrap: names and schemas as they are
	Environ     []string // of the worker
	ConfigDir   string
	StateDir    string
	WorkDir     string // of workers: what they must remember, see [settings.private]
	Log         *slog.Logger
}

// Settings reads flags, config and environment.
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
	// It must be there before the sandbox is planned, or it could not be hidden.
	for _, dir := range []string{s.StateDir, filepath.Join(s.ConfigDir, "rules")} {
		if _, end, err := followLinks(dir); err == nil {
			dir = end // also where a symlink leads nowhere yet
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			s.Log.Debug("a folder of our own is missing", "err", err)
		}
	}
	if err := o.findControl(s); err != nil {
		return nil, err
	}
	if s.Config, err = config.Load(filepath.Join(s.ConfigDir, "config.toml")); err != nil {
		return nil, err
	}
	for _, set := range o.ConfigValues {
		if err := s.Config.Set(set, "-c"); err != nil {
			return nil, err
		}
	}
	s.onlyServers = o.OnlyServers
	rules, err := OpenRules(filepath.Join(s.ConfigDir, "rules"), o.ownRules(s.ConfigDir), s.control.check, s.Log)
	if err != nil {
		return nil, err
	}
	s.Rules = rules
	s.Policy, s.NoRoots, err = o.policy(s)
	return s, err
}

// findControl finds the files that the gate takes orders from. Where it was
// done before, what runs since is not kept from others: they must be the same.
func (o *Options) findControl(s *Settings) (err error) {
	if o.control == nil {
		o.control, err = findControlFiles(s.ConfigDir, s.StateDir)
	} else {
		err = o.control.check(filepath.Join(s.ConfigDir, "config.toml"))
	}
	s.control = o.control
	if _, end, err := followLinks(s.StateDir); err == nil {
		s.StateDir = end // a symlink that is changed later has no effect
	}
	return err
}

// ownRules returns the folder for what a caller over HTTP has answered with
// "always": that is nobody else's rule. "" stands for the user's own.
func (o *Options) ownRules(configDir string) string {
	if o.Caller == "" || o.Caller == "token:default" {
		return ""
	}
	return filepath.Join(configDir, "rules", "callers", digestOf(o.Caller)[:16])
}

// Folders returns where the config, the state and the workers' own files live:
// below $TOOLGATE_HOME, else in the XDG folders. The last is apart from the
// others because no worker may see those.
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
	return filepath.Join(from("XDG_CONFIG_HOME", ".config"), "toolgate"), filepath.Join(state, "toolgate"), filepath.Join(state, "toolgate-worker"), nil
}

// Dir is the working folder of what is started.
func (s *Settings) Dir() string { return s.Policy.Workspace }
