//go:build !linux

package tools

// refusedBySandbox never knows: only Linux shows, by an errno that the file's
// own permissions do not explain, that it was the sandbox.
func refusedBySandbox(error, string, string) string { return "" }
