//go:build !unix

package main

import "os/exec"

func ownGroup(*exec.Cmd) {}

// endGroup ends a server.
func endGroup(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}
