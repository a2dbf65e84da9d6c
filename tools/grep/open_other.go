//go:build !unix

package grep

import "os"

func openNonblocking(path string) (*os.File, error) { return os.Open(path) }
