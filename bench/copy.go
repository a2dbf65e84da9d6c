package main

import (
	"io"
	"os"
	"os/exec"
)

// copyName makes this program a proxy that only copies bytes to and from the
// command that it starts. That is the least that a gateway can cost.
const copyName = "copy-bytes"

// copyBytes is that proxy. It ends when the command does.
func copyBytes(argv []string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { // ends with stdin, or with the process
		io.Copy(in, os.Stdin)
		in.Close()
	}()
	io.Copy(os.Stdout, out)
	return cmd.Wait()
}
