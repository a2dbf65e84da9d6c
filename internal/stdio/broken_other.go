//go:build !unix

package stdio

import "io"

// watchBroken returns a channel that never closes: here a broken output is
// seen at the next write.
func watchBroken(io.Writer, <-chan struct{}) <-chan struct{} { return nil }
