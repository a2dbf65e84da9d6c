//go:build !linux

package stdio

import "io"

// pollable returns in and a function that does nothing.
func pollable(in io.Reader) (r io.Reader, done func()) { return in, func() {} }
