//go:build !linux

package sandbox

// Rescan does nothing on this system, where nothing is confined.
func (c *Cmd) Rescan() error { return nil }
