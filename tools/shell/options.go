package shell

import (
	"cmp"
	"slices"
	"time"

	"toolgate/internal/limits"
	"toolgate/policy"
	"toolgate/tools"
)

// Options is the user's configuration of commands. The gate passes it to the worker
// as JSON. The zero value of each field is its default.
type Options struct {
	// Environment selects the variables of a command.
	Environment Environment `json:"environment"`

	// ShortPath means that commands run outside the sandbox and that PATH therefore
	// lacks the folders that commands inside it can write.
	ShortPath bool `json:"short_path,omitempty"`

	// Withheld are the permissions that a call cannot have, because nobody is
	// asked about them. They are neither published nor advised.
	Withheld []policy.Permissions `json:"withheld,omitempty"`

	// Limits are the limits of all commands together and of each process.
	Limits limits.Limits `json:"limits"`

	// Group is the worker's group, nil if the limits are only watched.
	Group *limits.Group `json:"-"`

	// Folders are those whose file systems must not fill up; by default the working
	// folder and the one for temporary files.
	Folders []string `json:"folders,omitempty"`

	// MaxOutputTokens is the maximum output of one answer, unless the call asks for
	// less; 0 means [tools.DefaultBudget].
	MaxOutputTokens int `json:"max_output_tokens,omitempty"`

	// YieldMS is how long shell waits for a command without timeout_ms, in
	// milliseconds, before it returns a session; 0 means 25 seconds. Many clients
	// abandon a call after 60 seconds, some after 30.
	YieldMS int64 `json:"yield_ms,omitempty"`
}

// withholds reports whether a call cannot have p.
func (o Options) withholds(p policy.Permissions) bool { return slices.Contains(o.Withheld, p) }

func (o Options) budget() int { return cmp.Or(max(o.MaxOutputTokens, 0), tools.DefaultBudget) }

func (o Options) yield() time.Duration {
	return time.Duration(cmp.Or(max(o.YieldMS, 0), defaultYield.Milliseconds())) * time.Millisecond
}

const (
	// defaultYield is the default time to wait for a command or a match.
	defaultYield = 25 * time.Second

	// progressEvery is the time between two progress notifications.
	progressEvery = time.Second

	// inputTimeout is how long a program may take to read its input.
	inputTimeout = time.Second

	// pipeGrace is how long to wait for the output of an ended command while a
	// process that it started still holds the pipe.
	pipeGrace = 50 * time.Millisecond

	// grace is the time between terminating and killing a process.
	grace = 2 * time.Second

	// closeGrace is the same after the caller is gone.
	closeGrace = 300 * time.Millisecond

	// timeoutExit is the exit code of a command that timed out, as in timeout(1)
	// and Codex.
	timeoutExit = 124
)
