package shell

import (
	"time"

	"toolgate/tools"
)

// Options is what the user's config says about commands. The gate hands it to
// the worker as JSON. The zero value is the default of each field.
type Options struct {
	// Environment says which variables a command sees.
	Environment Environment `json:"environment"`

	// ShortPath says that PATH lacks the folders that commands in the sandbox
	// can write, because commands run outside it here.
	ShortPath bool `json:"short_path,omitempty"`

	// Limits bound what a command may use.
	Limits Limits `json:"limits"`

	// MaxOutputTokens is how much output one answer holds unless the call
	// asks for less; 0 means [tools.DefaultBudget].
	MaxOutputTokens int `json:"max_output_tokens,omitempty"`

	// SpoolFolder is where output is kept that does not fit in memory; ""
	// means the system's folder for temporary files. The files in it have no
	// names, so that no command finds them and nothing has to be removed.
	// Where none can be made the first 4 MiB of an output are kept in memory.
	SpoolFolder string `json:"spool_folder,omitempty"`

	// YieldMS is how long shell waits for the end of a command that has no
	// timeout_ms, in milliseconds, before it hands back a session; 0 means
	// 25 seconds. Many clients give a call up after 60 seconds, some after 30.
	YieldMS int64 `json:"yield_ms,omitempty"`

	// SpoolBytes bounds what is kept of one command's output; 0 means 2 GiB.
	SpoolBytes int64 `json:"spool_bytes,omitempty"`

	// SpoolTotal bounds what is kept of all commands' output together; 0 means
	// 8 GiB. Less is kept when the disk has less than 1 GiB left.
	SpoolTotal int64 `json:"spool_total,omitempty"`
}

func (o Options) budget() int {
	if o.MaxOutputTokens > 0 {
		return o.MaxOutputTokens
	}
	return tools.DefaultBudget
}

func (o Options) yield() time.Duration {
	if o.YieldMS > 0 {
		return time.Duration(o.YieldMS) * time.Millisecond
	}
	return defaultYield
}

func (o Options) spoolBytes() int64 {
	if o.SpoolBytes > 0 {
		return o.SpoolBytes
	}
	return 2 << 30
}

func (o Options) spoolTotal() int64 {
	if o.SpoolTotal > 0 {
		return o.SpoolTotal
	}
	return 8 << 30
}

const (
	// defaultYield is how long a call waits that waits for something.
	defaultYield = 25 * time.Second

	// progressEvery is the time between two progress notifications.
	progressEvery = time.Second

	// inputTimeout is how long a program may take to read what is typed.
	inputTimeout = time.Second

	// pipeGrace is how long the pipes of an ended command are waited for, when
	// something it started still holds them.
	pipeGrace = 50 * time.Millisecond

	// grace is the time between the request to end and the kill.
	grace = 2 * time.Second

	// closeGrace is the same when the caller has gone.
	closeGrace = 300 * time.Millisecond

	// timeoutExit is the exit code of a command that ran out of time, as
	// timeout(1) and Codex have it.
	timeoutExit = 124
)
