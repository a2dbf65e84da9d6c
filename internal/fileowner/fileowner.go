// Package fileowner reads files that decide what may run: config, rules, tokens, answers.
// It refuses a file that another user could change.
//
//	text, err := fileowner.ReadFile(path)
//
// It examines owners and permission bits, of the file and of every folder and symlink on
// the way to it. On Windows, which has neither, nothing is refused.
package fileowner

import (
	"fmt"
	"os"
)

// An Error reports a file or folder that another user could change.
type Error struct {
	Path string // the file, or a folder or symlink on the way to it
	Why  string
	Fix  string // what to do
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s %s, who could change what toolgate does; %s", e.Path, e.Why, e.Fix)
}

// ReadFile is [os.ReadFile] for a file that passes [Check].
func ReadFile(path string) ([]byte, error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
