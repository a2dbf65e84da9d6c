// Package files implements the tools for single files and folders: read_file,
// list_dir, view_image and write_file.
//
//	catalog := []tools.Tool{files.ReadFile, files.ListDir, files.ViewImage, files.WriteFile}
//
// Relative paths are relative to the working folder of the process, which is the
// workspace. The package does not restrict access: the sandbox of the worker does. A
// refusal by the sandbox is distinguished from missing file permissions.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"toolgate/policy"
	"toolgate/tools"
)

// maxOutput is the maximum size of the text in a result, in bytes: clients truncate or
// refuse longer ones.
const maxOutput = tools.DefaultBudget * tools.BytesPerToken

// maxColumn is the maximum number of bytes shown of a line or a name.
const maxColumn = 500

// readAction returns the action of reading path, which is the argument arg.
func readAction(arg, path, hint string) (policy.Action, error) {
	if path == "" {
		return policy.Action{}, fmt.Errorf("%s is empty; %s", arg, hint)
	}
	return policy.Action{Reads: []string{path}}, nil
}

// explain returns an error of the file system in a form for the model. path is the
// one in the call, of a folder or of a file.
func explain(path string, folder bool, err error, hint string) error {
	if denied := tools.AsDenial(err, "read", path); denied != nil {
		return denied
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return tools.NewMissing(path, folder, "does not exist", hint)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: permission denied by the file's owner and mode; choose another file", path)
	}
	return fmt.Errorf("%s: %w", path, tools.Reason(err))
}

// counts reads optional arguments that are at least 1.
type counts struct{ err error } // the first error

func (c *counts) read(arg string, given *int, otherwise int) int {
	if given == nil {
		return otherwise
	}
	if *given < 1 && c.err == nil {
		c.err = fmt.Errorf("%s is %d; it counts from 1", arg, *given)
	}
	return *given
}

// count formats n with the noun one in singular or plural.
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
