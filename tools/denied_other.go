//go:build !linux

package tools

// refusedBySandbox returns "": only on Linux can denials be distinguished from missing
// permissions.
func refusedBySandbox(error, string, string) string { return "" }
