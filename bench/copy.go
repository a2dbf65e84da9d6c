package main

import (
	"io"
	"os"
	"os/exec"
	"time"
)

// copyName makes this program a proxy that only copies bytes to and from the
// command that it starts. That is the least that a gateway can cost.
const copyName = "copy-bytes"

// copyBytes is that proxy. It ends when the command does.
func copyBytes(argv []string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	// Wrapped, so that the command gets pipes instead of our own files.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = struct{ io.Reader }{os.Stdin}, struct{ io.Writer }{os.Stdout}, os.Stderr
	cmd.WaitDelay = time.Millisecond // stdin may stay open longer than the command runs
	return cmd.Run()
}
