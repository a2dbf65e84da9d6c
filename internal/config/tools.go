package config

// Tools is [tools]: the built-in tools.
type Tools struct {
	// Enabled are tools that are off by default: write_file, shell_command, local_shell, container.exec.
	Enabled      []string `toml:"enabled"`
	Disabled     []string `toml:"disabled"`      // tools to turn off
	OutputTokens int      `toml:"output_tokens"` // maximum per result, default 10000
	YieldMS      int64    `toml:"yield_ms"`      // before a running command becomes a session, default 25000
	Watch        bool     `toml:"watch"`         // report every denied access; costs about a millisecond per command
}

// Limits is [limits]: the limits of one sandbox, with the fields of [limits.Limits]. 0
// means the default, -1 no limit.
type Limits struct {
	Processes int64 `toml:"processes"`
	Memory    int64 `toml:"memory"` // bytes
	Disk      int64 `toml:"disk"`   // bytes to keep free
	Output    int64 `toml:"output"` // bytes
	OpenFiles int64 `toml:"open_files"`
	FileSize  int64 `toml:"file_size"` // bytes
	CoreSize  int64 `toml:"core_size"` // bytes
}

// Environment is [shell_environment_policy], with Codex's keys. Unlike in Codex, variables
// with names that look like secrets are dropped by default.
type Environment struct {
	Inherit               string            `toml:"inherit"` // all (default), core, none
	IgnoreDefaultExcludes bool              `toml:"ignore_default_excludes"`
	Keep                  []string          `toml:"keep"` // ours: kept even if the name looks like a secret
	Exclude               []string          `toml:"exclude"`
	IncludeOnly           []string          `toml:"include_only"`
	Set                   map[string]string `toml:"set"`
	UseProfile            bool              `toml:"experimental_use_profile"` // Codex's; ignored
}
