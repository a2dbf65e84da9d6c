package applypatch

import "toolgate/tools"

// NewFaulty returns the tools as New does, with fault called before every
// change of the file system; an error takes the change's place.
func NewFaulty(o Options, fault func(op, path string) error) []tools.Tool {
	return newTools(o, &disk{fault: fault})
}

// RecoverFaulty is Recover with faults.
func RecoverFaulty(stateDir string, fault func(op, path string) error) ([]string, error) {
	leave, notes, err := newSession(Options{StateDir: stateDir}, &disk{fault: fault}).enter()
	if err != nil {
		return nil, err
	}
	leave()
	return notes, nil
}
