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

	// MaxOutputTokens is how much output one answer holds unless the call
	// asks for less; 0 means [tools.DefaultBudget].
	MaxOutputTokens int `json:"max_output_tokens,omitempty"`

	// SpoolFolder is where output is kept that does not fit an answer; ""
	// means a new private folder in the system's folder for temporary files,
	// made when it is first needed and removed with the tools.
	SpoolFolder string `json:"spool_folder,omitempty"`

	// SpoolBytes bounds what is kept of one command's output; 0 means 2 GiB.
	SpoolBytes int64 `json:"spool_bytes,omitempty"`
}

func (o Options) budget() int {
	if o.MaxOutputTokens > 0 {
		return o.MaxOutputTokens
	}
	return tools.DefaultBudget
}

const (
	// patience is how long the pipes of an ended command are waited for, when
	// something it started still holds them.
	patience = 50 * time.Millisecond

	// grace is the time between the request to end and the kill.
	grace = 2 * time.Second

	// closeGrace is the same when the caller has gone.
	closeGrace = 300 * time.Millisecond

	// timeoutExit is the exit code of a command that ran out of time, as
	// timeout(1) and Codex have it.
	timeoutExit = 124
)
