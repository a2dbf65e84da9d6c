package applypatch

import (
	"context"
	"strings"

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

// Header returns the line of the text, as it was parsed, that the operation begins with,
// the line after it, and those above.
func (p *Patch) Header(op FileOp) (line, next string, above []string) {
	i := op.Line - p.source.first
	return p.source.lines[i], strings.Join(p.source.lines[i+1:min(i+2, len(p.source.lines))], ""), p.source.lines[:i]
}

// Dir returns the folder that the patch's paths are relative to.
func (p *Patch) Dir() string { return p.source.dir }

// LeniencyNotes returns the notes of all leniencies.
func LeniencyNotes() []string {
	var notes []string
	for _, l := range leniencies {
		notes = append(notes, l.note)
	}
	for _, l := range hunkLeniencies {
		notes = append(notes, l.note)
	}
	return notes
}
