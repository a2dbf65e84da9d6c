package ignore

import (
	"errors"
	"io"
	"os"
)

// maxList is the maximum size of a file of patterns in bytes. Nobody writes a
// longer one by hand.
const maxList = 8 << 20

var errTooLong = errors.New("too long for a list of patterns")

// readSmall returns the text of a regular file.
func readSmall(path string) (string, error) {
	info, err := os.Stat(path) // a named pipe must not be opened
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", os.ErrInvalid
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxList+1))
	if len(b) > maxList {
		return "", errTooLong
	}
	return string(b), err
}
