package config

// Tools is [tools]: the built-in tools.
type Tools struct {
	Enabled      []string `toml:"enabled"`       // offered though off by default: write_file, shell_command, local_shell, container.exec
	Disabled     []string `toml:"disabled"`      // not offered
	OutputTokens int      `toml:"output_tokens"` // of an answer at most, default 10000
	YieldMS      int64    `toml:"yield_ms"`      // before a running command hands back a session, default 25000
	Watch        bool     `toml:"watch"`         // see every refusal to a command, at about a millisecond a command
	Limits       Limits   `toml:"limits"`
}

// Limits is [tools.limits]: what one command may use. 0 is the default, -1 no
// limit.
type Limits struct {
	Processes int64  `toml:"processes"`
	OpenFiles int64  `toml:"open_files"`
	FileSize  int64  `toml:"file_size"` // bytes
	CoreSize  int64  `toml:"core_size"` // bytes
	Cgroup    string `toml:"cgroup"`    // a delegated cgroup v2 folder
	Memory    int64  `toml:"memory"`    // bytes, with cgroup
	Tasks     int64  `toml:"tasks"`     // with cgroup
}

// Environment is [shell_environment_policy], Codex's. Its default differs in
// one thing: names that look like a secret's are dropped.
type Environment struct {
	Inherit               string            `toml:"inherit"` // all (default), core, none
	IgnoreDefaultExcludes bool              `toml:"ignore_default_excludes"`
	Keep                  []string          `toml:"keep"` // ours: passed on although the name looks like a secret's
	Exclude               []string          `toml:"exclude"`
	IncludeOnly           []string          `toml:"include_only"`
	Set                   map[string]string `toml:"set"`
	UseProfile            bool              `toml:"experimental_use_profile"` // read for Codex's sake, without effect
}
