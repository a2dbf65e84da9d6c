package tools

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// OpenNonblocking opens path for reading. It does not block if path has become a named
// pipe since it was checked. On Windows, the flag is ignored.
func OpenNonblocking(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// Reason returns err without the operation and the path of a [*fs.PathError] or a
// [*os.LinkError], for a message that names the path as in the call.
func Reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return le.Err
	}
	return err
}

// OneLine returns name, quoted if it contains newlines or other control characters, so
// that it cannot look like several names.
func OneLine(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl) {
		return name
	}
	return strconv.Quote(name)
}
