package applypatch

import (
	"context"

	"toolgate/tools"
)

// Tool is apply_patch without a state folder.
var Tool = New(Options{})[0]

// NewFaulty returns the tools as New does, with fault called before every
// change of the file system; an error takes the change's place.
func NewFaulty(o Options, fault func(op, path string) error) []tools.Tool {
	return newSession(o, &disk{fault: fault}).tools()
}

// RecoverFaulty is Recover with faults.
func RecoverFaulty(stateDir string, fault func(op, path string) error) ([]string, error) {
	leave, notes, err := newSession(Options{StateDir: stateDir}, &disk{fault: fault}).acquire(context.Background())
	if err != nil {
		return nil, err
	}
	leave()
	return notes, nil
}

// NewBounded returns the tools with a history of so many steps and bytes.
func NewBounded(o Options, steps int, bytes int64) []tools.Tool {
	s := newSession(o, &disk{})
	s.store.maxSteps, s.store.maxBytes = steps, bytes
	return s.tools()
}
