// Package files is the tools that look at and write single files and folders:
// read_file and list_dir.
//
//	catalog := []tools.Tool{files.ReadFile, files.ListDir}
//
// A relative path counts from the working folder of the process, which is the
// workspace. What may be read is not decided here: the sandbox of the worker
// does that, and a refusal of it is told apart from a missing permission.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"syscall"
	"unicode"
	"unicode/utf8"

	"toolgate/tools"
)

// maxOutput is how many bytes of text a result holds at most: clients cut or
// refuse longer ones.
const maxOutput = tools.DefaultBudget * tools.BytesPerToken

// maxColumn is how many bytes of a line or a name are shown.
const maxColumn = 500

// explain turns an error of the file system into words for the model. Path is
// what the model asked for.
func explain(path string, err error, hint string) error {
	if denied := tools.AsDenial(err, "read", path); isDenial(denied) {
		return denied
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s: does not exist; %s", path, hint)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: permission denied by the file's owner and mode; choose another file", path)
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

func isDenial(err error) bool {
	var d *tools.Denial
	return errors.As(err, &d)
}

// atLeastOne returns the value of an optional argument that counts from one.
func atLeastOne(arg string, given *int, otherwise int) (int, error) {
	if given == nil {
		return otherwise, nil
	}
	if *given < 1 {
		return 0, &tools.ArgumentError{Msg: fmt.Sprintf("%s is %d; it counts from 1", arg, *given)}
	}
	return *given, nil
}

// cut returns the longest start of s that is at most n bytes and ends at the
// end of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// oneLine returns a name so that it cannot be taken for more than one name:
// quoted when it holds line ends or other control characters.
func oneLine(name string) string {
	plain := utf8.ValidString(name)
	for _, r := range name {
		plain = plain && !unicode.IsControl(r)
	}
	if plain {
		return name
	}
	return strconv.Quote(name)
}

// count returns n of something, in words.
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
